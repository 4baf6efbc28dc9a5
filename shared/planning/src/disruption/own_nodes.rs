//! The nodes that are ours - those that name a NodePool - with all that is known of each: the only place that looks into
//! claims.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{ClaimState, Node, NodeClaim, Snapshot};

use crate::leaving::replacement;

/// A node that names a NodePool. Nodes of a cluster that is read from files have no claims.
pub(crate) struct OwnNode<'a> {
    pub(crate) node: &'a Node,
    pub(crate) claim: Option<&'a NodeClaim>,
    pub(crate) pool_name: &'a str,
    /// Whether a command whose replacements are still waited for holds its claim.
    pub(crate) is_held_now: bool,
}

/// All of them, in the snapshot's order.
pub(crate) fn own_nodes(snapshot: &Snapshot) -> Vec<OwnNode<'_>> {
    let claims = claims_by_node(snapshot);
    let held: BTreeSet<&str> = replacement::held(&snapshot.claims, &snapshot.commands, snapshot.taken_at)
        .map(|claim| claim.name.as_str())
        .collect();
    let own = snapshot.nodes.iter().filter_map(|node| {
        let pool_name = node.node_pool()?;
        let by_id = node.instance_id().and_then(|id| claims.get(id));
        let claim = by_id.or_else(|| claims.get(node.name.as_str())).copied();
        Some(OwnNode {
            node,
            claim,
            pool_name,
            is_held_now: claim.is_some_and(|claim| held.contains(claim.name.as_str())),
        })
    });
    own.collect()
}

fn claims_by_node(snapshot: &Snapshot) -> BTreeMap<&str, &NodeClaim> {
    let mut claims = BTreeMap::new();
    for claim in &snapshot.claims {
        let names = [claim.node_name.as_deref(), claim.instance_id()];
        claims.extend(names.into_iter().flatten().map(|name| (name, claim)));
    }
    claims
}

impl OwnNode<'_> {
    /// Whether it has finished starting, as its label or its claim says.
    pub(crate) fn is_initialized(&self) -> bool {
        self.node.is_initialized() || self.state() == Some(ClaimState::Initialized)
    }

    /// Whether its instance is being terminated, or is gone.
    pub(crate) fn is_terminating(&self) -> bool {
        self.state().is_some_and(|state| state >= ClaimState::Terminating)
    }

    /// Whether it is going, for whatever reason.
    pub(crate) fn is_leaving(&self) -> bool {
        let is_ending = self.state().is_some_and(|state| !state.accepts_pods());
        is_ending || self.node.deleting || self.node.is_disrupted()
    }

    fn state(&self) -> Option<ClaimState> {
        self.claim.map(|claim| claim.state)
    }
}
