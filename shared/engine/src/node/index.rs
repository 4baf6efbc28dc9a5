//! The nodes of one moment, and which of them run on each instance.

use std::collections::BTreeMap;

use outrigger_model::{Node, NodeClaim};

/// The nodes of one moment.
#[derive(Debug)]
pub(crate) struct Nodes<'n> {
    /// All of them.
    pub(crate) all: &'n [Node],
    by_instance: BTreeMap<&'n str, Vec<&'n Node>>,
}

impl<'n> Nodes<'n> {
    /// Looks up the instances of these nodes.
    pub(crate) fn of(all: &'n [Node]) -> Self {
        let mut by_instance: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for node in all {
            if let Some(id) = node.instance_id() {
                by_instance.entry(id).or_default().push(node);
            }
        }
        Self { all, by_instance }
    }

    /// The nodes of an instance; a providerID that two nodes carry leads to both.
    pub(crate) fn on(&self, instance: &str) -> &[&'n Node] {
        self.by_instance.get(instance).map(Vec::as_slice).unwrap_or_default()
    }

    /// The nodes of a claim's instance.
    pub(crate) fn of_claim(&self, claim: &NodeClaim) -> &[&'n Node] {
        claim.instance_id().map(|id| self.on(id)).unwrap_or_default()
    }
}
