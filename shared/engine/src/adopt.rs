//! Nodes that run already, launched by Karpenter or by an Auto Scaling group: which of them can be
//! Outrigger's, and what makes them so.
//!
//! A node that is adopted goes on as it is, with all of its pods. Its instance gets our tags and
//! leaves its group, the ledger gets a claim for it, and the Node gets the labels of its NodePool,
//! in this order. Whoever dies half way leaves a node that nobody ends, and the next run goes on
//! with it.

mod enter;
mod judge;

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use outrigger_catalog::Catalog;
use outrigger_model::{Instance, KarpenterLease, Node, NodeClaim};
use serde::Serialize;

use crate::ports::{Configuration, Machine};

pub use enter::{AdoptError, enter};
pub use judge::judge;

/// What is known of a cluster whose nodes may be adopted.
pub struct Facts<'a> {
    /// The kOps cluster's name.
    pub cluster: &'a str,
    /// When this was read.
    pub now: Timestamp,
    /// All nodes.
    pub nodes: &'a [Node],
    /// NodePools, and what is wrong with others.
    pub configuration: &'a Configuration,
    /// Whether a Karpenter lives.
    pub karpenter: &'a KarpenterLease,
    /// NodeClaim objects of whomever.
    pub node_claims: &'a [NodeClaimRef],
    /// The ledger's claims that are not over.
    pub claims: &'a [NodeClaim],
    /// The instances of the nodes, by id.
    pub instances: &'a BTreeMap<String, RunningInstance>,
    /// What Auto Scaling groups have of them, by instance id.
    pub members: &'a BTreeMap<String, GroupMember>,
    /// Instance types and prices.
    pub catalog: &'a Catalog,
}

/// What an operator wants.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Only these nodes, by name; all where it is empty.
    pub nodes: Vec<String>,
    /// The NodePool for each former NodePool, Provisioner, InstanceGroup or Auto Scaling group.
    pub pools: BTreeMap<String, String>,
    /// What becomes of the nodes afterwards.
    pub afterwards: Afterwards,
}

/// What becomes of nodes that were adopted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Afterwards {
    /// They stay for as long as they are worth their price.
    #[default]
    Stay,
    /// They count as drifted, so that `disrupt` replaces them as the budgets of their pools allow.
    Drift,
}

/// A NodeClaim object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeClaimRef {
    /// Its name.
    pub name: String,
    /// The providerID of its node; empty where it has none yet.
    pub provider_id: String,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// An instance as EC2 describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningInstance {
    /// Its state, and its tags as far as they concern us.
    pub machine: Machine,
    /// Its type, zone and image. Its price is not among what EC2 says.
    pub instance: Instance,
    /// The cluster that its tag `KubernetesCluster` names.
    pub cluster: Option<String>,
}

/// What an Auto Scaling group has of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// The group's name.
    pub group: String,
    /// As `InService`.
    pub lifecycle_state: String,
    /// Whether the group may not end it when it gets smaller.
    pub is_protected: bool,
    /// The least that the group may have.
    pub min_size: usize,
    /// How many instances the group wants.
    pub desired: usize,
}

/// Who has launched a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Karpenter, for this NodePool or Provisioner.
    Karpenter(String),
    /// This Auto Scaling group.
    Group(String),
    /// One of these; its adoption was broken off.
    BrokenOff,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Karpenter(pool) => write!(f, "Karpenter, {pool}"),
            Self::Group(name) => write!(f, "Auto Scaling group {name}"),
            Self::BrokenOff => f.write_str("adopted half way"),
        }
    }
}

/// What is said of a node that is not Outrigger's.
#[derive(Debug)]
pub struct Judged {
    /// The node.
    pub node: String,
    /// Who launched it; `None` where that is neither Karpenter nor a group.
    pub launcher: Option<Launcher>,
    /// How it is adopted, or why it stays with whom it is.
    pub verdict: Result<Box<Adoption>, String>,
}

/// How a node is adopted.
#[derive(Clone, Debug)]
pub struct Adoption {
    /// The node.
    pub node: String,
    /// Its instance.
    pub instance: String,
    /// The group that it leaves, which then wants one fewer.
    pub group: Option<String>,
    /// The tags that its instance gets.
    pub tags: BTreeMap<String, String>,
    /// The claim that stands for it.
    pub claim: NodeClaim,
    /// The labels of its instance type.
    pub type_labels: BTreeMap<String, String>,
    /// Why it will be replaced soon, where it will.
    pub drifts: Option<String>,
}

/// What a program reads of a node that was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The node.
    pub node: String,
    /// Who launched it, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launcher: Option<String>,
    /// Its NodePool from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_pool: Option<String>,
    /// Its NodeClaim from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<String>,
    /// Why it stays with whom it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stays: Option<String>,
    /// Why it will be replaced soon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drifts: Option<String>,
}

impl Judged {
    /// The same for programs.
    pub fn verdict(&self) -> Verdict {
        let adoption = self.verdict.as_ref().ok();
        Verdict {
            node: self.node.clone(),
            launcher: self.launcher.as_ref().map(ToString::to_string),
            node_pool: adoption.map(|adoption| adoption.claim.spec.node_pool.clone()),
            node_claim: adoption.map(|adoption| adoption.claim.name.clone()),
            stays: self.verdict.as_ref().err().cloned(),
            drifts: adoption.and_then(|adoption| adoption.drifts.clone()),
        }
    }
}
