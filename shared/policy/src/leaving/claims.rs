//! Claims whose nodes are going, and the pods that must find another place because of it.
//!
//! Pods that will not leave of their own accord are left out (Karpenter:
//! `CurrentlyReschedulablePods`): a node that was bought for them would stand empty for as long as
//! they stay. They are planned for once their machine falls whatever they ask for, or the time
//! comes near at which they are made to leave.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{
    CapacityType, ClaimState, Command, Node, NodeClaim, Pod, Termination, TerminationReason,
};

use super::eviction::EvictionRules;
use super::replacement::held;

/// So long before pods are made to leave a node is launched for them, which joins and becomes ready
/// meanwhile.
const LEAD: SignedDuration = SignedDuration::from_mins(5);

/// Claims whose nodes are going.
#[derive(Clone, Debug, Default)]
pub struct LeavingClaims {
    /// Until when pods that will not leave may stay, by instance and by node.
    until: BTreeMap<String, Timestamp>,
}

impl LeavingClaims {
    /// The claims that end.
    pub fn ending(claims: &[NodeClaim]) -> Self {
        let mut until = BTreeMap::new();
        for claim in claims {
            let spared = match (claim.status.state, &claim.status.termination) {
                (ClaimState::Terminating, _) => Timestamp::MIN,
                (ClaimState::Draining, Some(end)) => spared_until(claim, end),
                (ClaimState::Draining, None) => Timestamp::MAX,
                _ => continue,
            };
            let names = [claim.status.node_name.as_deref(), claim.instance_id()];
            until.extend(names.into_iter().flatten().map(|name| (name.to_owned(), spared)));
        }
        Self { until }
    }

    /// The claims that end, and those that a command is to replace.
    pub fn ending_or_replaced(claims: &[NodeClaim], commands: &[Command], now: Timestamp) -> Self {
        let mut leaving = Self::ending(claims);
        let replaced = held(claims, commands, now).filter_map(NodeClaim::instance_id);
        leaving.until.extend(replaced.map(|id| (id.to_owned(), Timestamp::MAX)));
        leaving
    }

    /// Whether no claim's node is going.
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Their nodes, and the nodes of ours that show by themselves that they are going.
    pub fn nodes<'n>(&self, nodes: impl IntoIterator<Item = &'n Node>) -> LeavingNodes<'n> {
        let until = |node: &Node| {
            let by_id = node.instance_id().and_then(|id| self.until.get(id));
            let of_claim = by_id.or_else(|| self.until.get(&node.name)).copied();
            of_claim.or_else(|| node.is_leaving().then_some(Timestamp::MAX))
        };
        let going = nodes.into_iter().filter_map(|node| Some((node.name.as_str(), until(node)?)));
        LeavingNodes { until: going.collect() }
    }
}

/// Nodes that are going.
#[derive(Clone, Debug, Default)]
pub struct LeavingNodes<'n> {
    /// Until when pods that will not leave may stay, by the node's name.
    until: BTreeMap<&'n str, Timestamp>,
}

impl LeavingNodes<'_> {
    /// Whether no node is going.
    pub fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Whether the pods of one of them go soon, whatever they or budgets say.
    pub(super) fn falls(&self, node: &str, now: Timestamp) -> bool {
        self.until.get(node).is_some_and(|until| now >= *until)
    }

    /// Whether a pod is on one of them and needs a place elsewhere now.
    pub fn reschedules(&self, pod: &Pod, rules: EvictionRules<'_>) -> bool {
        let until = pod.node_name.as_deref().and_then(|node| self.until.get(node));
        until.is_some_and(|until| {
            pod.is_reschedulable() && (rules.now >= *until || rules.blocker(pod).is_none())
        })
    }
}

/// Until when pods that will not leave may stay: not at all where the machine falls within minutes
/// whatever they ask for.
fn spared_until(claim: &NodeClaim, end: &Termination) -> Timestamp {
    let is_on_demand = claim
        .status
        .instance
        .as_ref()
        .is_none_or(|instance| instance.capacity_type == CapacityType::OnDemand);
    match end.reason {
        TerminationReason::InstanceGone | TerminationReason::Lost => Timestamp::MIN,
        TerminationReason::Interrupted if !is_on_demand => Timestamp::MIN,
        _ => end.by.map_or(Timestamp::MAX, |by| by.saturating_sub(LEAD).unwrap_or(Timestamp::MIN)),
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::{PodState, Protection, Taint, labels};

    use super::*;
    use crate::fixtures::pod;
    use outrigger_model::fixtures::{at, claim, node};

    /// Whether a pod on `node`, whose claim stands at `state`, must find another place.
    fn reschedules(node: &Node, state: Option<ClaimState>, pod: &Pod) -> bool {
        let claims: Vec<NodeClaim> =
            state.into_iter().map(|state| claim().with_status(|status| status.state = state)).collect();
        let leaving = LeavingClaims::ending_or_replaced(&claims, &[], at(0));
        leaving.nodes([node]).reschedules(pod, EvictionRules { budgets: &[], now: at(0) })
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
            (&deleted, Some(ClaimState::Initialized), false),
            (&deleted, Some(ClaimState::Draining), true),
            (&foreign, None, false),
        ];
        for (node, state, leaves) in table {
            let actual = reschedules(node, state, &pod("ReplicaSet", PodState::Bound));
            assert_eq!(actual, leaves, "{state:?} {node:?}");
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
            let actual = reschedules(&node(Vec::new()), Some(ClaimState::Draining), &pod(owner, state));
            assert_eq!(actual, leaves, "{owner:?} {state:?}");
        }
    }

    #[test]
    fn pods_that_will_not_leave_are_planned_for_when_they_must() {
        use TerminationReason::{Deleted, InstanceGone, Interrupted, Lost};
        let (drains, ends) = (ClaimState::Draining, ClaimState::Terminating);
        // The state, the reason, how it is paid for, the seconds until patience ends, and whether a
        // shy pod is planned for.
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
        for (state, reason, kind, deadline, expected) in table {
            let termination = Termination { by: deadline.map(at), ..Termination::new(reason, "test", at(0)) };
            let mut ending = claim().with_status(|status| {
                status.state = state;
                status.termination = Some(termination);
            });
            ending.status.instance.as_mut().unwrap().capacity_type = kind;
            let (node, mut shy) = (node(Vec::new()), pod("ReplicaSet", PodState::Bound));
            shy.do_not_disrupt = Some(Box::new(Protection { value: "true".into(), started_at: None }));
            let claims = LeavingClaims::ending(&[ending]);
            let nodes = claims.nodes([&node]);
            let rules = EvictionRules { budgets: &[], now: at(0) };
            assert_eq!(nodes.reschedules(&shy, rules), expected, "{state:?} {reason} {kind} {deadline:?}");
            shy.do_not_disrupt = None;
            assert!(nodes.reschedules(&shy, rules));
        }
    }
}
