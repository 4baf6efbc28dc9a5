//! What a pool's limits allow, and what it holds of them.

use std::collections::BTreeSet;

use outrigger_model::resources::NODES;
use outrigger_model::{InstanceType, Node, NodeClaim, NodePool, Quantity, Refusal, Resources, Snapshot};
use typed_index_collections::TiVec;

use crate::ids::{PurchaseId, TypeId};
use crate::market::purchases::type_of;
use crate::market::templates::Template;

/// A pool's limits, and what it held of them when the snapshot was taken.
pub struct Limits {
    /// In the order of every row.
    rows: Vec<Limit>,
    /// What the pool held.
    pub(crate) used: LimitRow,
    /// How many nodes the pool has or is getting that are not going; counted only where it has
    /// limits or is static.
    pub nodes: u64,
}

/// A limit of a pool.
struct Limit {
    resource: String,
    most: Quantity,
    /// What each type would add to it, in the order of the class's list.
    added: TiVec<TypeId, Quantity>,
    /// What the type adds that adds most.
    largest: Quantity,
}

/// An amount for each limit of a pool. The search compares such rows for each machine that it looks
/// at, so no name of a resource is looked up there.
#[derive(Clone, Debug, Default)]
pub struct LimitRow(Vec<Quantity>);

impl LimitRow {
    /// Adds what a node takes.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(amount, other)| *amount += *other);
    }

    /// Takes away what a node takes.
    pub fn subtract(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(amount, other)| *amount -= *other);
    }
}

/// What of a pool's limits is left for one more node, where not every type is sure to keep them.
pub struct Remaining<'l> {
    limits: Vec<(&'l TiVec<TypeId, Quantity>, Quantity)>,
}

impl Remaining<'_> {
    /// Whether a node of a type may be added. A limit that is passed already does not bar a node
    /// that adds nothing to it.
    pub fn admits(&self, instance_type: TypeId) -> bool {
        self.limits.iter().all(|(added, free)| {
            let amount = added[instance_type];
            amount.is_zero() || amount <= *free
        })
    }
}

impl Limits {
    /// What a pool holds: what its claims reserve, and its nodes that no claim stands for.
    pub fn new(snapshot: &Snapshot, pool: &NodePool, types: &[InstanceType]) -> Self {
        let rows: Vec<Limit> = pool
            .spec
            .limits
            .iter()
            .flat_map(Resources::iter)
            .map(|(resource, most)| {
                let added: TiVec<TypeId, Quantity> =
                    types.iter().map(|instance_type| added_by(instance_type, resource)).collect();
                let largest = added.iter().copied().max().unwrap_or_default();
                Limit { resource: resource.to_owned(), most, added, largest }
            })
            .collect();
        if rows.is_empty() && pool.spec.replicas.is_none() {
            return Self { rows, used: LimitRow::default(), nodes: 0 };
        }
        let mut used = Resources::new();
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
        let used = LimitRow(rows.iter().map(|limit| used.get(&limit.resource)).collect());
        Self { rows, used, nodes }
    }

    /// Whether pods may be planned for new nodes of its pool: any for an ordinary one, those that a
    /// static one still lacks.
    pub(crate) fn admit_pods(&self, template: &Template<'_>) -> bool {
        template.pool.spec.replicas.is_none_or(|replicas| self.nodes < u64::from(replicas))
    }

    /// Whether the pool has no limit at all.
    pub const fn are_absent(&self) -> bool {
        self.rows.is_empty()
    }

    /// What is left where so much is used, with what one node gives back. `None` where every type
    /// may be added.
    pub fn remaining(&self, used: &LimitRow, given_back: Option<&LimitRow>) -> Option<Remaining<'_>> {
        let free = |(index, limit): (usize, &Limit)| {
            let back = given_back.and_then(|row| row.0.get(index)).copied().unwrap_or_default();
            limit.most - (used.0.get(index).copied().unwrap_or_default() - back)
        };
        let tight = |(limit, free): &(&Limit, Quantity)| limit.largest > *free;
        let rows = self.rows.iter().enumerate().map(|each| (each.1, free(each)));
        let limits: Vec<_> = rows.filter(tight).map(|(limit, free)| (&limit.added, free)).collect();
        (!limits.is_empty()).then_some(Remaining { limits })
    }

    /// What any of some purchases takes of the limits at most.
    pub fn taken_by(&self, template: &Template<'_>, purchases: &[PurchaseId]) -> LimitRow {
        let most = |limit: &Limit| {
            let amounts = purchases.iter().map(|purchase| {
                let added =
                    template.added(*purchase).map_or(Quantity::ZERO, |more| more.get(&limit.resource));
                limit.added[type_of(*purchase)].max(added)
            });
            amounts.max().unwrap_or_default()
        };
        LimitRow(self.rows.iter().map(most).collect())
    }

    /// The limit that a node of this type would break.
    pub fn refusal(&self, instance_type: &InstanceType, used: &LimitRow) -> Option<Refusal> {
        self.rows.iter().zip(&used.0).find_map(|(limit, used)| {
            let needed = added_by(instance_type, &limit.resource);
            let broken = !needed.is_zero() && *used + needed > limit.most;
            let resource = limit.resource.clone();
            broken.then_some(Refusal::Limit { resource, limit: limit.most, used: *used, needed })
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
