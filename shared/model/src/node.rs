//! Nodes of the cluster, as the API server knows them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::node_claim_object::ConditionStatus;
use crate::{ForeignTaint, Invalid, NodeProtection, ProtectedObject, Resources, Taint, labels};

/// A node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its name; on kOps the instance id. Never an identity: names are used again.
    pub name: String,
    /// Its uid.
    #[serde(default)]
    pub uid: String,
    /// The version of the object that was read; a change of it names this version.
    #[serde(default)]
    pub resource_version: String,
    /// `aws:///<zone>/<instance id>`, which ties it to an instance and a claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Finalizers: while one is left, the object outlives its deletion.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// Taints.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Taints that cannot be understood. Whoever writes the others writes these too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_taints: Vec<ForeignTaint>,
    /// What the machine has.
    pub capacity: Resources,
    /// What pods may use of it.
    pub allocatable: Resources,
    /// How many volumes each CSI driver attaches at most (`CSINode`); a driver that is not named
    /// has no limit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub volume_limits: BTreeMap<String, u32>,
    /// What its kubelet, and whoever watches over it, report of it, by type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: BTreeMap<String, NodeCondition>,
    /// Whether its Ready condition is true.
    pub ready: bool,
    /// Whether it is cordoned.
    #[serde(default)]
    pub unschedulable: bool,
    /// Whether it is being deleted.
    #[serde(default)]
    pub deleting: bool,
    /// When it was made.
    pub created_at: Timestamp,
    /// The annotation `karpenter.sh/do-not-disrupt` that somebody gave its NodeClaim object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_do_not_disrupt: Option<String>,
    /// Why it could not be read whole; what could be read of it stands in the other fields. It is
    /// counted and left alone: nothing is planned onto it, and it is not given up by choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded: Option<Box<Invalid>>,
}

/// A condition of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCondition {
    /// Whether it is true.
    pub status: ConditionStatus,
    /// Since when, by the cluster's clock; `None` where nobody wrote it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

impl Node {
    /// The instance id at the end of its providerID.
    pub fn instance_id(&self) -> Option<&str> {
        self.provider_id.as_deref()?.rsplit('/').next().filter(|id| id.starts_with("i-"))
    }

    /// Whether Outrigger (or Karpenter) has finished starting it.
    pub fn is_initialized(&self) -> bool {
        self.labels.get(labels::INITIALIZED).is_some_and(|value| value == "true")
    }

    /// Whether it keeps new pods away as for a drain.
    pub fn is_disrupted(&self) -> bool {
        self.taints.contains(&Taint::disrupted())
    }

    /// Whether it bears the soft taint of nodes that are to be disrupted.
    pub fn is_disruption_candidate(&self) -> bool {
        self.taints.contains(&Taint::disruption_candidate())
    }

    /// Whether a node of ours is closed for its drain. Karpenter looks after its own. That somebody
    /// deletes it is not enough: so many may be deleted at once that none ends.
    pub fn is_leaving(&self) -> bool {
        self.annotations.contains_key(labels::CLAIM) && self.is_disrupted()
    }

    /// The annotation by which it, or its NodeClaim object, asks not to be disrupted.
    pub fn protection(&self) -> Option<NodeProtection> {
        let of_node = self.annotations.get(labels::DO_NOT_DISRUPT);
        let of_node = of_node.and_then(|value| NodeProtection::from_annotation(ProtectedObject::Node, value));
        let of_claim = || {
            NodeProtection::from_annotation(ProtectedObject::NodeClaim, self.claim_do_not_disrupt.as_deref()?)
        };
        of_node.or_else(of_claim)
    }

    /// Whether it is closed to others until its planned pods are bound.
    pub fn awaits_placing(&self) -> bool {
        self.taints.iter().any(|taint| taint.key == labels::PLACING_TAINT)
    }

    /// Whether its deletion waits for us.
    pub fn has_our_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == labels::TERMINATION_FINALIZER)
    }

    /// The pool that it says it belongs to.
    pub fn node_pool(&self) -> Option<&str> {
        self.labels.get(labels::NODE_POOL).map(String::as_str)
    }
}
