//! How much of its limits a pool has left.

use std::collections::BTreeSet;

use outrigger_model::resources::NODES;
use outrigger_model::{InstanceType, NodeClaim, NodePool, Quantity, Refusal, Resources, Snapshot};

use crate::columns::type_of;

/// A pool's limits and what it holds of them, the nodes planned so far among it.
#[derive(Clone)]
pub(crate) struct Limits {
    most: Option<Resources>,
    used: Resources,
    nodes: u64,
    /// For each limit, what each type would add to it, in the order of the class's list.
    added: Vec<(String, Vec<Quantity>)>,
}

impl Limits {
    /// What a pool holds: what its claims reserve, and its nodes that no claim stands for.
    pub(crate) fn of(snapshot: &Snapshot, pool: &NodePool, types: &[InstanceType]) -> Self {
        let limits = pool.spec.limits.clone().filter(|limits| !limits.is_empty());
        let mut used = Resources::new();
        if limits.is_none() && pool.spec.replicas.is_none() {
            return Self { most: limits, used, nodes: 0, added: Vec::new() };
        }
        let mut nodes = 0;
        let mut claimed = BTreeSet::new();
        for claim in &snapshot.claims {
            claimed.extend([claim.instance_id(), claim.node_name.as_deref()].into_iter().flatten());
            if claim.node_pool == pool.name && !claim.state.is_terminal() {
                used.add(&held_by(claim));
                nodes += 1;
            }
        }
        for node in snapshot.nodes.iter().filter(|node| node.node_pool() == Some(&pool.name)) {
            let names = [Some(node.name.as_str()), node.instance_id()];
            if !names.into_iter().flatten().any(|name| claimed.contains(name)) {
                used.add(&with_one_node(&node.capacity));
                nodes += 1;
            }
        }
        let added = limits.iter().flat_map(Resources::iter).map(|(name, _)| {
            let amount = |of: &InstanceType| added_by(of, name);
            (name.to_owned(), types.iter().map(amount).collect())
        });
        let added = added.collect();
        Self { most: limits, used, nodes, added }
    }

    /// How many nodes the pool has or is getting; counted only where it has limits or is static.
    pub(crate) const fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Whether the pool has no limit at all.
    pub(crate) const fn are_absent(&self) -> bool {
        self.most.is_none()
    }

    /// Whether a node of each type may still be added; none when all may.
    pub(crate) fn admitted(&self) -> Option<Vec<bool>> {
        let limits = self.most.as_ref()?;
        let mut admitted: Option<Vec<bool>> = None;
        for (name, added) in &self.added {
            let (used, limit) = (self.used.get(name), limits.get(name));
            // A limit that is passed already does not bar a node that adds nothing to it.
            let fits = |amount: &Quantity| amount.is_zero() || used + *amount <= limit;
            if !added.iter().all(fits) {
                let all = admitted.get_or_insert_with(|| vec![true; added.len()]);
                all.iter_mut().zip(added).for_each(|(admitted, amount)| *admitted &= fits(amount));
            }
        }
        admitted
    }

    /// The limit that a node of this type would break.
    pub(crate) fn refusal(&self, instance_type: &InstanceType) -> Option<Refusal> {
        let limits = self.most.as_ref()?;
        limits.iter().find_map(|(name, limit)| {
            let (used, needed) = (self.used.get(name), added_by(instance_type, name));
            let broken = !needed.is_zero() && used + needed > limit;
            broken.then(|| Refusal::Limit { resource: name.to_owned(), limit, used, needed })
        })
    }

    /// Leaves out of some columns those that take more of a limited resource than the first.
    pub(crate) fn keep_smallest(&self, columns: &mut Vec<usize>) {
        let Some(first) = columns.first().map(|column| type_of(*column)) else { return };
        columns.retain(|column| self.added.iter().all(|(_, added)| added[type_of(*column)] <= added[first]));
    }

    /// Gives back what a planned node would have held.
    pub(crate) fn release(&mut self, reserved: &Resources) {
        if !self.are_absent() {
            self.used.subtract(reserved);
        }
    }

    /// Takes what a planned node may hold at most.
    pub(crate) fn reserve(&mut self, reserved: &Resources) {
        if !self.are_absent() {
            self.used.add(reserved);
        }
    }
}

/// What a node of a type adds to a limit.
pub(crate) fn added_by(instance_type: &InstanceType, name: &str) -> Quantity {
    if name == NODES { Quantity::units(1) } else { instance_type.counted().get(name) }
}

/// Machine and node count together, as a pool's limits count them.
pub(crate) fn with_one_node(capacity: &Resources) -> Resources {
    capacity.clone().with(NODES, Quantity::units(1))
}

fn held_by(claim: &NodeClaim) -> Resources {
    if claim.reserved.names(NODES) { claim.reserved.clone() } else { with_one_node(&claim.reserved) }
}
