//! Planned nodes: whether each may be launched as its pool and class stand, whatever EC2 picks of what it offers.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrigger_model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, MIN_VALUES_RELAXED, ZONE};
use outrigger_model::resources::NODES;
use outrigger_model::{
    CapacityBuffer, CapacityType, ClassOffer, InstanceType, NodePool, PlannedNode, Pod, PodState, RankedType,
};

use super::Violation;
use super::load;
use super::market::Market;
use super::place::{Outcome, Place, Prospects};
use super::pools::reservations;
use super::world::World;

const NAME_CHARS_MAX: usize = 63;

fn fault(node: &PlannedNode, reason: impl Into<String>) -> Violation {
    Violation::Node { claim: node.claim.clone(), reason: reason.into() }
}

/// Checks every planned node.
pub(super) fn check(world: &World<'_>, market: &Market<'_>, places: &[Place<'_>], out: &mut Vec<Violation>) {
    let mut names: BTreeSet<&str> = world.claims.keys().copied().collect();
    for (place, node) in places.iter().filter_map(|place| Some((place, place.planned()?))) {
        if !names.insert(&node.claim) {
            out.push(fault(node, "its name is used twice"));
        }
        let Some(pool) = world.pool(&node.node_pool) else {
            out.push(fault(node, format!("there is no NodePool {}", node.node_pool)));
            continue;
        };
        let offer = market.offer(pool.node_class());
        let Some(offer) = offer.filter(|offer| offer.class.not_ready.is_none()) else {
            out.push(fault(node, "its node class is not ready"));
            continue;
        };
        check_shape(pool, offer, node, out);
        let types: Vec<&InstanceType> = node
            .instance_types
            .iter()
            .filter_map(|ranked| market.instance_type(&offer.class.reference, &ranked.name))
            .collect();
        check_types(offer, node, &types, out);
        check_demands(pool, offer, place, node, out);
        for outcome in &place.outcomes {
            check_outcome(offer, market, node, outcome, out);
        }
        check_min_values(pool, node, &types, out);
    }
    check_empty(world, places, out);
}

/// The rules that need nothing but the node, its pool and its class.
fn check_shape(pool: &NodePool, offer: &ClassOffer, node: &PlannedNode, out: &mut Vec<Violation>) {
    let types = node.instance_types.len();
    let names: BTreeSet<&str> = node.instance_types.iter().map(|ranked| ranked.name.as_str()).collect();
    let template = &pool.spec.template;
    let mut taints = template.spec.taints.iter().chain(&offer.class.taints);
    let mut labels = template.metadata.labels.iter();
    let in_order = |ranked: &RankedType| ranked.offerings.is_sorted_by_key(|offering| offering.price);
    let reserved = node.capacity_type == CapacityType::Reserved;
    let rules = [
        (node.claim.len() > NAME_CHARS_MAX, "its name is longer than 63 characters"),
        (types == 0 || types > PlannedNode::MAX_TYPES, "it offers no type or more than 60"),
        (names.len() < types, "it offers a type twice"),
        (!node.instance_types.is_sorted_by_key(RankedType::price), "its types are not in order of price"),
        (!node.instance_types.iter().all(in_order), "its offerings are not in order of price"),
        (
            node.instance_types.first().is_some_and(|t| t.price() != node.price),
            "its price is not its cheapest's",
        ),
        (node.node_class != offer.class.reference, "its class is not its pool's"),
        (taints.any(|taint| !node.taints.contains(taint)), "it lacks a taint of its pool or class"),
        (
            template.spec.startup_taints.iter().any(|taint| !node.startup_taints.contains(taint)),
            "it lacks a startup taint of its pool",
        ),
        (labels.any(|(key, value)| node.labels.get(key) != Some(value)), "it lacks a label of its pool"),
        (reserved && reservations(node).is_none(), "it is reserved and names no reservation"),
        (
            pool.spec.replicas.is_some() && !node.pods.is_empty(),
            "it has pods, but its pool has a fixed number of nodes",
        ),
    ];
    out.extend(rules.into_iter().filter(|(broken, _)| *broken).map(|(_, reason)| fault(node, reason)));
    if let Some(zone) = node.zones.iter().find(|zone| !node.requirements.allow(ZONE, zone)) {
        out.push(fault(node, format!("its requirements exclude its zone {zone}")));
    }
    if !node.requirements.allow(CAPACITY_TYPE, node.capacity_type.as_str()) {
        out.push(fault(node, format!("its requirements exclude its capacity type {}", node.capacity_type)));
    }
}

/// The rules about each type that it offers, wherever it is bought.
fn check_types(offer: &ClassOffer, node: &PlannedNode, types: &[&InstanceType], out: &mut Vec<Violation>) {
    for ranked in &node.instance_types {
        let name = &ranked.name;
        if !types.iter().any(|known| known.name == *name) {
            out.push(fault(node, format!("its class does not offer {name}")));
        }
        if ranked.offerings.is_empty() {
            out.push(fault(node, format!("{name} has no offering")));
        }
        if !node.requirements.allow(INSTANCE_TYPE, name) {
            out.push(fault(node, format!("its requirements exclude {name}")));
        }
        let arch = types.iter().find(|known| known.name == *name).and_then(|known| known.labels.get(ARCH));
        if arch.is_some_and(|arch| *arch != ranked.arch) {
            out.push(fault(node, format!("{name} is not {}", ranked.arch)));
        }
        let images = &offer.class.images;
        if !images.is_empty() && offer.class.image(&ranked.arch).is_none() {
            out.push(fault(node, format!("its class has no image for {name}")));
        }
    }
}

/// Whatever it becomes, it is what pool and class ask for.
fn check_demands(
    pool: &NodePool,
    offer: &ClassOffer,
    place: &Place<'_>,
    node: &PlannedNode,
    out: &mut Vec<Violation>,
) {
    let mut prospects = Prospects::of(place);
    for (owner, wanted) in [("pool", pool.requirements()), ("class", offer.class.requirements.clone())] {
        if let Err(conflict) = prospects.meet(&[wanted]) {
            out.push(fault(node, format!("its {owner} asks for {conflict}")));
        }
    }
}

/// The rules about one type in one zone: it is for sale there at that price, the node's labels are true of it, and it
/// has what the node promises and no more than the node reserves.
fn check_outcome(
    offer: &ClassOffer,
    market: &Market<'_>,
    node: &PlannedNode,
    outcome: &Outcome<'_>,
    out: &mut Vec<Violation>,
) {
    let machine = &outcome.machine;
    let (Some(instance_type), Some(zone)) = (machine.instance_type, machine.zone) else { return };
    let name = &instance_type.name;
    if !is_for_sale(offer, market, node, outcome) {
        out.push(fault(node, format!("{name} {} in {zone} cannot be had as offered", node.capacity_type)));
    }
    for (key, value) in &node.labels {
        if machine.label(key).is_some_and(|own| own != value) {
            out.push(fault(node, format!("its label {key} {value} is not that of {name}")));
        }
    }
    let counted = market.overlaid(&node.node_pool, machine, instance_type.counted());
    for (resource, amount) in counted.iter().filter(|(resource, _)| *resource != NODES) {
        if amount > node.reserved.get(resource) {
            out.push(fault(node, format!("it reserves less {resource} than {name} has")));
        }
    }
    for (resource, amount) in node.allocatable.iter() {
        if amount > outcome.allocatable.get(resource) {
            out.push(fault(node, format!("it promises more {resource} than {name} has")));
        }
    }
}

/// Whether EC2 sells it there, as it is paid for, at that price, and out of a reservation that the node names.
fn is_for_sale(offer: &ClassOffer, market: &Market<'_>, node: &PlannedNode, outcome: &Outcome<'_>) -> bool {
    let zone = outcome.machine.zone.unwrap_or_default();
    let subnets = &offer.class.subnets;
    let reachable = subnets.is_empty() || subnets.iter().any(|subnet| subnet.zone == zone);
    let named = |id: &str| reservations(node).is_some_and(|ids| ids.contains(id));
    reachable
        && node.zones.iter().any(|possible| possible == zone)
        && market
            .wares(&node.node_pool, &outcome.machine)
            .iter()
            .any(|ware| Some(ware.price) == outcome.price && ware.reservation.is_none_or(named))
}

/// The offered types keep as many values of a key as the pool asks for, unless the claim says that they may not
/// (`MIN_VALUES_POLICY` BestEffort). Zones and capacity types count as Karpenter counts them: all that the types are
/// sold in, not only what is left of them.
fn check_min_values(pool: &NodePool, node: &PlannedNode, types: &[&InstanceType], out: &mut Vec<Violation>) {
    if node.annotations.get(MIN_VALUES_RELAXED).is_some_and(|value| value == "true") {
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
            out.push(fault(node, format!("it keeps {kept} values of {key}; allowed: {wanted} or more")));
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
fn check_empty(world: &World<'_>, places: &[Place<'_>], out: &mut Vec<Violation>) {
    let pods: Vec<Pod> = world
        .snapshot
        .buffers
        .iter()
        .filter(|buffer| buffer.count > 0)
        .map(|buffer| stand_in(world, buffer))
        .collect();
    let mut left: u64 = world.snapshot.buffers.iter().map(|buffer| u64::from(buffer.count)).sum();
    let is_static = |pool: &str| world.pool(pool).is_some_and(|pool| pool.spec.replicas.is_some());
    let planned = places.iter().filter_map(|place| Some((place, place.planned()?)));
    let mut empty: Vec<_> =
        planned.filter(|(_, node)| node.pods.is_empty() && !is_static(&node.node_pool)).collect();
    empty.sort_by_key(|(place, _)| place.name);
    for (place, node) in empty {
        let carries = |pod: &Pod| {
            let mut complaints = Vec::new();
            load::check(world, &Place { placed: vec![pod], ..place.clone() }, &mut complaints);
            complaints.is_empty()
        };
        if left == 0 || !pods.iter().any(carries) {
            out.push(fault(node, "it has no pods, and no pod of a capacity buffer needs it"));
        }
        left = left.saturating_sub(1);
    }
}

/// One pod of a buffer.
fn stand_in(world: &World<'_>, buffer: &CapacityBuffer) -> Pod {
    Pod {
        id: buffer.id.clone(),
        uid: String::new(),
        labels: Arc::clone(&buffer.labels),
        spec: Arc::clone(&buffer.spec),
        created_at: world.snapshot.taken_at,
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
