//! Pods whose node is going: a place is planned for them as if they were pending, so that what replaces their node
//! starts before they fall (Karpenter: pods on deleting nodes).
//!
//! Each decision plans them anew. The first one buys a node for them; the later ones find room on it, since the claim
//! names them and the room that they take on their old node counts for nothing. A pod that falls leaves the plan, and
//! the one that its controller makes takes its room: what is bought stays the same from the first plan to the last
//! pod.
//!
//! `claims` says which nodes are going, `eviction` which pods will not leave them, and `replacement` which nodes go of
//! our own accord, once what their pods move to is ready. [`seen`] is the world as a decision sees it.

mod claims;
pub mod eviction;
pub mod replacement;

use std::borrow::Cow;

use outrigger_model::{Node, Pod, PodState, Snapshot, Taint};

pub use claims::LeavingClaims;
use eviction::EvictionRules;

/// A snapshot as a decision sees it: pods that must find another place are [`PodState::Leaving`], and nodes that are
/// to be replaced are closed as for a drain, so that nothing is planned onto them. Where that is so already, or no node
/// is going, it stays as it is.
pub fn seen(snapshot: &Snapshot) -> Cow<'_, Snapshot> {
    if !is_any_node_leaving(snapshot) {
        return Cow::Borrowed(snapshot);
    }
    let rules = EvictionRules::of(snapshot);
    let replaced = replacement::replaced_nodes(snapshot);
    let is_closed = |node: &Node| replaced.contains(node.name.as_str()) && !node.is_disrupted();
    let closed: Vec<(usize, Node)> = indices(&snapshot.nodes, is_closed)
        .into_iter()
        .map(|index| {
            let mut node = snapshot.nodes[index].clone();
            node.taints.push(Taint::disrupted());
            (index, node)
        })
        .collect();
    let claims = LeavingClaims::ending(&snapshot.claims);
    let going = claims.nodes(snapshot.nodes.iter().chain(closed.iter().map(|(_, node)| node)));
    let is_seen_so = |pod: &Pod| pod.state == PodState::Leaving && pod.nominated_node.is_none();
    let moved = indices(&snapshot.pods, |pod| !is_seen_so(pod) && going.reschedules(pod, rules));
    // A copy of a large cluster takes longer than many a plan for it.
    if closed.is_empty() && moved.is_empty() {
        return Cow::Borrowed(snapshot);
    }
    let mut next = snapshot.clone();
    for (index, node) in closed {
        next.nodes[index] = node;
    }
    for index in moved {
        next.pods[index].state = PodState::Leaving;
        // It may still carry the name of the node that it once was meant for, which says nothing about its next one.
        next.pods[index].nominated_node = None;
    }
    Cow::Owned(next)
}

/// Where such items are in a list.
fn indices<T>(list: &[T], is_such: impl Fn(&T) -> bool) -> Vec<usize> {
    list.iter().enumerate().filter(|(_, item)| is_such(item)).map(|(index, _)| index).collect()
}

/// Whether some node is going or is to be replaced. Only then does a decision ask for the PodDisruptionBudgets.
pub fn is_any_node_leaving(snapshot: &Snapshot) -> bool {
    let mut held = replacement::held(&snapshot.claims, &snapshot.commands, snapshot.taken_at);
    held.next().is_some() || !LeavingClaims::ending(&snapshot.claims).nodes(&snapshot.nodes).is_empty()
}

#[cfg(test)]
mod tests {
    use outrigger_model::{ClaimState, Command, TerminationReason, labels};

    use super::*;
    use crate::fixtures::{pod, snapshot};
    use outrigger_model::fixtures::{at, claim};

    #[test]
    fn a_world_in_which_no_node_goes_is_seen_as_it_is() {
        let mut world = snapshot();
        world.pods.push(pod("ReplicaSet", PodState::Bound));
        assert!(matches!(seen(&world), Cow::Borrowed(_)));
        world.claims[0].status.state = ClaimState::Draining;
        let once = seen(&world);
        assert_eq!((once.pods[0].state, once.pods[0].nominated_node.as_ref()), (PodState::Leaving, None));
        assert_eq!(world.pods[0].state, PodState::Bound, "the facts stay");
        assert!(matches!(seen(&once), Cow::Borrowed(same) if *same == *once), "and it is seen but once");
    }

    #[test]
    fn the_node_of_a_command_is_seen_closed() {
        let mut world = snapshot();
        world.pods.push(pod("ReplicaSet", PodState::Bound));
        let command = Command::new(TerminationReason::Rebalanced, "test", vec![claim().name], at(0));
        let held = Some(command.id.clone());
        world.claims = vec![claim().with_status(|status| {
            status.state = ClaimState::Initialized;
            status.command = held;
        })];
        world.commands = vec![command];
        world.nodes[0].annotations.insert(labels::CLAIM.into(), claim().name);
        let replaced = seen(&world);
        assert!(replaced.nodes[0].is_disrupted() && !world.nodes[0].is_disrupted());
        assert_eq!(replaced.pods[0].state, PodState::Leaving);
        assert!(
            matches!(seen(&replaced), Cow::Borrowed(same) if *same == *replaced),
            "and it is seen but once"
        );
        world.taken_at = at(600);
        assert_eq!(seen(&world).nodes, world.nodes, "nobody waits for so long");
    }
}
