//! Pods whose node is going: a place is planned for them as if they were pending, so that what replaces their node starts
//! before they fall (Karpenter: pods on deleting nodes).
//!
//! Each tick plans them anew. The first plan buys a node for them; the later ones find room on it, since the claim names them
//! and the room that they take on their old node counts for nothing. A pod that falls leaves the plan, and the one that its
//! controller makes takes its room: what is bought stays the same from the first plan to the last pod.
//!
//! Pods that will not leave of their own accord are left out (Karpenter: `CurrentlyReschedulablePods`): a node that was bought for
//! them would stand empty for as long as they stay. They are planned for once their machine falls whatever they ask for, or the
//! time comes near at which they are made to leave.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{
    CapacityType, ClaimState, Node, NodeClaim, Pod, PodState, Snapshot, Termination, TerminationReason,
    labels,
};

use crate::disruption::command;
use crate::observe::staying::{Staying, disruption_budgets};
use crate::ports::{ClusterError, ClusterState, LedgerState, Ports};

/// So long before pods are made to leave a node is launched for them, which joins and becomes ready meanwhile.
const LEAD: SignedDuration = SignedDuration::from_mins(5);

/// Marks the pods that must find another place.
pub(crate) async fn mark(ports: Ports<'_>, snapshot: &mut Snapshot) -> Result<(), ClusterError> {
    let (ending, now) = (ending(snapshot.claims.iter()), snapshot.taken_at);
    let are_any_replaced = command::held(&snapshot.claims, &snapshot.commands, now).next().is_some();
    if !are_any_replaced && going(snapshot.nodes.iter(), &ending).is_empty() {
        return Ok(());
    }
    let budgets = disruption_budgets(ports).await?;
    let staying = Staying { budgets: &budgets, now };
    command::close_in(snapshot, &staying);
    mark_all(snapshot, &ending, &staying);
    Ok(())
}

fn mark_all(snapshot: &mut Snapshot, ending: &Ending, staying: &Staying<'_>) {
    let going = going(snapshot.nodes.iter(), ending);
    for pod in &mut snapshot.pods {
        if must_go(pod, &going, staying) {
            pod.state = PodState::Leaving;
            // It may still carry the name of the node that it once was meant for, which says nothing about its next one.
            pod.nominated_node = None;
        }
    }
}

/// Claims that were ending, or to be replaced, when a tick began, for telling which pods it has to look after.
#[derive(Debug, Default)]
pub(crate) struct Going {
    ending: Ending,
}

impl Going {
    pub(crate) fn of(ledger: &LedgerState, now: Timestamp) -> Self {
        let mut ending = ending(ledger.claims.iter());
        let replaced = command::held(&ledger.claims, &ledger.commands, now);
        ending.extend(replaced.filter_map(NodeClaim::instance_id).map(|id| (id.to_owned(), Timestamp::MAX)));
        Self { ending }
    }

    /// The pods that must find another place, as far as claims that were known to end, and what the cluster itself shows, say.
    /// Budgets are not looked at: a pod that one of them keeps costs a plan without it.
    pub(crate) fn pods<'s>(&self, state: &'s ClusterState, now: Timestamp) -> Vec<&'s Pod> {
        let going = going(state.nodes.values(), &self.ending);
        if going.is_empty() {
            return Vec::new();
        }
        let staying = Staying { budgets: &[], now };
        state.pods.values().filter(|pod| must_go(pod, &going, &staying)).collect()
    }
}

/// Instances and nodes of claims that end, and until when pods that will not leave may stay on each.
type Ending = BTreeMap<String, Timestamp>;

fn must_go(pod: &Pod, going: &BTreeMap<&str, Timestamp>, staying: &Staying<'_>) -> bool {
    let until = pod.node_name.as_deref().and_then(|node| going.get(node));
    until.is_some_and(|until| {
        pod.is_reschedulable() && (staying.now >= *until || staying.reason(pod).is_none())
    })
}

/// The nodes that are going, by name, and until when pods that will not leave may stay on each.
fn going<'n>(nodes: impl Iterator<Item = &'n Node>, ending: &Ending) -> BTreeMap<&'n str, Timestamp> {
    let until = |node: &Node| {
        let by_id = node.instance_id().and_then(|id| ending.get(id));
        let of_claim = by_id.or_else(|| ending.get(&node.name)).copied();
        of_claim.or_else(|| is_closed(node).then_some(Timestamp::MAX))
    };
    nodes.filter_map(|node| Some((node.name.as_str(), until(node)?))).collect()
}

fn ending<'a>(claims: impl Iterator<Item = &'a NodeClaim>) -> Ending {
    let mut ending = Ending::new();
    for claim in claims {
        let until = match (claim.state, &claim.termination) {
            (ClaimState::Terminating, _) => Timestamp::MIN,
            (ClaimState::Draining, Some(end)) => spared_until(claim, end),
            (ClaimState::Draining, None) => Timestamp::MAX,
            _ => continue,
        };
        let names = [claim.node_name.as_deref(), claim.instance_id()];
        ending.extend(names.into_iter().flatten().map(|name| (name.to_owned(), until)));
    }
    ending
}

/// Until when pods that will not leave may stay: not at all where the machine falls within minutes whatever they ask for.
fn spared_until(claim: &NodeClaim, end: &Termination) -> Timestamp {
    let is_on_demand =
        claim.instance.as_ref().is_none_or(|instance| instance.capacity_type == CapacityType::OnDemand);
    match end.reason {
        TerminationReason::InstanceGone | TerminationReason::Lost => Timestamp::MIN,
        TerminationReason::Interrupted if !is_on_demand => Timestamp::MIN,
        _ => end.by.map_or(Timestamp::MAX, |by| by.saturating_sub(LEAD).unwrap_or(Timestamp::MIN)),
    }
}

/// Whether a node of ours shows by itself that it is going. Karpenter looks after its own.
fn is_closed(node: &Node) -> bool {
    node.annotations.contains_key(labels::CLAIM) && (node.deleting || node.is_disrupted())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use outrigger_model::{NodeClaim, Protection, Taint};

    use super::*;
    use crate::fixtures::{claim, node, pod_on_node};
    use crate::node::terminate::Cause;

    /// What becomes of a pod on `node`, whose claim stands at `state`; and whether a tick would look after it.
    fn marked(node: &Node, state: Option<ClaimState>, pod: Pod) -> (PodState, bool) {
        let claims: Vec<NodeClaim> = state.into_iter().map(|state| NodeClaim { state, ..claim() }).collect();
        let cluster = ClusterState {
            nodes: [(node.name.clone(), node.clone())].into(),
            pods: [(pod.uid.clone(), pod.clone())].into(),
            daemon_sets: Vec::new(),
        };
        let ledger = LedgerState { claims: claims.clone(), ..LedgerState::default() };
        let now = Timestamp::UNIX_EPOCH;
        let seen = !Going::of(&ledger, now).pods(&cluster, now).is_empty();
        let mut snapshot = Snapshot::empty("c", now);
        (snapshot.nodes, snapshot.pods) = (vec![node.clone()], vec![pod]);
        mark_all(&mut snapshot, &ending(claims.iter()), &Staying { budgets: &[], now });
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
        let (open, tainted) = (ours(&|_| {}), ours(&|node| node.taints = vec![Taint::disrupted()]));
        let deleted = ours(&|node| node.deleting = true);
        let foreign = Node { taints: vec![Taint::disrupted()], deleting: true, ..node(Vec::new()) };
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
            let found = marked(node, state, pod_on_node("ReplicaSet", PodState::Bound));
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
            let found = marked(&node(Vec::new()), Some(ClaimState::Draining), pod_on_node(owner, state));
            assert_eq!(found, (expected, leaves), "{owner:?} {state:?}");
        }
    }

    #[test]
    fn pods_that_will_not_leave_are_planned_for_when_they_must() {
        use TerminationReason::{Deleted, InstanceGone, Interrupted, Lost};
        let (drains, ends) = (ClaimState::Draining, ClaimState::Terminating);
        // The state, the reason, how it is paid for, the seconds until patience ends, and whether a shy pod is planned for.
        let table = [
            (drains, Deleted, CapacityType::Spot, None, false),
            (drains, Deleted, CapacityType::Spot, Some(301), false),
            (drains, Deleted, CapacityType::Spot, Some(300), true),
            (drains, Deleted, CapacityType::Spot, Some(0), true),
            (ends, Deleted, CapacityType::OnDemand, None, true),
            (drains, Interrupted, CapacityType::Spot, None, true),
            (drains, Interrupted, CapacityType::Reserved, None, true),
            (drains, Interrupted, CapacityType::OnDemand, None, false),
            (drains, Interrupted, CapacityType::OnDemand, Some(60), true),
            (drains, Lost, CapacityType::OnDemand, None, true),
            (drains, InstanceGone, CapacityType::OnDemand, None, true),
        ];
        let now = Timestamp::UNIX_EPOCH;
        for (state, reason, kind, left, expected) in table {
            let by = left.map(|seconds| Timestamp::from_second(seconds).unwrap());
            let cause = Cause { by, ..Cause::new(reason, "test") };
            let mut living = NodeClaim { state: ClaimState::Initialized, ..claim() };
            living.instance.as_mut().unwrap().capacity_type = kind;
            let ended = crate::node::terminate::ending(&living, &cause, now).unwrap();
            let ends = ending([&NodeClaim { state, ..ended }].into_iter());
            let (node, mut shy) = (node(Vec::new()), pod_on_node("ReplicaSet", PodState::Bound));
            shy.do_not_disrupt = Some(Box::new(Protection { value: "true".into(), started_at: None }));
            let going = going([&node].into_iter(), &ends);
            let found = must_go(&shy, &going, &Staying { budgets: &[], now });
            assert_eq!(found, expected, "{state:?} {reason} {kind} {left:?}");
            shy.do_not_disrupt = None;
            assert!(must_go(&shy, &going, &Staying { budgets: &[], now }));
        }
    }
}
