//! Intents: launches, as they are written down before they are sent.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{CapacityType, Price, SpotAllocation};

/// A launch that is written down before it is sent, so that a crash at any point can be told apart
/// and mended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Its id, which every instance of it carries in the tag `outrigger.dev/intent`.
    pub id: String,
    /// Where it stands.
    pub state: IntentState,
    /// The exact request; sending it again means sending these very bytes.
    pub request: FleetRequest,
    /// The claims that it is for, in order.
    pub claims: Vec<String>,
    /// When it was written.
    pub prepared_at: Timestamp,
    /// When it was first sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    /// When it ended; for people, and for clearing up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// Where a launch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IntentState {
    /// Written, not sent.
    Prepared,
    /// Being sent: EC2 may or may not have acted.
    Sent,
    /// Answered, and every claim accounts for its instance or for the lack of one.
    Resolved,
    /// Given up: an instance that still turns up under it is an orphan.
    Abandoned,
}

impl IntentState {
    /// Whether it never changes again.
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Resolved | Self::Abandoned)
    }
}

/// A request to EC2 Fleet (type instant) in our words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetRequest {
    /// The client token, new for every intent.
    pub token: String,
    /// Name of the launch template.
    pub launch_template: String,
    /// Its version, always a number.
    pub launch_template_version: String,
    /// How the instances are paid for.
    pub capacity_type: CapacityType,
    /// How many instances, one for each claim.
    pub count: u32,
    /// The most that a spot instance may cost per hour; what on demand costs when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_spot_price: Option<Price>,
    /// Which spot instances EC2 takes among them.
    #[serde(default, skip_serializing_if = "SpotAllocation::is_default")]
    pub spot_allocation: SpotAllocation,
    /// Whether EC2 takes what comes first among them, as far as it has that, instead of what costs
    /// it the least: NodeOverlays have changed prices of which it knows nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub prioritized: bool,
    /// The capacity reservation that the instances start in, where they are reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<String>,
    /// What they may be, cheapest first.
    pub overrides: Vec<FleetOverride>,
    /// Tags of instances, volumes and the rest.
    pub tags: BTreeMap<String, String>,
}

/// One thing that a fleet's instances may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetOverride {
    /// Instance type.
    pub instance_type: String,
    /// Zone of the subnet.
    pub zone: String,
    /// Subnet.
    pub subnet: String,
    /// Image.
    pub image: String,
    /// What the catalogue says it costs per hour.
    pub price: Price,
}
