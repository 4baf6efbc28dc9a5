//! Attrition: a drifted node may empty by itself before it is replaced, as pods of ReplicaSets and
//! Jobs come and go.
//!
//! By a deadline it is replaced all the same. A node on which no such pod is would wait in vain, so
//! it is replaced at once, as an empty one is.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use outrigger_model::Snapshot;

use super::candidates::{Candidate, Candidates, after};
use super::settings::DisruptionSettings;

/// The kinds of controllers whose pods leave by themselves.
const COMING_AND_GOING: [&str; 2] = ["ReplicaSet", "Job"];

/// Since when nodes are known to have drifted.
pub struct Attrition<'a> {
    now: Timestamp,
    /// `None` where nobody remembers it: each is taken to have drifted long ago.
    since: Option<BTreeMap<&'a str, Timestamp>>,
}

impl<'a> Attrition<'a> {
    /// What is remembered, with the nodes that are seen to have drifted for the first time. One of
    /// which nothing can be said just now is remembered as it was.
    pub fn new(snapshot: &'a Snapshot, judged: &Candidates<'a>) -> Self {
        let now = snapshot.taken_at;
        let candidates =
            || judged.candidates.iter().map(|candidate| (candidate.node.name.as_str(), &candidate.drift));
        let kept = judged.kept.iter().map(|kept| (kept.node.name.as_str(), &kept.drift));
        let drifted = candidates().chain(kept).filter(|(_, drift)| !drift.is_empty());
        let as_asked: BTreeSet<&str> =
            candidates().filter(|(_, drift)| drift.is_empty()).map(|(name, _)| name).collect();
        let since = snapshot.drifted.as_ref().map(|remembered| {
            let names = snapshot.nodes.iter().map(|node| node.name.as_str());
            let before = names.filter_map(|name| Some((name, *remembered.get(name)?)));
            let mut since: BTreeMap<&str, Timestamp> =
                before.filter(|(name, _)| !as_asked.contains(name)).collect();
            for (name, _) in drifted {
                since.entry(name).or_insert(now);
            }
            since
        });
        Self { now, since }
    }

    /// Until when a drifted node may empty by itself; `None` where it is to be replaced by now.
    pub fn may_last_until(
        &self,
        candidate: &Candidate<'_>,
        settings: &DisruptionSettings,
    ) -> Option<Timestamp> {
        let since = self.since.as_ref()?.get(candidate.node.name.as_str())?;
        let may_empty = candidate.pods.iter().any(|pod| COMING_AND_GOING.contains(&&*pod.owner_kind))
            && candidate.pool.spec.replicas.is_none();
        Some(after(*since, settings.drift_deadline)).filter(|until| may_empty && *until > self.now)
    }

    /// What is to be remembered.
    pub fn into_remembered(self) -> BTreeMap<String, Timestamp> {
        self.since.into_iter().flatten().map(|(node, since)| (node.to_owned(), since)).collect()
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::{Pod, labels};

    use super::*;
    use crate::Options;
    use crate::disruption::candidates;
    use crate::disruption::fixtures::{World, minutes_ago, now, pod};

    /// A node that has drifted, as somebody has known for so many minutes.
    fn drifted(known_for: Option<i64>, kinds: &[&str]) -> World {
        let mut world = World::new();
        world.annotate(labels::NODE_POOL_HASH, "v1-1");
        let pods = kinds.iter().enumerate().map(|(number, kind)| {
            let name = format!("pod-{number}");
            Pod { owner_kind: (*kind).into(), ..pod(&name) }
        });
        let pods: Vec<Pod> = pods.collect();
        world.snapshot.pods.extend(pods);
        let since = known_for.map(|minutes| ("i-0".to_owned(), minutes_ago(minutes)));
        world.snapshot.drifted = Some(since.into_iter().collect());
        world
    }

    /// For how many minutes the node may still last, and what is remembered of it.
    fn remaining_and_since(world: &World) -> (Option<i64>, Option<Timestamp>) {
        let settings = DisruptionSettings::default();
        let judged = candidates(&world.snapshot, &settings, &Options::default());
        let attrition = Attrition::new(&world.snapshot, &judged);
        let candidate = judged.candidates.first();
        let until = candidate
            .and_then(|candidate| attrition.may_last_until(candidate, &settings.for_pool(candidate.pool)));
        let minutes = until.map(|until| until.duration_since(now()).as_mins());
        (minutes, attrition.into_remembered().remove("i-0"))
    }

    #[test]
    fn a_drifted_node_lasts_until_its_deadline_while_it_may_empty() {
        let table: [(Option<i64>, &[&str], Option<i64>); 7] = [
            (None, &["ReplicaSet"], Some(1_440)),
            (Some(40), &["Job"], Some(1_400)),
            (Some(40), &["StatefulSet", "ReplicaSet"], Some(1_400)),
            (Some(1_440), &["ReplicaSet"], None),
            (Some(40), &["StatefulSet"], None),
            (Some(40), &[""], None),
            (Some(40), &[], None),
        ];
        for (known_for, kinds, expected) in table {
            let (lasts, since) = remaining_and_since(&drifted(known_for, kinds));
            assert_eq!(lasts, expected, "{known_for:?} {kinds:?}");
            assert_eq!(since, Some(minutes_ago(known_for.unwrap_or(0))), "{kinds:?}");
        }
    }

    #[test]
    fn a_pool_says_how_long_and_who_remembers_nothing_waits_for_nothing() {
        let mut world = drifted(Some(40), &["ReplicaSet"]);
        world.pool().annotations.insert(labels::DRIFT_DEADLINE.into(), "1h".into());
        assert_eq!(remaining_and_since(&world).0, Some(20));
        world.pool().annotations.insert(labels::DRIFT_DEADLINE.into(), "0".into());
        assert_eq!(remaining_and_since(&world).0, None);
        let mut world = drifted(Some(40), &["ReplicaSet"]);
        world.snapshot.drifted = None;
        assert_eq!(remaining_and_since(&world), (None, None));
        let mut world = drifted(Some(40), &["ReplicaSet"]);
        world.pool().spec.replicas = Some(1);
        assert_eq!(remaining_and_since(&world).0, None, "a static pool is replaced node by node");
    }

    #[test]
    fn what_cannot_be_looked_at_is_remembered_and_what_is_as_asked_is_not() {
        let mut world = drifted(Some(40), &["ReplicaSet"]);
        world.node().created_at = minutes_ago(1);
        assert_eq!(remaining_and_since(&world), (None, Some(minutes_ago(40))), "too young");
        let mut world = drifted(Some(40), &["ReplicaSet"]);
        world.unhash();
        assert_eq!(remaining_and_since(&world).1, None, "it is what its pool asks for again");
        let mut world = drifted(Some(40), &["ReplicaSet"]);
        world.snapshot.nodes.clear();
        assert_eq!(remaining_and_since(&world).1, None, "it has gone");
    }
}
