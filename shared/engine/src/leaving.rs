//! Pods whose node is going: a place is planned for them as if they were pending, so that what replaces their node starts
//! before they fall (Karpenter: pods on deleting nodes).
//!
//! Each tick plans them anew. The first plan buys a node for them; the later ones find room on it, since the claim names them
//! and the room that they take on their old node counts for nothing. A pod that falls leaves the plan, and the one that its
//! controller makes takes its room: what is bought stays the same from the first plan to the last pod.

use std::collections::BTreeSet;

use outrigger_model::{ClaimState, Node, Pod, PodState, Snapshot, labels};

use crate::drain;
use crate::ports::{ClusterState, LedgerState};

/// Marks the pods that must find another place.
pub(crate) fn mark(snapshot: &mut Snapshot) {
    let going: BTreeSet<&str> = going(snapshot.nodes.iter(), &ending(snapshot.claims.iter()));
    for pod in &mut snapshot.pods {
        if pod.is_reschedulable() && pod.node_name.as_deref().is_some_and(|node| going.contains(node)) {
            pod.state = PodState::Leaving;
            // It may still carry the name of the node that it once was meant for, which says nothing about its next one.
            pod.nominated_node = None;
        }
    }
}

/// Claims that were ending when a tick began, for telling which pods it has to look after.
#[derive(Debug, Default)]
pub(crate) struct Going {
    ending: BTreeSet<String>,
}

impl Going {
    pub(crate) fn of(ledger: &LedgerState) -> Self {
        Self { ending: ending(ledger.claims.iter()).into_iter().map(str::to_owned).collect() }
    }

    /// The pods that must find another place, as far as claims that were known to end, and what the cluster itself shows, say.
    pub(crate) fn pods<'s>(&self, state: &'s ClusterState) -> Vec<&'s Pod> {
        let going = going(state.nodes.values(), &self.ending.iter().map(String::as_str).collect());
        if going.is_empty() {
            return Vec::new();
        }
        let pods = state.pods.values().filter(|pod| pod.is_reschedulable());
        pods.filter(|pod| pod.node_name.as_deref().is_some_and(|node| going.contains(node))).collect()
    }
}

/// The names of the nodes that are going.
fn going<'n>(nodes: impl Iterator<Item = &'n Node>, ending: &BTreeSet<&str>) -> BTreeSet<&'n str> {
    let is_of = |node: &Node| {
        ending.contains(node.name.as_str()) || node.instance_id().is_some_and(|id| ending.contains(id))
    };
    nodes.filter(|node| is_closed(node) || is_of(node)).map(|node| node.name.as_str()).collect()
}

/// The instances and nodes of claims that end.
fn ending<'a>(claims: impl Iterator<Item = &'a outrigger_model::NodeClaim>) -> BTreeSet<&'a str> {
    let ends = claims.filter(|claim| matches!(claim.state, ClaimState::Draining | ClaimState::Terminating));
    ends.flat_map(|claim| [claim.node_name.as_deref(), claim.instance_id()]).flatten().collect()
}

/// Whether a node of ours shows by itself that it is going. Karpenter looks after its own.
fn is_closed(node: &Node) -> bool {
    node.annotations.contains_key(labels::CLAIM) && (node.deleting || node.taints.contains(&drain::taint()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use jiff::Timestamp;
    use outrigger_model::{NodeClaim, PodRef, PodSpec};

    use super::*;
    use crate::register::tests::{claim, node};

    fn pod(owner_kind: &str, state: PodState) -> Pod {
        Pod {
            id: PodRef { namespace: "default".into(), name: "p".into() },
            uid: "p".into(),
            labels: Arc::new(BTreeMap::new()),
            spec: Arc::new(PodSpec::default()),
            created_at: Timestamp::UNIX_EPOCH,
            node_name: Some("i-1".into()),
            nominated_node: Some("i-1".into()),
            state,
            owner_kind: owner_kind.into(),
            volume_claims: Vec::new(),
            group: None,
        }
    }

    /// What becomes of a pod on `node`, whose claim stands at `state`; and whether a tick would look after it.
    fn marked(node: &Node, state: Option<ClaimState>, pod: Pod) -> (PodState, bool) {
        let claims: Vec<NodeClaim> = state.into_iter().map(|state| NodeClaim { state, ..claim() }).collect();
        let cluster = ClusterState {
            nodes: [(node.name.clone(), node.clone())].into(),
            pods: [(pod.uid.clone(), pod.clone())].into(),
            daemon_sets: Vec::new(),
        };
        let ledger = LedgerState { claims: claims.clone(), ..LedgerState::default() };
        let seen = !Going::of(&ledger).pods(&cluster).is_empty();
        let mut snapshot = Snapshot::empty("c", Timestamp::UNIX_EPOCH);
        (snapshot.nodes, snapshot.pods, snapshot.claims) = (vec![node.clone()], vec![pod], claims);
        mark(&mut snapshot);
        (snapshot.pods[0].state, seen)
    }

    #[test]
    fn pods_of_nodes_that_go_are_planned_for_and_others_are_not() {
        let ours = |change: &dyn Fn(&mut Node)| {
            let mut node = node(Vec::new());
            node.annotations.insert(labels::CLAIM.into(), "web-1".into());
            change(&mut node);
            node
        };
        let (open, tainted) = (ours(&|_| {}), ours(&|node| node.taints = vec![drain::taint()]));
        let deleted = ours(&|node| node.deleting = true);
        let foreign = Node { taints: vec![drain::taint()], deleting: true, ..node(Vec::new()) };
        let table = [
            (&open, Some(ClaimState::Initialized), false),
            (&open, Some(ClaimState::Draining), true),
            (&open, Some(ClaimState::Terminating), true),
            (&open, None, false),
            (&tainted, Some(ClaimState::Initialized), true),
            (&deleted, Some(ClaimState::Initialized), true),
            (&foreign, None, false),
        ];
        for (node, state, leaves) in table {
            let expected = if leaves { PodState::Leaving } else { PodState::Bound };
            let found = marked(node, state, pod("ReplicaSet", PodState::Bound));
            assert_eq!(found, (expected, leaves), "{state:?} {node:?}");
        }
    }

    #[test]
    fn only_pods_that_come_back_are_planned_for() {
        let table = [
            ("ReplicaSet", PodState::Bound, true),
            ("StatefulSet", PodState::Terminating, true),
            ("ReplicaSet", PodState::Terminating, false),
            ("ReplicaSet", PodState::Finished, false),
            ("DaemonSet", PodState::Bound, false),
            ("Node", PodState::Bound, false),
            ("", PodState::Bound, false),
        ];
        for (owner, state, leaves) in table {
            let expected = if leaves { PodState::Leaving } else { state };
            let found = marked(&node(Vec::new()), Some(ClaimState::Draining), pod(owner, state));
            assert_eq!(found, (expected, leaves), "{owner:?} {state:?}");
        }
    }
}
