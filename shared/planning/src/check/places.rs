//! The places of a plan: every node of the cluster, every claim on its way, every planned node, each with its pods.

use std::borrow::Cow;
use std::collections::BTreeMap;

use outrigger_model::labels::{CAPACITY_TYPE, HOSTNAME, ZONE};
use outrigger_model::{
    CapacityType, ClaimState, Node, NodeClaim, NominatedPod, Plan, PlannedNode, Pod, PodRef, Requirement,
    Resources, Taint, Target,
};

use super::Violation;
use super::market::Market;
use super::place::{Machine, Outcome, Place, Site};
use super::world::World;

/// The places, and what is wrong with the plan's entries by themselves: pods that may not be placed, or are placed
/// twice, and nodes and claims that take none.
pub(super) fn all<'a>(
    world: &World<'a>,
    market: &Market<'a>,
    plan: &'a Plan,
    out: &mut Vec<Violation>,
) -> Vec<Place<'a>> {
    let nodes = world.snapshot.nodes.iter().map(|node| of_node(world, node));
    let claims = world.snapshot.claims.iter();
    let flying = claims.filter(|claim| claim.state.accepts_pods() && !world.has_joined(claim));
    let mut places: Vec<Place<'a>> =
        nodes.chain(flying.map(|claim| of_claim(world, market, claim))).collect();
    let index: BTreeMap<Target, usize> =
        places.iter().enumerate().filter_map(|(at, place)| Some((target_of(place)?, at))).collect();
    let mut roll = Roll { world, seen: BTreeMap::new(), out };
    for placement in &plan.existing {
        let found = roll.call(placement.target.name(), &placement.pods);
        if let Some(reason) = closed(world, &placement.target) {
            let target = placement.target.name().to_owned();
            roll.out.push(Violation::Closed { target, reason: reason.into() });
        }
        if let Some(at) = index.get(&placement.target) {
            places[*at].placed.extend(found);
        }
    }
    for node in &plan.nodes {
        let found = roll.call(&node.claim, &node.pods);
        places.push(Place { placed: found, ..of_planned(world, market, node) });
    }
    let twice = roll.seen.into_iter().filter(|(_, times)| *times > 1);
    out.extend(twice.map(|(pod, times)| Violation::NotOnce { pod: pod.clone(), times }));
    for place in &mut places {
        place.residents.sort_by_key(|pod| &pod.id);
        place.placed.sort_by_key(|pod| &pod.id);
    }
    places
}

/// Finds the pods that a plan names.
struct Roll<'w, 'a, 'o> {
    world: &'w World<'a>,
    seen: BTreeMap<&'a PodRef, usize>,
    out: &'o mut Vec<Violation>,
}

impl<'a> Roll<'_, 'a, '_> {
    fn call(&mut self, on: &str, nominated: &'a [NominatedPod]) -> Vec<&'a Pod> {
        let mut found = Vec::new();
        for entry in nominated {
            *self.seen.entry(&entry.pod).or_default() += 1;
            match self.world.pending.get(entry.uid.as_str()).filter(|pod| pod.id == entry.pod) {
                Some(pod) => found.push(*pod),
                None => self.out.push(Violation::NotWaiting { pod: entry.pod.clone(), on: on.to_owned() }),
            }
        }
        found
    }
}

fn target_of(place: &Place<'_>) -> Option<Target> {
    match place.site {
        Site::Node(node) => Some(Target::Node(node.name.clone())),
        Site::Claim(claim) => Some(Target::Claim(claim.name.clone())),
        Site::Planned(_) => None,
    }
}

/// Why a node or claim takes no pods.
fn closed(world: &World<'_>, target: &Target) -> Option<&'static str> {
    let broken =
        |rules: &[(bool, &'static str)]| rules.iter().find(|(broken, _)| *broken).map(|(_, why)| *why);
    match target {
        Target::Node(name) => {
            let Some(node) = world.nodes.get(name.as_str()) else {
                return Some("there is no such node");
            };
            let claim = world.claim_of(node);
            broken(&[
                (node.deleting, "it is being deleted"),
                (node.unschedulable, "it is cordoned"),
                (!node.ready && !is_young(node, claim), "it is not ready"),
                (claim.is_some_and(|claim| !claim.state.accepts_pods()), "its claim takes no more pods"),
            ])
        }
        Target::Claim(name) => {
            let Some(claim) = world.claims.get(name.as_str()) else {
                return Some("there is no such claim");
            };
            let launched = matches!(claim.state, ClaimState::Intent | ClaimState::Launched);
            broken(&[
                (!claim.state.accepts_pods(), "its claim takes no more pods"),
                (world.has_joined(claim), "its node has joined and must be named instead"),
                (!launched, "its node had joined and is gone"),
            ])
        }
    }
}

/// Whether a node of ours has not finished starting.
pub(super) fn is_young(node: &Node, claim: Option<&NodeClaim>) -> bool {
    (claim.is_some() || node.node_pool().is_some()) && !node.is_initialized()
}

fn of_node<'a>(world: &World<'a>, node: &'a Node) -> Place<'a> {
    let claim = world.claim_of(node);
    let young = is_young(node, claim);
    let mut labels: BTreeMap<&str, Cow<'_, str>> = borrowed(&node.labels).collect();
    let mut allocatable = Cow::Borrowed(&node.allocatable);
    if let Some(claim) = claim.filter(|_| young) {
        for (key, value) in borrowed(&claim.labels) {
            labels.entry(key).or_insert(value);
        }
        let missing = claim.allocatable.iter().filter(|(name, _)| node.allocatable.get(name).is_zero());
        missing.for_each(|(name, amount)| allocatable.to_mut().set(name, amount));
    }
    // Every kubelet gives this label; a snapshot written by hand may leave it out.
    labels.entry(HOSTNAME).or_insert(Cow::Borrowed(&node.name));
    let mut residents = world.pods_on(&node.name).to_vec();
    residents.extend(claim.iter().flat_map(|claim| world.held_by(claim)));
    Place {
        name: &node.name,
        site: Site::Node(node),
        taints: lasting_taints(world, node, claim, young),
        labels,
        outcomes: vec![Outcome { machine: Machine::default(), price: None, allocatable }],
        residents,
        placed: Vec::new(),
    }
}

fn borrowed(labels: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    labels.iter().map(|(key, value)| (key.as_str(), Cow::Borrowed(value.as_str())))
}

/// The taints that a node will have once it has started: a young one loses ephemeral and startup taints by itself, and
/// before it is registered it lacks those of its claim (Karpenter `pkg/scheduling/taints.go`).
fn lasting_taints(world: &World<'_>, node: &Node, claim: Option<&NodeClaim>, young: bool) -> Vec<Taint> {
    if !young {
        return node.taints.clone();
    }
    let pool = node.node_pool().and_then(|name| world.pool(name));
    let starts = |taint: &Taint| {
        pool.is_some_and(|pool| pool.spec.template.spec.startup_taints.contains(taint))
            || claim.is_some_and(|claim| claim.startup_taints.contains(taint))
    };
    let lasting = node.taints.iter().filter(|taint| !taint.is_ephemeral() && !starts(taint));
    let mut taints: Vec<Taint> = lasting.cloned().collect();
    let unregistered = claim.filter(|claim| claim.state < ClaimState::Registered);
    taints.extend(unregistered.into_iter().flat_map(|claim| claim.taints.iter().cloned()));
    taints
}

/// A label value that no node has: the host's name is not known before there is a host.
fn unknown_host(claim: &str) -> Cow<'static, str> {
    Cow::Owned(format!("(the host of {claim})"))
}

fn of_claim<'a>(world: &World<'a>, market: &Market<'a>, claim: &'a NodeClaim) -> Place<'a> {
    let single =
        |(key, requirement): (&'a str, &'a Requirement)| Some((key, Cow::Borrowed(requirement.single()?)));
    let mut labels: BTreeMap<&str, Cow<'_, str>> = claim.requirements.iter().filter_map(single).collect();
    labels.extend(borrowed(&claim.labels));
    labels.insert(HOSTNAME, unknown_host(&claim.name));
    let asked =
        claim.requirements.get(CAPACITY_TYPE).and_then(Requirement::single).and_then(CapacityType::named);
    let capacity_type = claim.instance.as_ref().map(|instance| instance.capacity_type).or(asked);
    let names: Vec<&str> = match &claim.instance {
        Some(instance) => vec![&instance.instance_type],
        // A claim that names none is a machine that nobody knows.
        None if claim.instance_types.is_empty() => vec![""],
        None => claim.instance_types.iter().map(String::as_str).collect(),
    };
    let offer = market.offer(&claim.node_class);
    let mut outcomes = Vec::new();
    for name in names {
        for zone in zones_of(claim) {
            let instance_type = market.instance_type(&claim.node_class, name);
            let zone_id = offer.zip(zone).and_then(|(offer, zone)| zone_id(offer, zone));
            let machine = Machine { instance_type, zone, zone_id, capacity_type };
            // What the catalogue no longer knows is what it was planned as.
            let known = instance_type.map(|t| market.overlaid(&claim.node_pool, &machine, &t.allocatable));
            let allocatable = known.unwrap_or(Cow::Borrowed(&claim.allocatable));
            outcomes.push(Outcome { machine, price: None, allocatable });
        }
    }
    Place {
        name: &claim.name,
        site: Site::Claim(claim),
        taints: claim.taints.clone(),
        labels,
        outcomes,
        residents: world.held_by(claim),
        placed: Vec::new(),
    }
}

/// The zones that the claim's node may come up in; one unknown when nothing tells.
fn zones_of(claim: &NodeClaim) -> Vec<Option<&str>> {
    if let Some(instance) = &claim.instance {
        return vec![Some(&instance.zone)];
    }
    let values = claim.requirements.get(ZONE).and_then(Requirement::values);
    let values = values.filter(|values| !values.is_empty());
    values.map_or_else(|| vec![None], |values| values.iter().map(|value| Some(value.as_str())).collect())
}

fn zone_id<'a>(offer: &'a outrigger_model::ClassOffer, zone: &str) -> Option<&'a str> {
    let mut subnets = offer.class.subnets.iter();
    subnets
        .find(|subnet| subnet.zone == zone && !subnet.zone_id.is_empty())
        .map(|subnet| subnet.zone_id.as_str())
}

fn of_planned<'a>(world: &World<'a>, market: &Market<'a>, node: &'a PlannedNode) -> Place<'a> {
    let mut labels: BTreeMap<&str, Cow<'_, str>> = borrowed(&node.labels).collect();
    labels.insert(HOSTNAME, unknown_host(&node.claim));
    let offer = world.pool(&node.node_pool).and_then(|pool| market.offer(pool.node_class()));
    let mut outcomes = Vec::new();
    for ranked in &node.instance_types {
        let class = offer.map(|offer| &offer.class.reference);
        let Some(instance_type) = class.and_then(|class| market.instance_type(class, &ranked.name)) else {
            continue;
        };
        for offering in &ranked.offerings {
            let machine = Machine {
                instance_type: Some(instance_type),
                zone: Some(&offering.zone),
                zone_id: offer.and_then(|offer| zone_id(offer, &offering.zone)),
                capacity_type: Some(node.capacity_type),
            };
            let allocatable: Cow<'a, Resources> =
                market.overlaid(&node.node_pool, &machine, &instance_type.allocatable);
            outcomes.push(Outcome { machine, price: Some(offering.price), allocatable });
        }
    }
    Place {
        name: &node.claim,
        site: Site::Planned(node),
        taints: node.taints.clone(),
        labels,
        outcomes,
        residents: Vec::new(),
        placed: Vec::new(),
    }
}
