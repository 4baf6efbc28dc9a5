//! Pods that stand for room and exist nowhere: those of CapacityBuffers, and those that may come
//! next.

use std::sync::Arc;

use jiff::Timestamp;
use outrigger_model::{Pod, PodRef, PodSpec, PodState, Readiness};

/// The owner kind of pods that stand for a CapacityBuffer.
pub(super) const BUFFER: &str = "CapacityBuffer";
/// The owner kind of fill-only pods.
pub(super) const FILL: &str = "Fill";

/// Whether a pod only stands for room.
pub fn is_virtual(pod: &Pod) -> bool {
    &*pod.owner_kind == BUFFER || is_fill(pod)
}

/// Whether a pod only stands for what may come next.
pub fn is_fill(pod: &Pod) -> bool {
    &*pod.owner_kind == FILL
}

/// A pod that waits for a node. Real pods have other uids, as those of the API server hold no
/// space.
pub(super) fn virtual_pod(kind: &str, id: PodRef, spec: &Arc<PodSpec>, created_at: Timestamp) -> Pod {
    Pod {
        uid: format!("{kind} {id}"),
        id,
        labels: Arc::default(),
        spec: Arc::clone(spec),
        created_at,
        node_name: None,
        nominated_node: None,
        state: PodState::Unschedulable,
        owner_kind: kind.into(),
        daemon_set: None,
        volume_claims: Vec::new(),
        group: None,
        do_not_disrupt: None,
        deletion_cost: None,
        readiness: Readiness::default(),
        degraded: None,
    }
}
