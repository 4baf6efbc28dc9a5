//! What must hold of objects that cannot be read whole.

use std::collections::BTreeSet;

use outrigger_model::NodeClaim;

use crate::state::State;

/// No node is bought for a pod of which nobody knows what it asks for.
pub(crate) fn planned(state: &State, launched: &[NodeClaim]) -> Vec<String> {
    let pods = state.cluster.pods().values();
    let unread: BTreeSet<&str> =
        pods.filter(|pod| pod.degraded.is_some()).map(|pod| pod.uid.as_str()).collect();
    let meant = launched.iter().flat_map(|claim| &claim.status.nominated);
    let wrong = meant.filter(|pod| unread.contains(pod.uid.as_str()));
    wrong.map(|pod| format!("a node is bought for {}, which nobody can read whole", pod.pod)).collect()
}
