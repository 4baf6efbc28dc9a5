//! What a pool's limits allow, and what it holds of them.

use std::collections::BTreeSet;

use outrigger_model::resources::NODES;
use outrigger_model::{InstanceType, Node, NodeClaim, NodePool, Quantity, Refusal, Resources, Snapshot};
use typed_index_collections::TiVec;

use crate::ids::{PurchaseId, TypeId};
use crate::market::templates::Template;

/// A pool's limits, and what it held of them when the snapshot was taken.
pub struct Limits {
    most: Option<Resources>,
    /// What the pool held.
    pub(crate) used: Resources,
    /// How many nodes the pool has or is getting that are not going; counted only where it has
    /// limits or is static.
    pub nodes: u64,
    /// For each limit, what each type would add to it, in the order of the class's list.
    added: Vec<(String, TiVec<TypeId, Quantity>)>,
}

impl Limits {
    /// What a pool holds: what its claims reserve, and its nodes that no claim stands for.
    pub fn of(snapshot: &Snapshot, pool: &NodePool, types: &[InstanceType]) -> Self {
        let most = pool.spec.limits.clone().filter(|limits| !limits.is_empty());
        let mut used = Resources::new();
        if most.is_none() && pool.spec.replicas.is_none() {
            return Self { most, used, nodes: 0, added: Vec::new() };
        }
        let mut nodes = 0;
        let mut claimed = BTreeSet::new();
        let going = names_of(snapshot.nodes.iter().filter(|node| is_going(node)));
        for claim in &snapshot.claims {
            let names = [claim.instance_id(), claim.status.node_name.as_deref()];
            claimed.extend(names.into_iter().flatten());
            if claim.spec.node_pool == pool.name && !claim.status.state.is_terminal() {
                used.add(&held_by(claim));
                let goes = names.into_iter().flatten().any(|name| going.contains(name));
                nodes += u64::from(claim.status.state.accepts_pods() && !goes);
            }
        }
        for node in snapshot.nodes.iter().filter(|node| node.node_pool() == Some(&pool.name)) {
            if names_of([node]).is_disjoint(&claimed) {
                used.add(&with_one_node(&node.capacity));
                nodes += u64::from(!is_going(node));
            }
        }
        let added = most.iter().flat_map(Resources::iter).map(|(name, _)| {
            let amount = |of: &InstanceType| added_by(of, name);
            (name.to_owned(), types.iter().map(amount).collect())
        });
        let added = added.collect();
        Self { most, used, nodes, added }
    }

    /// Whether pods may be planned for new nodes of its pool: any for an ordinary one, those that a
    /// static one still lacks.
    pub(crate) fn admit_pods(&self, template: &Template<'_>) -> bool {
        template.pool.spec.replicas.is_none_or(|replicas| self.nodes < u64::from(replicas))
    }

    /// Whether the pool has no limit at all.
    pub const fn are_absent(&self) -> bool {
        self.most.is_none()
    }

    /// Whether a node of a type may be added to what is used. A limit that is passed already does
    /// not bar a node that adds nothing to it.
    pub fn admit(&self, instance_type: TypeId, used: &Resources) -> bool {
        let Some(limits) = &self.most else { return true };
        self.added.iter().all(|(name, added)| {
            let amount = added[instance_type];
            amount.is_zero() || used.get(name) + amount <= limits.get(name)
        })
    }

    /// The limit that a node of this type would break.
    pub fn refusal(&self, instance_type: &InstanceType, used: &Resources) -> Option<Refusal> {
        let limits = self.most.as_ref()?;
        limits.iter().find_map(|(name, limit)| {
            let (used, needed) = (used.get(name), added_by(instance_type, name));
            let broken = !needed.is_zero() && used + needed > limit;
            broken.then(|| Refusal::Limit { resource: name.to_owned(), limit, used, needed })
        })
    }
}

/// Whether a node is on its way out, or is to be replaced: what takes its place in a static pool is
/// launched first.
fn is_going(node: &Node) -> bool {
    node.deleting || node.is_disrupted()
}

/// Nodes by name and by instance id, as claims name them.
fn names_of<'n>(nodes: impl IntoIterator<Item = &'n Node>) -> BTreeSet<&'n str> {
    let names = nodes.into_iter().flat_map(|node| [Some(node.name.as_str()), node.instance_id()]);
    names.flatten().collect()
}

/// What any of some purchases takes of its pool's limits at most.
pub fn reserved(template: &Template<'_>, purchases: &[PurchaseId]) -> Resources {
    let mut reserved = Resources::new();
    for purchase in purchases {
        reserved.raise_to(template.instance_type(*purchase).counted());
        template.added(*purchase).into_iter().for_each(|added| reserved.raise_to(added));
    }
    with_one_node(&reserved)
}

/// What a node of a type adds to a limit.
fn added_by(instance_type: &InstanceType, name: &str) -> Quantity {
    if name == NODES { Quantity::units(1) } else { instance_type.counted().get(name) }
}

/// Machine and node count together, as a pool's limits count them.
fn with_one_node(capacity: &Resources) -> Resources {
    capacity.clone().with(NODES, Quantity::units(1))
}

fn held_by(claim: &NodeClaim) -> Resources {
    if claim.status.reserved.names(NODES) {
        claim.status.reserved.clone()
    } else {
        with_one_node(&claim.status.reserved)
    }
}
