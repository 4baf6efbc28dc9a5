//! The volumes of pods, as far as a decision needs them.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::volume::claims_to_know;
use outrigger_model::{Pod, PodRef, Snapshot, VolumeClaim};
use outrigger_policy::Supposed;

use super::Purpose;
use crate::chain::chain;
use crate::ports::{ClusterError, Ports, Volumes};

/// Volumes are looked at only while a pod mounts one that the decision may place: most clusters
/// never pay for them. A right that is missing concerns the pods with volumes alone, and the others
/// go on.
pub(super) async fn add_volumes(
    ports: Ports<'_>,
    snapshot: &mut Snapshot,
    purpose: Purpose,
) -> Result<(), ClusterError> {
    let mounted = mounted(snapshot, purpose);
    if mounted.is_empty() {
        return Ok(());
    }
    let volumes = match ports.cluster.volumes(&mounted).await {
        Err(error @ ClusterError::Refused { status: 403, .. }) => unusable(mounted, &error),
        answer => answer?,
    };
    put_volumes(snapshot, volumes);
    Ok(())
}

/// The claims that matter: those of pods that need a node, or whose node is going, and to find
/// nodes that may be disrupted those of all pods that would need another.
fn mounted(snapshot: &Snapshot, purpose: Purpose) -> BTreeSet<PodRef> {
    let seen = Supposed::leaving(snapshot);
    let managed = snapshot.nodes.iter().filter(|node| node.node_pool().is_some());
    let managed: BTreeSet<&str> = match purpose {
        Purpose::Provision => BTreeSet::new(),
        Purpose::Disruption => managed.map(|node| node.name.as_str()).collect(),
    };
    let moves = |pod: &Pod| {
        pod.is_reschedulable() && pod.node_name.as_deref().is_some_and(|node| managed.contains(node))
    };
    claims_to_know(seen.pods.iter(), |pod| pod.is_provisionable() || moves(pod))
}

/// What stands for volumes that could not be read: their pods wait, or are left to kube-scheduler.
pub(crate) fn unusable(mounted: BTreeSet<PodRef>, error: &ClusterError) -> Volumes {
    let why = chain(error);
    tracing::warn!(error = why, "nothing is decided for pods with volumes");
    let claims = mounted.into_iter().map(|id| VolumeClaim::unusable(id, &why)).collect();
    Volumes { claims, limits: BTreeMap::new() }
}

pub(crate) fn put_volumes(snapshot: &mut Snapshot, mut volumes: Volumes) {
    for node in &mut snapshot.nodes {
        node.volume_limits = volumes.limits.remove(&node.name).unwrap_or_default();
    }
    VolumeClaim::keep_on_selected_nodes(&mut volumes.claims, &snapshot.nodes);
    snapshot.volume_claims = volumes.claims;
}
