//! How the node of a claim differs from what was bought.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{NodeClassRef, Quantity, Resources};

/// What is known to be wrong with the node of a claim, and what it is measured by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeCheck {
    /// What its machine has, by the catalogue; empty until its node has joined.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub expected: Resources,
    /// What its node has less of than expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shortfall: Option<Shortfall>,
    /// The names of its nodes, in order, where several carry its providerID.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub duplicates: Vec<String>,
}

impl NodeCheck {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Less than was bought.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shortfall {
    /// Since when that is known.
    pub since: Timestamp,
    /// How much of what, for people.
    pub message: String,
}

/// What nodes of an instance type under an image and a class were seen to offer, which the
/// catalogue can only estimate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenResources {
    /// Instance type.
    pub instance_type: String,
    /// Image.
    pub image_id: String,
    /// The class, by whose kubelet settings a part is kept from pods; absent in what earlier
    /// versions wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_class: Option<NodeClassRef>,
    /// Raised by one with each write; a write with a lower one, or the same, is none.
    #[serde(default)]
    pub version: u64,
    /// The least memory that any of their machines had.
    pub memory: Quantity,
    /// What their kubelets leave to pods where that is not what was computed: the least, and of
    /// devices the most.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub allocatable: Resources,
}

impl SeenResources {
    /// By what it is known: type, image and class.
    pub fn key(&self) -> (&str, &str, Option<&NodeClassRef>) {
        (&self.instance_type, &self.image_id, self.node_class.as_ref())
    }
}
