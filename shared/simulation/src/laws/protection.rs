//! What must hold for pods and nodes that ask not to be disrupted: nobody ends them by choice.
//! These laws read the annotation themselves.

use jiff::Timestamp;
use outrigger_model::{DoNotDisrupt, Node, NodeClaim, Pod, PodState, TerminationReason};

use super::departure::CLOCK_TOLERANCE;
use super::disruption::is_by_choice;
use super::health::LONGEST_STANDSTILL;
use crate::looks::Look;
use crate::state::State;
use crate::time::{Moment, after};

/// Whether a pod that lives asks to be left alone; what nobody can read asks for it, too.
pub(crate) fn asks(pod: &Pod, at: Timestamp) -> bool {
    let Some(wish) = &pod.do_not_disrupt else { return false };
    let is_over = match wish.value.as_str() {
        "true" => false,
        "false" => true,
        value => match (value.parse(), wish.started_at) {
            (Ok(DoNotDisrupt::For(length)), Some(started)) => after(started, length) <= at,
            _ => false,
        },
    };
    !is_over && matches!(pod.state, PodState::Bound | PodState::Leaving)
}

/// A node that asked not to be disrupted, by its own annotation or that of its NodeClaim object,
/// when the run looked at it.
pub(crate) fn ended_node(state: &State, look: &Look, claim: &NodeClaim, node: &Node) -> Option<String> {
    let annotated_at = state.cluster.annotated_at(&claim.name);
    let was_seen = annotated_at.is_some_and(|at| look.mirrors.is_none_or(|looked| at < looked));
    was_seen.then(|| format!("{} ends by choice, although its NodeClaim asks not to be disrupted", node.name))
}

/// Pods that ask to be left alone on a machine that goes by choice, and that were there long before
/// it was given up.
pub(crate) fn ended_pods(state: &State, claim: &NodeClaim, id: &str, moment: Moment) -> Vec<String> {
    let Some(end) = claim.status.termination.as_ref().filter(|end| is_by_choice(end.reason)) else {
        return Vec::new();
    };
    let given_up = end.terminating_at.unwrap_or(moment.at);
    let margin = LONGEST_STANDSTILL + CLOCK_TOLERANCE;
    let was_seen = |pod: &&Pod| {
        let came = state.cluster.bound_at(pod);
        let came = came.map_or(state.cluster.made_at(pod), |came| {
            let ago = moment.elapsed.saturating_sub(came);
            moment.at.saturating_sub(ago).unwrap_or(moment.at)
        });
        let asked = moment.elapsed.saturating_sub(state.cluster.asks_since(pod));
        let asked = moment.at.saturating_sub(asked).unwrap_or(moment.at);
        after(came.max(asked), margin) < given_up
    };
    let on = state.cluster.pods().values().filter(|pod| pod.node_name.as_deref() == Some(id));
    on.filter(|pod| asks(pod, moment.at) && asks(pod, given_up))
        .filter(was_seen)
        .map(|pod| format!("{id} was terminated by choice under {}, who asks not to be disrupted", pod.id))
        .collect()
}

/// Whether pods are asked on a node that goes for this reason. The drain of a drifted node ends by
/// a time whatever they want, where there is one.
pub(crate) fn are_asked(reason: TerminationReason, claim: &NodeClaim) -> bool {
    reason != TerminationReason::Drifted || claim.spec.termination_grace_period.is_none()
}
