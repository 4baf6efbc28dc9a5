//! PersistentVolumeClaims as far as a decision about nodes needs them: where the volume can be attached, and by which
//! driver.

use serde::{Deserialize, Serialize};

use crate::{PodRef, Requirements};

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
    /// Why a pod that mounts it cannot be planned for, as `it is being deleted`; absent when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}
