//! The object that another one belongs to. Kubernetes' garbage collector deletes what belongs to an
//! object that is gone.

use serde::{Deserialize, Serialize};

const NODE_POOL: &str = "NodePool";

/// An entry of `metadata.ownerReferences`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// Group and version of the owner, as `karpenter.sh/v1`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether a foreground deletion of the owner waits for what bears the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// A NodePool, as Karpenter has it on its NodeClaims.
    pub fn node_pool(name: impl Into<String>, uid: impl Into<String>) -> Self {
        Self {
            api_version: "karpenter.sh/v1".into(),
            kind: NODE_POOL.into(),
            name: name.into(),
            uid: uid.into(),
            block_owner_deletion: Some(true),
        }
    }

    /// Whether the owner is a NodePool, in any version of its API.
    pub fn is_node_pool(&self) -> bool {
        self.kind == NODE_POOL && self.api_version.starts_with("karpenter.sh/")
    }
}
