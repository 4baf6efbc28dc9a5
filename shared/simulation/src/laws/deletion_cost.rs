//! What must hold for deletion costs: those that somebody else gave a pod are neither asked to
//! change nor changed.

use outrigger_model::{DeletionCost, Pod};

use crate::state::State;
use crate::time::Moment;

/// Somebody of ours asks to change a cost that was not ours when the pod was read.
pub(crate) fn asked(pod: &Pod, moment: Moment) -> Option<String> {
    let is_theirs = pod.deletion_cost.is_some_and(|cost| !DeletionCost::is_ours(cost));
    let seconds = moment.elapsed.as_secs();
    is_theirs.then(|| {
        format!("after {seconds} s the deletion cost of {}, which is not ours, is to change", pod.id)
    })
}

/// Pods that have not the cost which their workload gives them.
pub(super) fn lost(state: &State) -> Vec<String> {
    let lost = state.cluster.with_another_deletion_cost();
    lost.map(|pod| format!("{} has lost the deletion cost that its owner gave it", pod.id)).collect()
}
