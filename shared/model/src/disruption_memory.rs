//! What the function `disrupt` remembers from one run to the next. Losing it costs a little time:
//! what was proposed is proposed again, nodes are left alone for `consolidateAfter` once more, and
//! patience with them, drifted or not, begins anew.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::Price;
use crate::demand::DemandSample;
use crate::node_pool::DisruptionReason;

/// What the function `disrupt` remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DisruptionMemory {
    /// What it found worth doing; it is done once a later run finds it too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<Proposal>,
    /// The pods of nodes whose pool waits after each change of them (`consolidateAfter`), by the
    /// node's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pods: BTreeMap<String, PodsSeen>,
    /// What nodes have wasted that are worth ending, by the node's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub waste: BTreeMap<String, Waste>,
    /// Since when nodes are known to have drifted, by the node's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub drifted: BTreeMap<String, Timestamp>,
    /// What the pods of NodePools have asked for within the last hour, oldest first.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub demand: BTreeMap<String, Vec<DemandSample>>,
    /// How everything looked when the last run found that nothing was to be done; `None` where
    /// something was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quiet: Option<Quiet>,
    /// Until when it does not look at a large cluster again that changes; `None` where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
}

/// How everything looked when nothing was to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quiet {
    /// The cluster, as a glance shows it.
    pub cluster: String,
    /// The ledger's claims and commands, as a digest.
    pub ledger: String,
    /// Until when nothing will be to be done, if nothing changes.
    pub until: Timestamp,
    /// What all nodes cost in an hour, with what they cost beside their instances.
    pub cost_per_hour: Price,
}

/// How long a look at a large cluster is good for, though pods come and go: until a time, or until
/// a node empties.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rest {
    /// Until when.
    pub until: Timestamp,
    /// Of each node of ours with pods that could move: how many pods it has beside those. It has
    /// emptied once no more than these are on it.
    pub staying: BTreeMap<String, usize>,
    /// What all nodes cost in an hour, with what they cost beside their instances.
    pub cost_per_hour: Price,
}

/// What ending a node would have saved, since that was found first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Waste {
    /// Nano-dollars.
    pub nanos: u64,
    /// Up to when they are counted: the last time at which the node was found to be worth ending.
    pub until: Timestamp,
}

/// Nodes that are to be disrupted together, as soon as a later run finds the same (Karpenter
/// validates a command 15 s after it was made).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Proposal {
    /// Why.
    pub reason: DisruptionReason,
    /// The names of the nodes, in order.
    pub nodes: Vec<String>,
    /// When it was first made.
    pub since: Timestamp,
    /// When it was last found; `None` where an earlier version has written it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_at: Option<Timestamp>,
}

impl Proposal {
    /// For so long nobody need have looked; after that it is a proposal no more. A pause makes it
    /// as old, and so does a function that does not run.
    const CURRENT: SignedDuration = SignedDuration::from_mins(3);

    /// Whether the looks that were lately taken have found it.
    pub fn is_current(&self, now: Timestamp) -> bool {
        self.found_at.is_some_and(|found_at| now.duration_since(found_at) <= Self::CURRENT)
    }
}

/// The pods that were on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsSeen {
    /// A digest of their uids.
    pub digest: String,
    /// When they were first seen to be these.
    pub since: Timestamp,
}
