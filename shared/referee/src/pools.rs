//! Pools, reservations and pod groups: what all planned nodes together may not pass.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::labels::RESERVATION_ID;
use outrigger_model::resources::NODES;
use outrigger_model::{NodeClaim, NodePool, Plan, PlannedNode, PodRef, Quantity, Requirement};
use outrigger_policy::reservations::{available, held};

use super::Violation;
use super::cluster_state::ClusterState;
use super::node_info::NodeInfo;

/// Checks limits, replicas, reservations and groups.
pub(super) fn check(
    cluster: &ClusterState<'_>,
    plan: &Plan,
    nodes: &[NodeInfo<'_>],
    out: &mut Vec<Violation>,
) {
    let mut by_pool: BTreeMap<&str, Vec<&PlannedNode>> = BTreeMap::new();
    for node in &plan.nodes {
        by_pool.entry(&node.spec.node_pool).or_default().push(node);
    }
    for pool in &cluster.snapshot.node_pools {
        if let Some(planned) = by_pool.get(pool.name.as_str()) {
            check_limits(cluster, pool, planned, out);
            check_replicas(cluster, pool, planned.len(), out);
        }
    }
    check_reservations(cluster, plan, out);
    check_groups(cluster, nodes, out);
}

/// No pool holds more than its limits when every planned node becomes the largest type that it
/// offers.
fn check_limits(
    cluster: &ClusterState<'_>,
    pool: &NodePool,
    planned: &[&PlannedNode],
    out: &mut Vec<Violation>,
) {
    let Some(limits) = &pool.spec.limits else { return };
    let mut used: BTreeMap<&str, Quantity> = BTreeMap::new();
    let snapshot = cluster.snapshot;
    let claims = snapshot
        .claims
        .iter()
        .filter(|claim| claim.spec.node_pool == pool.name && !claim.status.state.is_terminal());
    let nodes = snapshot.nodes.iter().filter(|node| node.node_pool() == Some(&pool.name));
    let unclaimed = nodes.filter(|node| cluster.claim_of(node).is_none());
    let held = claims.map(|claim| &claim.status.reserved).chain(unclaimed.map(|node| &node.capacity));
    for resources in held.chain(planned.iter().map(|node| &node.reserved)) {
        for (name, amount) in resources.iter().filter(|(name, _)| *name != NODES) {
            *used.entry(name).or_default() += amount;
        }
        *used.entry(NODES).or_default() += Quantity::units(1);
    }
    for (resource, limit) in limits.iter() {
        let total = used.get(resource).copied().unwrap_or_default();
        // A limit that is passed already does not bar a node that adds nothing to it.
        let adds = |node: &&PlannedNode| !node.reserved.get(resource).is_zero();
        if total > limit && (resource == NODES || planned.iter().any(adds)) {
            out.push(Violation::Limit {
                node_pool: pool.name.clone(),
                resource: resource.to_owned(),
                used: total.to_string(),
                limit: limit.to_string(),
            });
        }
    }
}

/// A pool with a fixed number of nodes gets no more. Nodes that are on their way out are replaced,
/// so they do not count (Karpenter `pkg/controllers/static`).
fn check_replicas(cluster: &ClusterState<'_>, pool: &NodePool, planned: usize, out: &mut Vec<Violation>) {
    let Some(replicas) = pool.spec.replicas else { return };
    let out_going = cluster.snapshot.nodes.iter().filter(|node| node.deleting || node.is_disrupted());
    let going: BTreeSet<&str> =
        out_going.filter_map(|node| Some(cluster.claim_of(node)?.name.as_str())).collect();
    let stays =
        |claim: &&NodeClaim| claim.status.state.accepts_pods() && !going.contains(claim.name.as_str());
    let claims = cluster.snapshot.claims.iter().filter(|claim| claim.spec.node_pool == pool.name);
    let existing = claims.filter(stays).count();
    let nodes = planned + existing;
    if nodes > replicas as usize {
        out.push(Violation::Replicas { node_pool: pool.name.clone(), nodes, replicas });
    }
}

/// The reservations that a planned node may draw on.
pub(super) fn reservations(node: &PlannedNode) -> Option<&BTreeSet<String>> {
    node.spec.requirements.get(RESERVATION_ID).and_then(Requirement::values).filter(|ids| !ids.is_empty())
}

/// Each planned node counts against every reservation that it names.
fn check_reservations(cluster: &ClusterState<'_>, plan: &Plan, out: &mut Vec<Violation>) {
    let mut nodes: BTreeMap<&str, usize> = BTreeMap::new();
    for id in plan.nodes.iter().filter_map(reservations).flatten() {
        *nodes.entry(id).or_default() += 1;
    }
    if nodes.is_empty() {
        return;
    }
    let held = held(cluster.snapshot);
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let types = cluster.snapshot.classes.iter().flat_map(|offer| offer.instance_types.iter());
    for reservation in types.flat_map(|t| &t.offerings).filter_map(|offering| offering.reservation.as_ref()) {
        let room = available(reservation, &held);
        let count = counts.entry(&reservation.id).or_insert(room);
        *count = room.min(*count);
    }
    for (id, nodes) in nodes {
        let count = counts.get(id).copied().unwrap_or(0);
        if nodes > count as usize {
            out.push(Violation::Reservation { id: id.to_owned(), nodes, count });
        }
    }
}

/// All waiting pods of a group are placed, or none.
fn check_groups(cluster: &ClusterState<'_>, nodes: &[NodeInfo<'_>], out: &mut Vec<Violation>) {
    let planned: BTreeSet<&PodRef> = nodes.iter().flat_map(|node| &node.planned).map(|pod| &pod.id).collect();
    let mut groups: BTreeMap<(&str, &str), (usize, usize)> = BTreeMap::new();
    for pod in cluster.pending.values() {
        if let Some(group) = &pod.group {
            let (done, pending) = groups.entry((&pod.id.namespace, group)).or_default();
            *pending += 1;
            *done += usize::from(planned.contains(&pod.id));
        }
    }
    for ((namespace, group), (placed, pending)) in groups {
        if placed > 0 && placed < pending {
            let (namespace, group) = (namespace.to_owned(), group.to_owned());
            out.push(Violation::Group { namespace, group, placed, pending });
        }
    }
}
