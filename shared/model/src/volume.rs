//! PersistentVolumeClaims as far as a decision about nodes needs them: where the volume can be attached, and by which
//! driver.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Pod, PodRef, Requirements};

/// A PersistentVolumeClaim that some pod mounts, with what its volume and StorageClass say about nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaim {
    /// Namespace and name of the claim.
    pub id: PodRef,
    /// The CSI driver that attaches it; in-tree names are translated. Empty when nothing has to be attached.
    #[serde(default)]
    pub driver: String,
    /// What counts as one attachment: the volume's handle, or the claim itself while it has no volume.
    #[serde(default)]
    pub handle: String,
    /// Alternatives of which the node must meet one, from the volume's node affinity or the StorageClass's
    /// allowedTopologies; none means that any node will do (Karpenter `volumetopology.go`).
    #[serde(default)]
    pub alternatives: Vec<Requirements>,
    /// Whether kube-scheduler must choose the node of a pod that mounts it: the volume waits for its first consumer,
    /// whose node it is told by kube-scheduler, or one pod alone may use it (ReadWriteOncePod), which nobody else
    /// makes sure of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_scheduler: bool,
    /// Why a pod that mounts it cannot be planned for, whole and with the claim's name, as `PersistentVolumeClaim
    /// shop/data: it is being deleted`; absent when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl VolumeClaim {
    /// A claim that keeps its pods from being planned for.
    pub fn unusable(id: PodRef, why: &str) -> Self {
        let problem = Some(format!("PersistentVolumeClaim {id}: {why}"));
        Self {
            id,
            driver: String::new(),
            handle: String::new(),
            alternatives: Vec::new(),
            needs_scheduler: true,
            problem,
        }
    }
}

/// The claims that a decision about these pods has to know: those that any of them mounts, since attachments are
/// counted for each node; none while no pod that needs a node mounts one.
pub fn claims_to_know<'a>(
    pods: impl Iterator<Item = &'a Pod> + Clone,
    needs_node: impl FnMut(&Pod) -> bool,
) -> BTreeSet<PodRef> {
    let mounts = |pod: &&Pod| !pod.volume_claims.is_empty();
    if !pods.clone().filter(mounts).any(needs_node) {
        return BTreeSet::new();
    }
    let mounting = pods.filter(mounts).filter(|pod| !pod.state.is_over());
    let claim = |pod: &Pod, name: &String| PodRef { namespace: pod.id.namespace.clone(), name: name.clone() };
    mounting.flat_map(|pod| pod.volume_claims.iter().map(move |name| claim(pod, name))).collect()
}
