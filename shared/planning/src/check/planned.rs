//! Planned nodes: whether each may be launched as its pool and class stand, carries its pods whatever EC2 picks, and
//! keeps its pool within its limits.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, REGION, ZONE, ZONE_ID};
use outrigger_model::resources::NODES;
use outrigger_model::{
    ClassOffer, InstanceType, NodePool, Plan, PlannedNode, Pod, Quantity, RankedType, Resources, Snapshot,
};

use super::Violation;
use super::facts::{Labels, Machine};

const NAME_CHARS_MAX: usize = 63;

pub(super) fn fault(node: &PlannedNode, reason: impl Into<String>) -> Violation {
    Violation::Node { claim: node.claim.clone(), reason: reason.into() }
}

/// Checks one planned node with its pods.
pub(super) fn check(snapshot: &Snapshot, node: &PlannedNode, pods: &[&Pod], out: &mut Vec<Violation>) {
    let Some(pool) = snapshot.node_pools.iter().find(|pool| pool.name == node.node_pool) else {
        return out.push(fault(node, format!("there is no NodePool {}", node.node_pool)));
    };
    let Some(offer) = snapshot.offer_for(pool).filter(|offer| offer.class.not_ready.is_none()) else {
        return out.push(fault(node, "its node class is not ready"));
    };
    check_shape(pool, offer, node, out);
    for ranked in &node.instance_types {
        let Some(instance_type) = offer.instance_types.iter().find(|t| t.name == ranked.name) else {
            out.push(fault(node, format!("its class does not offer {}", ranked.name)));
            continue;
        };
        check_offerings(snapshot, node, instance_type, ranked, out);
        for place in &ranked.offerings {
            let labels = labels_in(offer, node, instance_type, &place.zone);
            if let Err(conflict) = pool.requirements().match_labels(&labels) {
                out.push(fault(node, format!("as {} its pool asks for {conflict}", ranked.name)));
            }
            let machine = Machine {
                on: &node.claim,
                instance_type: &instance_type.name,
                labels,
                taints: &node.taints,
                available: instance_type.allocatable.clone(),
                ports: Vec::new(),
            };
            machine.check(snapshot, pods, &Resources::new(), out);
        }
    }
    check_min_values(pool, offer, node, out);
}

fn check_shape(pool: &NodePool, offer: &ClassOffer, node: &PlannedNode, out: &mut Vec<Violation>) {
    let types = node.instance_types.len();
    let rules = [
        (node.pods.is_empty(), "it has no pods"),
        (node.claim.len() > NAME_CHARS_MAX, "its name is longer than 63 characters"),
        (types == 0 || types > PlannedNode::MAX_TYPES, "it offers no type or more than 60"),
        (!node.instance_types.is_sorted_by_key(RankedType::price), "its types are not in order of price"),
        (node.node_class != offer.class.reference, "its class is not its pool's"),
        (
            pool.spec
                .template
                .spec
                .taints
                .iter()
                .chain(&offer.class.taints)
                .any(|t| !node.taints.contains(t)),
            "it lacks a taint of its pool or class",
        ),
        (
            pool.spec.template.metadata.labels.iter().any(|(key, value)| node.labels.get(key) != Some(value)),
            "it lacks a label of its pool",
        ),
        (
            node.instance_types.first().map(RankedType::price) != Some(node.price),
            "its price is not its cheapest's",
        ),
    ];
    out.extend(rules.into_iter().filter(|(broken, _)| *broken).map(|(_, reason)| fault(node, reason)));
}

/// Each offering exists, is for sale at that price, and is where the node may be.
fn check_offerings(
    snapshot: &Snapshot,
    node: &PlannedNode,
    instance_type: &InstanceType,
    ranked: &RankedType,
    out: &mut Vec<Violation>,
) {
    if ranked.offerings.is_empty() {
        out.push(fault(node, format!("{} has no offering", ranked.name)));
    }
    for place in &ranked.offerings {
        let sold = instance_type.offerings.iter().any(|offering| {
            let lacking =
                snapshot.unavailable.iter().any(|u| u.covers(&ranked.name, offering, snapshot.taken_at));
            offering.zone == place.zone
                && offering.capacity_type == node.capacity_type
                && offering.price == place.price
                && offering.available
                && !lacking
        });
        if !sold || !node.zones.contains(&place.zone) {
            let kind = node.capacity_type;
            out.push(fault(node, format!("{} {kind} in {} cannot be had", ranked.name, place.zone)));
        }
    }
    for (resource, amount) in instance_type.counted().iter() {
        if amount > node.reserved.get(resource) {
            out.push(fault(node, format!("it reserves less {resource} than {} has", ranked.name)));
        }
    }
    for (resource, amount) in node.allocatable.iter() {
        if amount > instance_type.allocatable.get(resource) {
            out.push(fault(node, format!("it promises more {resource} than {} has", ranked.name)));
        }
    }
}

/// The labels that the node has if EC2 picks this type in this zone.
fn labels_in(offer: &ClassOffer, node: &PlannedNode, instance_type: &InstanceType, zone: &str) -> Labels {
    let mut labels = instance_type.labels.clone();
    labels.insert(INSTANCE_TYPE.into(), instance_type.name.clone());
    labels.insert(ZONE.into(), zone.to_owned());
    labels.insert(CAPACITY_TYPE.into(), node.capacity_type.to_string());
    if let Some(subnet) = offer.class.subnets.iter().find(|s| s.zone == zone && !s.zone_id.is_empty()) {
        labels.insert(ZONE_ID.into(), subnet.zone_id.clone());
    }
    let letters = zone.trim_end_matches(|c: char| c.is_ascii_lowercase());
    labels.entry(REGION.into()).or_insert_with(|| letters.to_owned());
    labels.extend(node.labels.clone());
    labels
}

fn check_min_values(pool: &NodePool, offer: &ClassOffer, node: &PlannedNode, out: &mut Vec<Violation>) {
    let requirements = pool.requirements();
    let asked = requirements.iter().filter_map(|(key, requirement)| Some((key, requirement.min_values()?)));
    for (key, wanted) in asked.filter(|(key, _)| ![ZONE, CAPACITY_TYPE].contains(key)) {
        let types =
            node.instance_types.iter().filter_map(|r| offer.instance_types.iter().find(|t| t.name == r.name));
        let values: BTreeSet<&String> = types
            .filter_map(|t| if key == INSTANCE_TYPE { Some(&t.name) } else { t.labels.get(key) })
            .collect();
        if values.len() < wanted as usize {
            out.push(fault(
                node,
                format!("it keeps {} values of {key}; allowed: {wanted} or more", values.len()),
            ));
        }
    }
}

/// No pool holds more than its limits when every planned node becomes the largest type that it offers.
pub(super) fn check_limits(snapshot: &Snapshot, plan: &Plan, out: &mut Vec<Violation>) {
    for pool in &snapshot.node_pools {
        let planned: Vec<&PlannedNode> =
            plan.nodes.iter().filter(|node| node.node_pool == pool.name).collect();
        let Some(limits) = pool.spec.limits.as_ref().filter(|_| !planned.is_empty()) else { continue };
        let mut used: BTreeMap<String, Quantity> = BTreeMap::new();
        let mut count = |resources: &Resources| {
            for (name, amount) in resources.iter().filter(|(name, _)| *name != NODES) {
                *used.entry(name.to_owned()).or_default() += amount;
            }
            *used.entry(NODES.to_owned()).or_default() += Quantity::units(1);
        };
        let claims = &snapshot.claims;
        for claim in claims.iter().filter(|claim| claim.node_pool == pool.name && !claim.state.is_terminal())
        {
            count(&claim.reserved);
        }
        for node in snapshot.nodes.iter().filter(|node| node.node_pool() == Some(&pool.name)) {
            let is_its =
                |name: Option<&str>| name.is_some_and(|n| n == node.name || Some(n) == node.instance_id());
            if !claims.iter().any(|c| is_its(c.node_name.as_deref()) || is_its(c.instance_id())) {
                count(&node.capacity);
            }
        }
        for node in &planned {
            count(&node.reserved);
        }
        for (resource, limit) in limits.iter() {
            let total = used.get(resource).copied().unwrap_or_default();
            let added =
                resource == NODES || planned.iter().any(|node| !node.reserved.get(resource).is_zero());
            if total > limit && added {
                out.push(Violation::Limit {
                    node_pool: pool.name.clone(),
                    resource: resource.to_owned(),
                    used: total.to_string(),
                    limit: limit.to_string(),
                });
            }
        }
    }
}
