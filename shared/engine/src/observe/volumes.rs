//! The volumes of pods, as far as a decision needs them.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::volume::claims_to_know;
use outrigger_model::{Pod, PodRef, Snapshot, VolumeClaim};
use outrigger_planning::leaving;

use crate::error::chain;
use crate::ports::{ClusterError, Ports, Volumes};

/// Volumes are looked at only while a pod that waits for a node mounts one: most clusters never pay for them. A right
/// that is missing concerns the pods with volumes alone, and the others go on.
pub(super) async fn add_volumes(ports: Ports<'_>, snapshot: &mut Snapshot) -> Result<(), ClusterError> {
    // Pods whose node is going are planned for as well.
    let mounted = claims_to_know(leaving::seen(snapshot).pods.iter(), Pod::is_provisionable);
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
    snapshot.volume_claims = volumes.claims;
}
