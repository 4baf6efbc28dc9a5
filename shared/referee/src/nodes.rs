//! The nodes of a plan: every node of the cluster, every claim in flight and every planned node,
//! each with its pods.

use std::borrow::Cow;
use std::collections::BTreeMap;

use outrigger_model::labels::{CAPACITY_TYPE, HOSTNAME, ZONE};
use outrigger_model::{
    CapacityType, ClaimState, Node, NodeClaim, NominatedPod, Plan, PlannedNode, Pod, PodRef, Requirement,
    Resources, Taint, Target,
};

use super::Violation;
use super::cluster_state::ClusterState;
use super::market::Market;
use super::node_info::{InstanceOption, NodeInfo, NodeSource, PossibleInstance};

/// The nodes; and what is wrong with the plan's entries by themselves: pods that may not be placed
/// or are placed twice, and nodes and claims that take none.
pub(super) fn node_infos<'a>(
    cluster: &ClusterState<'a>,
    market: &Market<'a>,
    plan: &'a Plan,
    out: &mut Vec<Violation>,
) -> Vec<NodeInfo<'a>> {
    let nodes = cluster.snapshot.nodes.iter().map(|node| of_node(cluster, node));
    let claims = cluster.snapshot.claims.iter();
    let in_flight = claims.filter(|claim| claim.status.state.accepts_pods() && !cluster.has_joined(claim));
    let mut nodes: Vec<NodeInfo<'a>> =
        nodes.chain(in_flight.map(|claim| of_claim(cluster, market, claim))).collect();
    let index: BTreeMap<Target, usize> =
        nodes.iter().enumerate().filter_map(|(at, node)| Some((target_of(node)?, at))).collect();
    let mut lookup = PodLookup { cluster, seen: BTreeMap::new(), out };
    for placement in &plan.existing {
        let pods = lookup.find(placement.target.name(), &placement.pods);
        if let Some(reason) = takes_no_pods(cluster, &placement.target) {
            let target = placement.target.name().to_owned();
            lookup.out.push(Violation::TakesNoPods { target, reason: reason.into() });
        }
        if let Some(at) = index.get(&placement.target) {
            nodes[*at].planned.extend(pods);
        }
    }
    for planned_node in &plan.nodes {
        let planned = lookup.find(&planned_node.claim, &planned_node.pods);
        nodes.push(NodeInfo { planned, ..of_planned(cluster, market, planned_node) });
    }
    let twice = lookup.seen.into_iter().filter(|(_, times)| *times > 1);
    out.extend(twice.map(|(pod, times)| Violation::NotOnce { pod: pod.clone(), times }));
    for node in &mut nodes {
        node.bound.sort_by_key(|pod| &pod.id);
        node.planned.sort_by_key(|pod| &pod.id);
    }
    nodes
}

/// Finds the pods that a plan names.
struct PodLookup<'w, 'a, 'o> {
    cluster: &'w ClusterState<'a>,
    seen: BTreeMap<&'a PodRef, usize>,
    out: &'o mut Vec<Violation>,
}

impl<'a> PodLookup<'_, 'a, '_> {
    fn find(&mut self, on: &str, nominated: &'a [NominatedPod]) -> Vec<&'a Pod> {
        let mut pods = Vec::new();
        for entry in nominated {
            *self.seen.entry(&entry.pod).or_default() += 1;
            match self.cluster.pending.get(entry.uid.as_str()).filter(|pod| pod.id == entry.pod) {
                Some(pod) => pods.push(*pod),
                None => self.out.push(Violation::NotWaiting { pod: entry.pod.clone(), on: on.to_owned() }),
            }
        }
        pods
    }
}

fn target_of(node: &NodeInfo<'_>) -> Option<Target> {
    match node.source {
        NodeSource::Node(node) => Some(Target::Node(node.name.clone())),
        NodeSource::Claim(claim) => Some(Target::Claim(claim.name.clone())),
        NodeSource::Planned(_) => None,
    }
}

/// Why a node or claim takes no pods.
fn takes_no_pods(cluster: &ClusterState<'_>, target: &Target) -> Option<&'static str> {
    let broken =
        |rules: &[(bool, &'static str)]| rules.iter().find(|(broken, _)| *broken).map(|(_, why)| *why);
    match target {
        Target::Node(name) => {
            let Some(node) = cluster.nodes.get(name.as_str()) else {
                return Some("there is no such node");
            };
            let claim = cluster.claim_of(node);
            broken(&[
                (node.deleting, "it is being deleted"),
                (node.is_disrupted(), "it is being disrupted"),
                (node.unschedulable, "it is cordoned"),
                (node.degraded.is_some(), "it cannot be read whole"),
                (!node.ready && !is_starting(node, claim), "it is not ready"),
                (
                    claim.is_some_and(|claim| !claim.status.state.accepts_pods()),
                    "its claim takes no more pods",
                ),
            ])
        }
        Target::Claim(name) => {
            let Some(claim) = cluster.claims.get(name.as_str()) else {
                return Some("there is no such claim");
            };
            let launched = matches!(claim.status.state, ClaimState::Intent | ClaimState::Launched);
            broken(&[
                (!claim.status.state.accepts_pods(), "its claim takes no more pods"),
                (cluster.has_joined(claim), "its node has joined and must be named instead"),
                (!launched, "its node had joined and is gone"),
            ])
        }
    }
}

/// Whether a node of ours has not finished starting.
pub(super) fn is_starting(node: &Node, claim: Option<&NodeClaim>) -> bool {
    (claim.is_some() || node.node_pool().is_some()) && !node.is_initialized()
}

fn of_node<'a>(cluster: &ClusterState<'a>, node: &'a Node) -> NodeInfo<'a> {
    let claim = cluster.claim_of(node);
    let starting = is_starting(node, claim);
    let mut labels: BTreeMap<&str, Cow<'_, str>> = borrowed(&node.labels).collect();
    let mut allocatable = Cow::Borrowed(&node.allocatable);
    if let Some(claim) = claim.filter(|_| starting) {
        for (key, value) in borrowed(&claim.spec.labels) {
            labels.entry(key).or_insert(value);
        }
        let missing =
            claim.status.allocatable.iter().filter(|(name, _)| node.allocatable.get(name).is_zero());
        missing.for_each(|(name, amount)| allocatable.to_mut().set(name, amount));
    }
    // Every kubelet gives this label; a snapshot written by hand may leave it out.
    labels.entry(HOSTNAME).or_insert(Cow::Borrowed(&node.name));
    let mut bound = cluster.pods_on(&node.name).to_vec();
    bound.extend(claim.iter().flat_map(|claim| cluster.nominated_for(claim)));
    NodeInfo {
        name: &node.name,
        source: NodeSource::Node(node),
        taints: lasting_taints(cluster, node, claim, starting),
        labels,
        options: vec![InstanceOption { instance: PossibleInstance::default(), price: None, allocatable }],
        bound,
        planned: Vec::new(),
    }
}

fn borrowed(labels: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    labels.iter().map(|(key, value)| (key.as_str(), Cow::Borrowed(value.as_str())))
}

/// The taints that a node will have once it has started: it loses ephemeral and startup taints by
/// itself, and before it is registered it lacks those of its claim (Karpenter
/// `pkg/scheduling/taints.go`).
fn lasting_taints(
    cluster: &ClusterState<'_>,
    node: &Node,
    claim: Option<&NodeClaim>,
    starting: bool,
) -> Vec<Taint> {
    if !starting {
        return node.taints.clone();
    }
    let pool = node.node_pool().and_then(|name| cluster.pool(name));
    let starts = |taint: &Taint| {
        pool.is_some_and(|pool| pool.spec.template.spec.startup_taints.contains(taint))
            || claim.is_some_and(|claim| claim.spec.startup_taints.contains(taint))
    };
    let lasting = node.taints.iter().filter(|taint| !taint.is_ephemeral() && !starts(taint));
    let mut taints: Vec<Taint> = lasting.cloned().collect();
    let unregistered = claim.filter(|claim| claim.status.state < ClaimState::Registered);
    taints.extend(unregistered.into_iter().flat_map(|claim| claim.spec.taints.iter().cloned()));
    taints
}

/// A label value that no node has: the host's name is not known before there is a host.
fn unknown_host(claim: &str) -> Cow<'static, str> {
    Cow::Owned(format!("(the host of {claim})"))
}

fn of_claim<'a>(cluster: &ClusterState<'a>, market: &Market<'a>, claim: &'a NodeClaim) -> NodeInfo<'a> {
    let single =
        |(key, requirement): (&'a str, &'a Requirement)| Some((key, Cow::Borrowed(requirement.single()?)));
    let mut labels: BTreeMap<&str, Cow<'_, str>> =
        claim.spec.requirements.iter().filter_map(single).collect();
    labels.extend(borrowed(&claim.spec.labels));
    labels.insert(HOSTNAME, unknown_host(&claim.name));
    let asked = claim
        .spec
        .requirements
        .get(CAPACITY_TYPE)
        .and_then(Requirement::single)
        .and_then(CapacityType::named);
    let capacity_type = claim.status.instance.as_ref().map(|instance| instance.capacity_type).or(asked);
    let names: Vec<&str> = match &claim.status.instance {
        Some(instance) => vec![&instance.instance_type],
        // A claim that names none becomes an instance that nobody knows.
        None if claim.instance_types.is_empty() => vec![""],
        None => claim.instance_types.iter().map(String::as_str).collect(),
    };
    let offer = market.offer(&claim.spec.node_class);
    let mut options = Vec::new();
    for name in names {
        for zone in zones_of(claim) {
            let instance_type = market.instance_type(&claim.spec.node_class, name);
            let zone_id = offer.zip(zone).and_then(|(offer, zone)| offer.class.zone_id(zone));
            let instance = PossibleInstance { instance_type, zone, zone_id, capacity_type };
            // What the catalogue no longer knows is what it was planned as.
            let listed =
                instance_type.map(|t| market.overlaid(&claim.spec.node_pool, &instance, &t.allocatable));
            let allocatable = listed.unwrap_or(Cow::Borrowed(&claim.status.allocatable));
            options.push(InstanceOption { instance, price: None, allocatable });
        }
    }
    NodeInfo {
        name: &claim.name,
        source: NodeSource::Claim(claim),
        taints: claim.spec.taints.clone(),
        labels,
        options,
        bound: cluster.nominated_for(claim),
        planned: Vec::new(),
    }
}

/// The zones that the claim's node may come up in; one unknown when nothing tells.
fn zones_of(claim: &NodeClaim) -> Vec<Option<&str>> {
    if let Some(instance) = &claim.status.instance {
        return vec![Some(&instance.zone)];
    }
    let values = claim.spec.requirements.get(ZONE).and_then(Requirement::values);
    let values = values.filter(|values| !values.is_empty());
    values.map_or_else(|| vec![None], |values| values.iter().map(|value| Some(value.as_str())).collect())
}

fn of_planned<'a>(cluster: &ClusterState<'a>, market: &Market<'a>, node: &'a PlannedNode) -> NodeInfo<'a> {
    let mut labels: BTreeMap<&str, Cow<'_, str>> = borrowed(&node.spec.labels).collect();
    labels.insert(HOSTNAME, unknown_host(&node.claim));
    let offer = cluster.pool(&node.spec.node_pool).and_then(|pool| market.offer(pool.node_class()));
    let mut options = Vec::new();
    for ranked in &node.instance_types {
        let class = offer.map(|offer| &offer.class.reference);
        let Some(instance_type) = class.and_then(|class| market.instance_type(class, &ranked.name)) else {
            continue;
        };
        for offering in &ranked.offerings {
            let instance = PossibleInstance {
                instance_type: Some(instance_type),
                zone: Some(&offering.zone),
                zone_id: offer.and_then(|offer| offer.class.zone_id(&offering.zone)),
                capacity_type: Some(node.capacity_type),
            };
            let allocatable: Cow<'a, Resources> =
                market.overlaid(&node.spec.node_pool, &instance, &instance_type.allocatable);
            options.push(InstanceOption { instance, price: Some(offering.price), allocatable });
        }
    }
    NodeInfo {
        name: &node.claim,
        source: NodeSource::Planned(node),
        taints: node.spec.taints.clone(),
        labels,
        options,
        bound: Vec::new(),
        planned: Vec::new(),
    }
}
