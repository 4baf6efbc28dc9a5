//! PodDisruptionBudgets, as far as they say who never leaves a node of its own accord, and who may not just now.

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
    /// Whether it lets none of them go, however many are healthy: `maxUnavailable` 0 or 0 %, or `minAvailable` 100 %
    /// (Karpenter `pkg/utils/pdb`, fully blocking).
    pub is_fully_blocking: bool,
    /// How many of them may go now (`status.disruptionsAllowed`); `None` where nobody has counted, as in files that
    /// people write, which keeps nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruptions_allowed: Option<u32>,
}

impl PodDisruptionBudget {
    /// Whether it covers a pod.
    pub fn covers(&self, pod: &Pod) -> bool {
        self.id.namespace == pod.id.namespace && self.selector.matches(&pod.labels)
    }
}
