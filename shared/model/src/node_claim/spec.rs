//! What is decided about a node before its launch and never changes afterwards.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{NillableDuration, NodeClassRef, NodePool, Requirements, Taint, labels};

/// What was decided about a node. The plan decides it, the claim keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimSpec {
    /// Its pool.
    pub node_pool: String,
    /// The uid of the pool's object; empty where an InstanceGroup asks for the pool, or a file
    /// holds it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node_pool_uid: String,
    /// How its machine is made.
    pub node_class: NodeClassRef,
    /// What it must be like: its pool's and its pods' demands together.
    pub requirements: Requirements,
    /// Labels that it gets.
    pub labels: BTreeMap<String, String>,
    /// Annotations that it gets.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Taints that it keeps.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Taints that something on it removes.
    #[serde(default)]
    pub startup_taints: Vec<Taint>,
    /// How long it lives.
    pub expire_after: NillableDuration,
    /// How long its drain may take.
    #[serde(default)]
    pub termination_grace_period: Option<NillableDuration>,
}

impl NodeClaimSpec {
    /// A node as the template of its pool has it, but for the requirements. How it expires is the
    /// pool's wish of today.
    pub fn from_pool(pool: &NodePool, requirements: Requirements) -> Self {
        let template = &pool.spec.template;
        let mut annotations = template.metadata.annotations.clone();
        let kept = pool.annotations.get_key_value(labels::GRACEFUL_EXPIRY);
        annotations.extend(kept.map(|(key, value)| (key.clone(), value.clone())));
        Self {
            node_pool: pool.name.clone(),
            node_pool_uid: pool.uid.clone(),
            node_class: pool.node_class().clone(),
            requirements,
            labels: template.metadata.labels.clone(),
            annotations,
            taints: template.spec.taints.clone(),
            startup_taints: template.spec.startup_taints.clone(),
            expire_after: template.spec.expire_after,
            termination_grace_period: template.spec.termination_grace_period,
        }
    }
}
