//! The Plan: what is to be done, each item exact, nothing left to choose but what EC2 Fleet
//! chooses.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{CapacityType, NodeClaimSpec, NominatedPod, Price, Resources};

/// What is to be done about the pods of one Snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// When its snapshot was taken.
    pub taken_at: Timestamp,
    /// The ledger's generation that it was made from; it holds for no other.
    pub generation: u64,
    /// Nodes that must come to exist.
    pub nodes: Vec<PlannedNode>,
    /// Pods that nodes or claims which exist already have room for.
    pub existing: Vec<ExistingPlacement>,
    /// Nodes that are wanted and not to be launched now; the report says so of their pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub put_off: Vec<PutOff>,
    /// The ids of commands whose pods have no place for what that may cost; they are to be given
    /// up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub too_dear: Vec<String>,
}

/// A node that must come to exist. Written as JSON, its spec is not set apart from the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedNode {
    /// The name of its claim, unique through the generation and its place in the plan.
    pub claim: String,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// The zones that remain possible.
    pub zones: Vec<String>,
    /// The instance types that all of its pods fit, cheapest first, at most
    /// [`PlannedNode::MAX_TYPES`].
    pub instance_types: Vec<RankedType>,
    /// What its claim keeps of the decision.
    #[serde(flatten)]
    pub spec: NodeClaimSpec,
    /// What its pods and daemonsets ask for.
    pub requests: Resources,
    /// What it may take of its pool's limits at most.
    pub reserved: Resources,
    /// What it offers to pods at least.
    pub allocatable: Resources,
    /// Its pods.
    pub pods: Vec<NominatedPod>,
    /// Dollars per hour of its cheapest offering.
    pub price: Price,
    /// Dollars per hour that it costs beside its instance.
    pub node_price: Price,
}

impl PlannedNode {
    /// How many instance types one fleet request may name (Karpenter AWS provider,
    /// `maxInstanceTypes`).
    pub const MAX_TYPES: usize = 60;
}

/// An instance type that a planned node may be, with its offerings in the remaining zones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RankedType {
    /// Its name.
    pub name: String,
    /// `amd64` or `arm64`, which selects the image.
    pub arch: String,
    /// Zones and prices, cheapest first.
    pub offerings: Vec<ZonePrice>,
}

/// What a type costs in a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZonePrice {
    /// The zone.
    pub zone: String,
    /// Dollars per hour.
    pub price: Price,
}

impl RankedType {
    /// The price of its cheapest offering.
    pub fn price(&self) -> Price {
        self.offerings.first().map_or(Price::ZERO, |offering| offering.price)
    }
}

/// Pods that go where room exists already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExistingPlacement {
    /// Where.
    pub target: Target,
    /// Which pods.
    pub pods: Vec<NominatedPod>,
}

/// Where there is room already.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// A node that has joined.
    Node(String),
    /// A claim whose node has not joined yet.
    Claim(String),
}

impl Target {
    /// The name of the node or claim.
    pub fn name(&self) -> &str {
        match self {
            Self::Node(name) | Self::Claim(name) => name,
        }
    }
}

/// A node that is wanted and not to be launched now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PutOff {
    /// Its pool.
    pub node_pool: String,
    /// The pods that would be on it.
    pub pods: Vec<NominatedPod>,
    /// Why it is put off.
    pub reason: PutOffReason,
}

/// Why a node is put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PutOffReason {
    /// Its pool only tries with another one; other pools may serve its pods meanwhile.
    BesideProbe,
    /// It waits for the next minute.
    OverTheCap,
}

impl fmt::Display for PutOffReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BesideProbe => "its node is put off: the NodePool tries with one node after a pause",
            Self::OverTheCap => {
                "its node is put off: as many nodes as allowed were launched within this minute"
            }
        })
    }
}

impl Plan {
    /// A plan that does nothing.
    pub const fn nothing(taken_at: Timestamp, generation: u64) -> Self {
        Self {
            taken_at,
            generation,
            nodes: Vec::new(),
            existing: Vec::new(),
            put_off: Vec::new(),
            too_dear: Vec::new(),
        }
    }

    /// Dollars per hour of all planned instances.
    pub fn price(&self) -> Price {
        self.nodes.iter().map(|node| node.price).sum()
    }

    /// Dollars per hour that the planned nodes cost beside their instances.
    pub fn node_price(&self) -> Price {
        self.nodes.iter().map(|node| node.node_price).sum()
    }
}
