//! What must hold of pods with volumes when nothing else happens: volumes can be attached elsewhere
//! in their zone, so they keep no node.

use outrigger_model::{ClaimState, NodeClaim, Pod};

use crate::state::State;
use crate::time::Moment;

/// Nodes of an old image that stay although all pods on them, of which some have volumes, could
/// move and nobody asks for the nodes. One that somebody has cordoned is his to end.
pub(crate) fn kept_from_drift(state: &State, moment: Moment) -> Vec<String> {
    let ready = state.ledger.claims().filter(|claim| claim.status.state == ClaimState::Initialized);
    let drifted = ready.filter(|claim| has_old_image(state, claim));
    let stays = drifted.filter_map(|claim| {
        let node = claim.instance_id()?;
        let on: Vec<&Pod> = state.cluster.pods().values().filter(|pod| pod.occupies(node)).collect();
        let is_cordoned = state.cluster.nodes().get(node).is_some_and(|node| node.unschedulable);
        let is_asked_to_stay = is_cordoned || state.cluster.annotated_at(&claim.name).is_some();
        let mounts = on.iter().any(|pod| !pod.volume_claims.is_empty());
        let minds = |pod: &&Pod| pod.is_protected(moment.at) || state.cluster.never_goes(pod);
        (mounts && !is_asked_to_stay && !on.iter().any(minds)).then_some(node)
    });
    stays
        .map(|node| format!("{node} has an old image, and pods with volumes on it that could move"))
        .collect()
}

fn has_old_image(state: &State, claim: &NodeClaim) -> bool {
    let machine = claim.instance_id().and_then(|id| state.cloud.machines().get(id));
    machine.is_some_and(|machine| state.cloud.is_old_image(&machine.instance.image_id))
}
