//! Instances: the machines that EC2 runs for us.

use serde::{Deserialize, Serialize};

use crate::{CapacityType, Price};

/// An instance that EC2 runs for us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// `i-…`.
    pub id: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Its image, where known.
    #[serde(default)]
    pub image_id: String,
    /// What it costs per hour, as far as the catalogue knew at launch.
    #[serde(default)]
    pub price: Price,
}

impl Instance {
    /// As the node's `spec.providerID` names it.
    pub fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone, self.id)
    }
}
