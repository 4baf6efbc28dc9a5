//! What consolidation comes to: commands, and why the other nodes stay.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_model::node_pool::DisruptionReason;
use outrigger_model::{ExistingPlacement, PlannedNode, PodRef, Price, Waste};

use super::kept::WhyKept;
use super::patience::Patience;
use super::ranking::RankedNode;

/// What the cause of a node begins with that expires.
pub const EXPIRED: &str = "Expired";

/// What consolidation comes to.
#[derive(Clone, Debug, Default)]
pub struct Consolidation {
    /// Dollars per hour of all nodes that name a NodePool, as far as their prices are known.
    pub before: NodeCost,
    /// The same once all commands are carried out, with what they open.
    pub after: NodeCost,
    /// The commands, in the order in which they are carried out: a later one may count on an
    /// earlier one.
    pub commands: Vec<ConsolidationCommand>,
    /// The nodes that stay.
    pub kept: Vec<KeptName>,
    /// The nodes of pools that may lose some, in the order in which pods are welcome to them.
    pub ranking: Vec<RankedNode>,
    /// What nodes have wasted that are worth ending, for the next look.
    pub waste: BTreeMap<String, Waste>,
    /// Since when nodes are known to have drifted, for the next look.
    pub drifted: BTreeMap<String, Timestamp>,
}

/// What nodes cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCost {
    /// Dollars per hour of their instances.
    pub instances: Price,
    /// Dollars per hour that they cost beside.
    pub beside: Price,
}

impl NodeCost {
    /// Adds what one node costs.
    pub fn add(&mut self, instance: Price, beside: Price) {
        self.instances += instance;
        self.beside += beside;
    }
}

/// Nodes of one pool that are ended together, and what their pods move to.
#[derive(Clone, Debug)]
pub struct ConsolidationCommand {
    /// Why.
    pub reason: DisruptionReason,
    /// The nodes.
    pub delete: Vec<String>,
    /// The nodes that are opened for their pods.
    pub replace_with: Vec<PlannedNode>,
    /// Where nodes that exist take their pods in.
    pub existing: Vec<ExistingPlacement>,
    /// Nano-dollars per hour that this saves, root volumes among them; less than nothing where what
    /// replaces a drifted node costs more.
    pub saving_nanos: i64,
    /// How many pods are evicted.
    pub evictions: usize,
    /// Those of them that nothing makes anew, so that they are lost for good.
    pub lost: Vec<PodRef>,
    /// How a drifted node has drifted, that it expires, or that its static pool has too many.
    pub causes: Vec<String>,
    /// Whether patience with its nodes is over and the pool's budgets allow it now, beside those
    /// before it.
    pub starts_now: bool,
    /// The budget that it waits for, in its fields.
    pub waits_for: Option<String>,
    /// How far patience with its nodes has come, where it is not over.
    pub patience: Option<Patience>,
    /// Dollars per hour that what replaces the nodes may cost; `None` where they are replaced
    /// whatever that costs.
    pub may_cost: Option<Price>,
    /// Since when it has been proposed, where an earlier run has found it worth doing too.
    pub proposed_since: Option<Timestamp>,
}

impl ConsolidationCommand {
    /// Why, for people, as `it is empty` or `it drifted: ...`.
    pub fn message(&self) -> String {
        let saving = self.saving_nanos as f64 / 1e9;
        let why = match self.reason {
            DisruptionReason::Empty => format!("nobody is on it, which saves ${saving:.4}/h"),
            DisruptionReason::Drifted => self.causes.join("; "),
            DisruptionReason::Underutilized => format!("its pods run elsewhere for ${saving:.4}/h less"),
        };
        match &self.lost[..] {
            [] => why,
            [pod] => format!("{why}; nothing makes its pod {pod} anew, which is lost for good"),
            [pod, others @ ..] => format!(
                "{why}; nothing makes {} of its pods anew, which are lost for good, {pod} among them",
                others.len() + 1
            ),
        }
    }
}

/// A node that stays.
#[derive(Clone, Debug)]
pub struct KeptName {
    /// Its name.
    pub node: String,
    /// Why it stays.
    pub reason: WhyKept,
    /// How it has drifted, or that it expires.
    pub causes: Vec<String>,
}

impl KeptName {
    /// A node, and why it stays.
    pub fn new(node: impl Into<String>, reason: WhyKept) -> Self {
        Self { node: node.into(), reason, causes: Vec::new() }
    }

    /// Why it stays, for people, and why it should go.
    pub fn message(&self) -> String {
        if self.causes.is_empty() {
            return self.reason.to_string();
        }
        let expires = self.causes.iter().any(|cause| cause.starts_with(EXPIRED));
        let what = if expires { "it is to be replaced" } else { "it has drifted" };
        format!("{}; {what}: {}", self.reason, self.causes.join("; "))
    }
}
