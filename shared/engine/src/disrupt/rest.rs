//! Rest after a look at a large cluster. Its pods come and go each minute, and a look reads all of
//! it: 32 MB of 1,000 nodes. So a look is good for longer, the larger the cluster, unless a node
//! has emptied.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use outrigger_model::{ClaimState, NodeClaim, Pod, Rest, Snapshot};
use outrigger_policy::disruption::Consolidation;

use super::quiet::{A_TICK, LONGEST, wait_of};

/// One minute of rest for so many nodes.
const NODES_A_MINUTE: usize = 200;

/// How long a look at a cluster of this size is good for.
fn longest(snapshot: &Snapshot) -> SignedDuration {
    let minutes = i64::try_from(snapshot.nodes.len() / NODES_A_MINUTE).unwrap_or(i64::MAX);
    SignedDuration::from_secs(minutes.saturating_mul(60)).min(LONGEST)
}

/// Whether a look at the cluster is good for longer than a tick.
pub(super) fn is_large(snapshot: &Snapshot) -> bool {
    longest(snapshot) > A_TICK
}

/// How long nobody need look again after this look; `None` where the next tick must.
pub(super) fn after(snapshot: &Snapshot, found: &Consolidation) -> Option<Rest> {
    let longest = longest(snapshot);
    let begins_now = found.commands.iter().any(|command| command.starts_now);
    if !is_large(snapshot) || begins_now {
        return None;
    }
    let staying = staying(snapshot);
    // An empty node that only time keeps is ended as soon as that has passed.
    let may_end_soon = |node: &str| {
        let kept = found.kept.iter().find(|kept| kept.node == node);
        kept.is_some_and(|kept| !kept.reason.lasts() || !kept.causes.is_empty())
    };
    if staying.empty.iter().any(|node| may_end_soon(node)) {
        return None;
    }
    let least = found.commands.iter().filter_map(wait_of).min().unwrap_or(longest).min(longest);
    (least > A_TICK).then(|| Rest {
        until: snapshot.taken_at.saturating_add(least).unwrap_or(snapshot.taken_at),
        staying: staying.of_others,
        cost_per_hour: found.before.instances + found.before.beside,
    })
}

/// Whether no node has emptied, by how many pods are on each node now. A node that is gone has not.
pub(super) fn lasts(rest: &Rest, pods: &BTreeMap<String, usize>) -> bool {
    rest.staying.iter().all(|(node, staying)| pods.get(node).is_none_or(|pods| pods > staying))
}

/// Nodes of ours that are ready for pods and held by no command.
struct Staying {
    /// Those that have no pod that could move.
    empty: BTreeSet<String>,
    /// How many pods the others have beside those that could move.
    of_others: BTreeMap<String, usize>,
}

fn staying(snapshot: &Snapshot) -> Staying {
    let is_free =
        |claim: &&NodeClaim| claim.status.state == ClaimState::Initialized && claim.status.command.is_none();
    let ours: BTreeSet<&str> =
        snapshot.claims.iter().filter(is_free).filter_map(NodeClaim::instance_id).collect();
    let pods = snapshot.pods_by_node();
    let mut staying = Staying { empty: BTreeSet::new(), of_others: BTreeMap::new() };
    for node in snapshot.nodes.iter().filter(|node| node.instance_id().is_some_and(|id| ours.contains(id))) {
        let pods: &[&Pod] = pods.get(node.name.as_str()).map(Vec::as_slice).unwrap_or_default();
        let bound = pods.iter().filter(|pod| pod.is_bound_to_its_node()).count();
        if bound == pods.len() {
            staying.empty.insert(node.name.clone());
        } else {
            staying.of_others.insert(node.name.clone(), bound);
        }
    }
    staying
}

#[cfg(test)]
mod tests {
    use outrigger_model::Node;
    use outrigger_model::fixtures::{at, claim, instance, node, pod};
    use outrigger_policy::disruption::WhyKept::{NothingCheaper, TooYoung};

    use super::super::fixtures::{command, found};
    use super::*;

    /// So many nodes `i-1`, `i-2` and so on of ours, each with a pod of a daemonset, and the first
    /// with one more.
    fn cluster(nodes: usize) -> Snapshot {
        let mut snapshot = Snapshot::empty("c", at(0));
        for number in 1..=nodes {
            let name = format!("i-{number}");
            let provider_id = Some(format!("aws:///us-east-1a/{name}"));
            snapshot.nodes.push(Node { name: name.clone(), provider_id, ..node(Vec::new()) });
            snapshot.pods.push(pod(&format!("log-{number}"), Some(&name), "DaemonSet"));
            let claim = NodeClaim { name: format!("c-{number}"), ..claim() };
            snapshot.claims.push(claim.with_status(|status| {
                status.state = ClaimState::Initialized;
                status.instance = Some(instance(&name));
            }));
        }
        snapshot.pods.push(pod("web", Some("i-1"), "ReplicaSet"));
        snapshot
    }

    fn seconds(snapshot: &Snapshot, found: &Consolidation) -> Option<i64> {
        after(snapshot, found).map(|rest| rest.until.as_second())
    }

    #[test]
    fn a_look_is_good_for_longer_the_larger_the_cluster() {
        for (nodes, rests) in
            [(199, None), (399, None), (400, Some(120)), (999, Some(240)), (4_000, Some(300))]
        {
            let found = found(vec![NothingCheaper], Vec::new());
            assert_eq!(seconds(&cluster(nodes), &found), rests, "{nodes}");
        }
    }

    #[test]
    fn what_begins_soon_is_not_slept_over() {
        let large = cluster(1_000);
        let young = || TooYoung { least: std::time::Duration::from_mins(8) };
        let table = [
            (vec![NothingCheaper], vec![command(None)], None),
            (vec![NothingCheaper], vec![command(Some(5.0))], Some(180)),
            // The first node has a pod, and the second is empty.
            (vec![young(), NothingCheaper], vec![], Some(300)),
            (vec![NothingCheaper, young()], vec![], None),
        ];
        for (kept, commands, rests) in table {
            let case = format!("{kept:?} {commands:?}");
            assert_eq!(seconds(&large, &found(kept, commands)), rests, "{case}");
        }
    }

    #[test]
    fn rest_ends_once_a_node_empties() {
        let rest = after(&cluster(1_000), &found(vec![NothingCheaper], Vec::new())).unwrap();
        assert_eq!(rest.staying, [("i-1".to_owned(), 1)].into());
        let seen = |pods: &[(&str, usize)]| {
            let pods = pods.iter().map(|(node, pods)| ((*node).to_owned(), *pods)).collect();
            lasts(&rest, &pods)
        };
        assert!(seen(&[("i-1", 2), ("i-2", 0)]), "others come and go");
        assert!(seen(&[("i-1", 9)]) && seen(&[("i-2", 1)]), "a node that is gone needs no look");
        assert!(!seen(&[("i-1", 1), ("i-2", 1)]), "nobody but a daemonset is on it");
    }
}
