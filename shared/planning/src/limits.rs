//! How much of its limits a pool has left.

use std::collections::BTreeSet;

use outrigger_model::resources::NODES;
use outrigger_model::{InstanceType, NodeClaim, NodePool, Quantity, Refusal, Resources, Snapshot};

/// A pool's limits and what it holds of them, the nodes planned so far among it.
pub(crate) struct Limits {
    limits: Option<Resources>,
    used: Resources,
}

impl Limits {
    /// What a pool holds: what its claims reserve, and its nodes that no claim stands for.
    pub(crate) fn of(snapshot: &Snapshot, pool: &NodePool) -> Self {
        let limits = pool.spec.limits.clone().filter(|limits| !limits.is_empty());
        let mut used = Resources::new();
        if limits.is_none() {
            return Self { limits, used };
        }
        let mut claimed = BTreeSet::new();
        for claim in &snapshot.claims {
            claimed.extend([claim.instance_id(), claim.node_name.as_deref()].into_iter().flatten());
            if claim.node_pool == pool.name && !claim.state.is_terminal() {
                used.add(&held_by(claim));
            }
        }
        for node in snapshot.nodes.iter().filter(|node| node.node_pool() == Some(&pool.name)) {
            let names = [Some(node.name.as_str()), node.instance_id()];
            if !names.into_iter().flatten().any(|name| claimed.contains(name)) {
                used.add(&with_one_node(&node.capacity));
            }
        }
        Self { limits, used }
    }

    /// Whether the pool has no limit at all.
    pub(crate) const fn are_absent(&self) -> bool {
        self.limits.is_none()
    }

    /// Whether a node of this type may still be added.
    pub(crate) fn admit(&self, instance_type: &InstanceType) -> bool {
        self.refusal(instance_type).is_none()
    }

    /// The limit that a node of this type would break.
    pub(crate) fn refusal(&self, instance_type: &InstanceType) -> Option<Refusal> {
        let limits = self.limits.as_ref()?;
        let counted = instance_type.counted();
        let needed = |name: &str| if name == NODES { Quantity::units(1) } else { counted.get(name) };
        limits.iter().find_map(|(name, limit)| {
            let (used, needed) = (self.used.get(name), needed(name));
            // A limit that is passed already does not bar a node that adds nothing to it.
            let broken = !needed.is_zero() && used + needed > limit;
            broken.then(|| Refusal::Limit { resource: name.to_owned(), limit, used, needed })
        })
    }

    /// Takes what a planned node may hold at most.
    pub(crate) fn reserve(&mut self, reserved: &Resources) {
        if !self.are_absent() {
            self.used.add(reserved);
        }
    }
}

/// Machine and node count together, as a pool's limits count them.
pub(crate) fn with_one_node(capacity: &Resources) -> Resources {
    capacity.clone().with(NODES, Quantity::units(1))
}

fn held_by(claim: &NodeClaim) -> Resources {
    if claim.reserved.names(NODES) { claim.reserved.clone() } else { with_one_node(&claim.reserved) }
}
