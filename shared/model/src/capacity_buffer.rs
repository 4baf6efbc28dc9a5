//! `CapacityBuffer` of `autoscaling.x-k8s.io`: room that is kept free for pods to come.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{PodRef, PodSpec};

/// A CapacityBuffer with its template and number resolved: so many pods of this kind shall find room at any time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBuffer {
    /// Namespace and name.
    pub id: PodRef,
    /// How many pods: the larger of `replicas` and the percentage, within the buffer's limits.
    pub count: u32,
    /// What each asks for, volumes left out (Karpenter `provisioning/buffers.go`).
    pub spec: Arc<PodSpec>,
    /// The labels of such pods.
    pub labels: Arc<BTreeMap<String, String>>,
}
