//! PodDisruptionBudgets, as far as they say who never leaves a node of its own accord, and who may
//! not just now.

use serde::{Deserialize, Serialize};

use crate::selector::LabelSelector;
use crate::{Pod, PodRef};

/// A PodDisruptionBudget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDisruptionBudget {
    /// Namespace and name.
    pub id: PodRef,
    /// The pods of its namespace that it covers.
    pub selector: LabelSelector,
    /// Whether it lets none of them go, however many are healthy: `maxUnavailable` 0 or 0 %, or
    /// `minAvailable` 100 % (Karpenter `pkg/utils/pdb`, fully blocking).
    pub is_fully_blocking: bool,
    /// How many of them may go now (`status.disruptionsAllowed`); `None` where nobody has counted,
    /// as in files that people write, which keeps nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruptions_allowed: Option<u32>,
    /// What it says of pods that run and are not ready (`unhealthyPodEvictionPolicy`).
    #[serde(default, skip_serializing_if = "UnhealthyPods::is_default")]
    pub unhealthy_pods: UnhealthyPods,
    /// How many of its pods are ready; `None` where nobody has counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<HealthyPods>,
    /// Why it cannot be read, in which case it keeps all pods that it may cover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// What a budget says of pods that run and are not ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnhealthyPods {
    /// They may go while enough of its other pods are ready.
    #[default]
    IfHealthyBudget,
    /// They may always go.
    AlwaysAllow,
    /// They stay, as Kubernetes asks of whoever does not know a policy of this name.
    Unknown(String),
}

impl UnhealthyPods {
    /// Whether it is the policy of a budget that names none.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// How many pods of a budget are ready, and how many must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthyPods {
    /// `status.currentHealthy`.
    pub current: u32,
    /// `status.desiredHealthy`.
    pub desired: u32,
}

impl PodDisruptionBudget {
    /// Whether it covers a pod.
    pub fn covers(&self, pod: &Pod) -> bool {
        self.id.namespace == pod.id.namespace && self.selector.matches(&pod.labels)
    }
}
