//! What was seen of spot that EC2 does not have: nodes of whole spot fleets that launched nothing.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{NodeClassRef, PlannedNode, Requirements};

/// A planned node whose spot fleet launched nothing, since EC2 had none of what it asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SpotRefusal {
    /// When the Snapshot of its plan was taken.
    pub at: Timestamp,
    /// Its pool.
    pub node_pool: String,
    /// How its machine would have been made.
    pub node_class: NodeClassRef,
    /// The zones that were possible.
    pub zones: Vec<String>,
    /// What it had to be like.
    pub requirements: Requirements,
    /// The uids of the pods that it was for.
    pub pods: Vec<String>,
}

impl SpotRefusal {
    /// What is remembered of a node that was planned from a Snapshot of this time.
    pub fn from_planned(node: &PlannedNode, at: Timestamp) -> Self {
        Self {
            at,
            node_pool: node.spec.node_pool.clone(),
            node_class: node.spec.node_class.clone(),
            zones: node.zones.clone(),
            requirements: node.spec.requirements.clone(),
            pods: node.pods.iter().map(|pod| pod.uid.clone()).collect(),
        }
    }
}
