//! The deletion cost of pods on marked nodes: when a ReplicaSet gets smaller, it ends those first
//! whose node saves most once it is empty.
//!
//! Only pods of ReplicaSets get one. Those with a hard spread are left out, since ending them by
//! node would break it, and a value that somebody else has set is never touched.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt, StreamExt};
use outrigger_model::{DeletionCost, Pod, PodState, Snapshot};
use outrigger_policy::disruption::RankedNode;
use tokio::time::Instant;

use super::Tick;
use crate::chain::chain;

/// How many pods get a deletion cost, or lose ours, in one tick.
const MAX_CHANGES: usize = 200;
/// How many calls are on their way at once.
const CONCURRENT_CALLS: usize = 16;
/// The kind of the controllers that heed it.
const REPLICA_SET: &str = "ReplicaSet";

impl Tick<'_> {
    /// Gives the pods of marked nodes their deletion cost, and takes ours off all others. What
    /// cannot be changed now is left for the next tick.
    pub(super) async fn set_deletion_costs(
        &self,
        snapshot: &Snapshot,
        ranking: &[RankedNode],
        marked: &BTreeSet<&str>,
    ) {
        let changes = changes(snapshot, ranking, marked);
        if changes.len() > MAX_CHANGES {
            tracing::info!(
                left_out = changes.len() - MAX_CHANGES,
                "some pods get their deletion cost in a later tick"
            );
        }
        let calls = changes.into_iter().take(MAX_CHANGES).map(|(pod, cost)| {
            async move {
                if Instant::now() >= self.deadline {
                    return;
                }
                if let Err(error) = self.ports.cluster.set_deletion_cost(pod, cost).await {
                    tracing::info!(pod = %pod.id, error = chain(&error), "no deletion cost was set this time");
                }
            }
            .boxed()
        });
        futures::stream::iter(calls).buffer_unordered(CONCURRENT_CALLS).collect::<Vec<()>>().await;
    }
}

/// The pods whose deletion cost is not what it should be, those first that stay where they are,
/// then those whose node saves most.
fn changes<'s>(
    snapshot: &'s Snapshot,
    ranking: &[RankedNode],
    marked: &BTreeSet<&str>,
) -> Vec<(&'s Pod, Option<i32>)> {
    // Where a Karpenter lives, it sets the deletion costs, as of 1.15: two hands would undo each
    // other.
    let are_ours = !snapshot.karpenter_lease.may_be_live(snapshot.taken_at);
    let ranked: BTreeMap<&str, i32> = ranking
        .iter()
        .filter(|node| are_ours && marked.contains(node.node.as_str()))
        .map(|node| (node.node.as_str(), node.deletion_cost))
        .collect();
    let costs = given_before(snapshot, ranked);
    let mut changes: Vec<(&Pod, Option<i32>)> = snapshot
        .pods
        .iter()
        .filter(|pod| pod.state == PodState::Bound && pod.deletion_cost.is_none_or(DeletionCost::is_ours))
        .filter_map(|pod| {
            let of_node = pod.node_name.as_deref().and_then(|node| costs.get(node)).copied();
            let wanted = of_node.filter(|_| may_have_one(pod));
            (wanted != pod.deletion_cost.map(|deletion| deletion.cost)).then_some((pod, wanted))
        })
        .collect();
    changes.sort_by_key(|(pod, cost)| (*cost, pod.uid.as_str()));
    changes
}

/// The deletion cost of each node: what it was given once stays, so that nothing shifts while it
/// empties.
fn given_before<'a>(snapshot: &Snapshot, mut costs: BTreeMap<&'a str, i32>) -> BTreeMap<&'a str, i32> {
    let mut given: BTreeMap<&str, i32> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.state == PodState::Bound) {
        if let (Some(node), Some(ours)) =
            (pod.node_name.as_deref(), pod.deletion_cost.filter(|cost| cost.is_ours()))
        {
            let least = given.entry(node).or_insert(ours.cost);
            *least = ours.cost.min(*least);
        }
    }
    for (node, cost) in &mut costs {
        *cost = given.get(node).copied().unwrap_or(*cost);
    }
    costs
}

/// Whether its ReplicaSet may choose it for its node.
fn may_have_one(pod: &Pod) -> bool {
    &*pod.owner_kind == REPLICA_SET && !pod.spec.has_hard_spread()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outrigger_model::fixtures::{at, pod};
    use outrigger_model::pod::TopologySpread;
    use outrigger_model::selector::LabelSelector;
    use outrigger_model::{CostSetter, KarpenterLease, labels};

    use super::*;

    fn with(name: &str, node: &str, cost: Option<(i32, CostSetter)>) -> Pod {
        let deletion_cost = cost.map(|(cost, set_by)| DeletionCost { cost, set_by });
        Pod { deletion_cost, ..pod(name, Some(node), "ReplicaSet") }
    }

    fn ranked(node: &str, deletion_cost: i32) -> RankedNode {
        RankedNode { node: node.into(), is_steered: true, deletion_cost }
    }

    /// What changes where `goes` and `goes-too` are marked, as `pod cost`.
    fn changed(pods: Vec<Pod>, karpenter_lease: KarpenterLease) -> Vec<String> {
        let snapshot = Snapshot { pods, karpenter_lease, ..Snapshot::empty("", at(0)) };
        let ranking = [ranked("stays", -1), ranked("goes", -50), ranked("goes-too", -70)];
        let changes = changes(&snapshot, &ranking, &BTreeSet::from(["goes", "goes-too", "unranked"]));
        let words = |(pod, cost): &(&Pod, Option<i32>)| {
            format!("{} {}", pod.uid, cost.map_or("none".into(), |cost| cost.to_string()))
        };
        changes.iter().map(words).collect()
    }

    #[test]
    fn pods_of_replica_sets_get_what_their_node_saves() {
        let pods = vec![
            with("stays", "stays", None),
            with("goes", "goes", None),
            with("first", "goes-too", None),
            with("unranked", "unranked", None),
            Pod { owner_kind: "Job".into(), ..with("job", "goes", None) },
            Pod { owner_kind: "StatefulSet".into(), ..with("set", "goes", None) },
            Pod { state: PodState::Terminating, ..with("ends", "goes", None) },
        ];
        assert_eq!(changed(pods, KarpenterLease::Absent), ["first -70", "goes -50"]);
    }

    #[test]
    fn what_somebody_else_has_set_stays() {
        let others = |name: &str, node: &str| with(name, node, Some((-7, CostSetter::Others)));
        let pods = vec![others("a", "goes"), others("b", "stays"), others("c", "unranked")];
        assert_eq!(changed(pods, KarpenterLease::Absent), Vec::<String>::new());
    }

    #[test]
    fn a_node_keeps_its_value_until_it_is_to_stay() {
        let ours = |name: &str, node: &str, cost| with(name, node, Some((cost, CostSetter::Outrigger)));
        let pods = vec![
            ours("old", "goes", -45),
            with("new", "goes", None),
            ours("stays", "stays", -45),
            ours("free", "elsewhere", -1),
        ];
        assert_eq!(changed(pods, KarpenterLease::Absent), ["free none", "stays none", "new -45"]);
    }

    #[test]
    fn a_hard_spread_is_not_broken_by_node() {
        let mut pods = vec![with("a", "goes", None)];
        let mut spec = (*pods[0].spec).clone();
        spec.topology_spread.push(TopologySpread {
            topology_key: labels::ZONE.into(),
            max_skew: 1,
            schedule_anyway: false,
            selector: LabelSelector::default(),
            min_domains: None,
            match_label_keys: Vec::new(),
            honor_affinity: true,
            honor_taints: false,
        });
        pods[0].spec = Arc::new(spec);
        assert_eq!(changed(pods, KarpenterLease::Absent), Vec::<String>::new());
    }

    #[test]
    fn beside_a_karpenter_ours_are_taken_off() {
        let pods = vec![with("a", "goes", None), with("b", "goes", Some((-9, CostSetter::Outrigger)))];
        assert_eq!(changed(pods, KarpenterLease::Unreadable("403".into())), ["b none"]);
    }
}
