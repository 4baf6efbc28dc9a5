//! How the node of a claim differs from what was bought.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{Quantity, Resources};

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

/// The memory that nodes of an instance type under an image were seen to have, which the catalogue can only estimate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SeenMemory {
    /// Instance type.
    pub instance_type: String,
    /// Image.
    pub image_id: String,
    /// The least that any of them had.
    pub memory: Quantity,
}
