//! Planned nodes: whether each may be launched as its pool and class stand, whatever EC2 picks of what it offers.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrigger_model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, MIN_VALUES_RELAXED, ZONE};
use outrigger_model::resources::NODES;
use outrigger_model::{
    CapacityBuffer, CapacityType, ClassOffer, InstanceType, NodePool, PlannedNode, Pod, PodState, RankedType,
};

use super::Violation;
use super::cluster_state::ClusterState;
use super::fit;
use super::market::Market;
use super::node_info::{InstanceOption, NodeInfo, PossibleLabels};
use super::pools::reservations;

const NAME_CHARS_MAX: usize = 63;

fn fault(planned: &PlannedNode, reason: impl Into<String>) -> Violation {
    Violation::Node { claim: planned.claim.clone(), reason: reason.into() }
}

/// Checks every planned node.
pub(super) fn check(
    cluster: &ClusterState<'_>,
    market: &Market<'_>,
    nodes: &[NodeInfo<'_>],
    out: &mut Vec<Violation>,
) {
    let mut names: BTreeSet<&str> = cluster.claims.keys().copied().collect();
    for (node, planned) in nodes.iter().filter_map(|node| Some((node, node.planned_node()?))) {
        if !names.insert(&planned.claim) {
            out.push(fault(planned, "its name is used twice"));
        }
        let Some(pool) = cluster.pool(&planned.node_pool) else {
            out.push(fault(planned, format!("there is no NodePool {}", planned.node_pool)));
            continue;
        };
        let offer = market.offer(pool.node_class());
        let Some(offer) = offer.filter(|offer| offer.class.not_ready.is_none()) else {
            out.push(fault(planned, "its node class is not ready"));
            continue;
        };
        check_template(pool, offer, planned, out);
        let types: Vec<&InstanceType> = planned
            .instance_types
            .iter()
            .filter_map(|ranked| market.instance_type(&offer.class.reference, &ranked.name))
            .collect();
        check_types(offer, planned, &types, out);
        check_requirements(pool, offer, node, planned, out);
        for option in &node.options {
            check_option(offer, market, planned, option, out);
        }
        check_min_values(pool, planned, &types, out);
    }
    check_empty(cluster, nodes, out);
}

/// The rules that need nothing but the node, its pool and its class.
fn check_template(pool: &NodePool, offer: &ClassOffer, planned: &PlannedNode, out: &mut Vec<Violation>) {
    let types = planned.instance_types.len();
    let names: BTreeSet<&str> = planned.instance_types.iter().map(|ranked| ranked.name.as_str()).collect();
    let template = &pool.spec.template;
    let mut taints = template.spec.taints.iter().chain(&offer.class.taints);
    let mut labels = template.metadata.labels.iter();
    let in_order = |ranked: &RankedType| ranked.offerings.is_sorted_by_key(|offering| offering.price);
    let reserved = planned.capacity_type == CapacityType::Reserved;
    let rules = [
        (planned.claim.len() > NAME_CHARS_MAX, "its name is longer than 63 characters"),
        (types == 0 || types > PlannedNode::MAX_TYPES, "it offers no type or more than 60"),
        (names.len() < types, "it offers a type twice"),
        (!planned.instance_types.is_sorted_by_key(RankedType::price), "its types are not in order of price"),
        (!planned.instance_types.iter().all(in_order), "its offerings are not in order of price"),
        (
            planned.instance_types.first().is_some_and(|t| t.price() != planned.price),
            "its price is not its cheapest's",
        ),
        (planned.node_class != offer.class.reference, "its class is not its pool's"),
        (taints.any(|taint| !planned.taints.contains(taint)), "it lacks a taint of its pool or class"),
        (
            template.spec.startup_taints.iter().any(|taint| !planned.startup_taints.contains(taint)),
            "it lacks a startup taint of its pool",
        ),
        (labels.any(|(key, value)| planned.labels.get(key) != Some(value)), "it lacks a label of its pool"),
        (reserved && reservations(planned).is_none(), "it is reserved and names no reservation"),
        (
            pool.spec.replicas.is_some() && !planned.pods.is_empty(),
            "it has pods, but its pool has a fixed number of nodes",
        ),
    ];
    out.extend(rules.into_iter().filter(|(broken, _)| *broken).map(|(_, reason)| fault(planned, reason)));
    if let Some(zone) = planned.zones.iter().find(|zone| !planned.requirements.allow(ZONE, zone)) {
        out.push(fault(planned, format!("its requirements exclude its zone {zone}")));
    }
    if !planned.requirements.allow(CAPACITY_TYPE, planned.capacity_type.as_str()) {
        out.push(fault(
            planned,
            format!("its requirements exclude its capacity type {}", planned.capacity_type),
        ));
    }
}

/// The rules about each type that it offers, wherever it is bought.
fn check_types(offer: &ClassOffer, planned: &PlannedNode, types: &[&InstanceType], out: &mut Vec<Violation>) {
    for ranked in &planned.instance_types {
        let name = &ranked.name;
        if !types.iter().any(|known| known.name == *name) {
            out.push(fault(planned, format!("its class does not offer {name}")));
        }
        if ranked.offerings.is_empty() {
            out.push(fault(planned, format!("{name} has no offering")));
        }
        if !planned.requirements.allow(INSTANCE_TYPE, name) {
            out.push(fault(planned, format!("its requirements exclude {name}")));
        }
        let arch = types.iter().find(|known| known.name == *name).and_then(|known| known.labels.get(ARCH));
        if arch.is_some_and(|arch| *arch != ranked.arch) {
            out.push(fault(planned, format!("{name} is not {}", ranked.arch)));
        }
        let images = &offer.class.images;
        if !images.is_empty() && offer.class.image(&ranked.arch).is_none() {
            out.push(fault(planned, format!("its class has no image for {name}")));
        }
    }
}

/// Whatever it becomes, it is what pool and class ask for.
fn check_requirements(
    pool: &NodePool,
    offer: &ClassOffer,
    node: &NodeInfo<'_>,
    planned: &PlannedNode,
    out: &mut Vec<Violation>,
) {
    let mut labels = PossibleLabels::of(node);
    for (owner, wanted) in [("pool", pool.requirements()), ("class", offer.class.requirements.clone())] {
        if let Err(conflict) = labels.meet(&[wanted]) {
            out.push(fault(planned, format!("its {owner} asks for {conflict}")));
        }
    }
}

/// The rules about one type in one zone: it is for sale there at that price, the node's labels are true of it, and it
/// has what the node promises and no more than the node reserves.
fn check_option(
    offer: &ClassOffer,
    market: &Market<'_>,
    planned: &PlannedNode,
    option: &InstanceOption<'_>,
    out: &mut Vec<Violation>,
) {
    let instance = &option.instance;
    let (Some(instance_type), Some(zone)) = (instance.instance_type, instance.zone) else { return };
    let name = &instance_type.name;
    if !is_for_sale(offer, market, planned, option) {
        out.push(fault(
            planned,
            format!("{name} {} in {zone} cannot be had as offered", planned.capacity_type),
        ));
    }
    for (key, value) in &planned.labels {
        if instance.label(key).is_some_and(|own| own != value) {
            out.push(fault(planned, format!("its label {key} {value} is not that of {name}")));
        }
    }
    let counted = market.overlaid(&planned.node_pool, instance, instance_type.counted());
    for (resource, amount) in counted.iter().filter(|(resource, _)| *resource != NODES) {
        if amount > planned.reserved.get(resource) {
            out.push(fault(planned, format!("it reserves less {resource} than {name} has")));
        }
    }
    for (resource, amount) in planned.allocatable.iter() {
        if amount > option.allocatable.get(resource) {
            out.push(fault(planned, format!("it promises more {resource} than {name} has")));
        }
    }
}

/// Whether EC2 sells it there, as it is paid for, at that price, and out of a reservation that the node names.
fn is_for_sale(
    offer: &ClassOffer,
    market: &Market<'_>,
    planned: &PlannedNode,
    option: &InstanceOption<'_>,
) -> bool {
    let zone = option.instance.zone.unwrap_or_default();
    let subnets = &offer.class.subnets;
    let reachable = subnets.is_empty() || subnets.iter().any(|subnet| subnet.zone == zone);
    let named = |id: &str| reservations(planned).is_some_and(|ids| ids.contains(id));
    reachable
        && planned.zones.iter().any(|possible| possible == zone)
        && market
            .offerings(&planned.node_pool, &option.instance)
            .iter()
            .any(|ware| Some(ware.price) == option.price && ware.reservation.is_none_or(named))
}

/// The offered types keep as many values of a key as the pool asks for, unless the claim says that they may not
/// (`MIN_VALUES_POLICY` BestEffort). Zones and capacity types count as Karpenter counts them: all that the types are
/// sold in, not only what is left of them.
fn check_min_values(
    pool: &NodePool,
    planned: &PlannedNode,
    types: &[&InstanceType],
    out: &mut Vec<Violation>,
) {
    if planned.annotations.get(MIN_VALUES_RELAXED).is_some_and(|value| value == "true") {
        return;
    }
    for (key, requirement) in pool.requirements().iter() {
        let Some(wanted) = requirement.min_values() else { continue };
        let values: BTreeSet<&str> = types
            .iter()
            .flat_map(|instance_type| values_of(instance_type, key))
            .filter(|value| requirement.has(value))
            .collect();
        if values.len() < wanted as usize {
            let kept = values.len();
            out.push(fault(planned, format!("it keeps {kept} values of {key}; allowed: {wanted} or more")));
        }
    }
}

fn values_of<'t>(instance_type: &'t InstanceType, key: &str) -> Vec<&'t str> {
    let sold = instance_type.offerings.iter().filter(|offering| offering.available);
    match key {
        ZONE => sold.map(|offering| offering.zone.as_str()).collect(),
        CAPACITY_TYPE => sold.map(|offering| offering.capacity_type.as_str()).collect(),
        INSTANCE_TYPE => vec![&instance_type.name],
        _ => instance_type.labels.get(key).map(String::as_str).into_iter().collect(),
    }
}

/// Nodes without pods are for pools with a fixed number of nodes, and for the pods of capacity buffers, which are not
/// in the plan: such a node must be able to carry one of them, and there are no more nodes than such pods.
fn check_empty(cluster: &ClusterState<'_>, nodes: &[NodeInfo<'_>], out: &mut Vec<Violation>) {
    let pods: Vec<Pod> = cluster
        .snapshot
        .buffers
        .iter()
        .filter(|buffer| buffer.count > 0)
        .map(|buffer| buffer_pod(cluster, buffer))
        .collect();
    let mut left: u64 = cluster.snapshot.buffers.iter().map(|buffer| u64::from(buffer.count)).sum();
    let is_static = |pool: &str| cluster.pool(pool).is_some_and(|pool| pool.spec.replicas.is_some());
    let planned = nodes.iter().filter_map(|node| Some((node, node.planned_node()?)));
    let mut empty: Vec<_> =
        planned.filter(|(_, planned)| planned.pods.is_empty() && !is_static(&planned.node_pool)).collect();
    empty.sort_by_key(|(node, _)| node.name);
    for (node, planned) in empty {
        let carries = |pod: &Pod| {
            let mut violations = Vec::new();
            fit::check(cluster, &NodeInfo { planned: vec![pod], ..node.clone() }, &mut violations);
            violations.is_empty()
        };
        if left == 0 || !pods.iter().any(carries) {
            out.push(fault(planned, "it has no pods, and no pod of a capacity buffer needs it"));
        }
        left = left.saturating_sub(1);
    }
}

/// One pod of a buffer.
fn buffer_pod(cluster: &ClusterState<'_>, buffer: &CapacityBuffer) -> Pod {
    Pod {
        id: buffer.id.clone(),
        uid: String::new(),
        labels: Arc::clone(&buffer.labels),
        spec: Arc::clone(&buffer.spec),
        created_at: cluster.snapshot.taken_at,
        node_name: None,
        nominated_node: None,
        state: PodState::Unschedulable,
        owner_kind: String::new(),
        daemon_set: None,
        volume_claims: Vec::new(),
        group: None,
        do_not_disrupt: None,
    }
}
