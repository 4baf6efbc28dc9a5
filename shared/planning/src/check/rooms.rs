//! Existing capacity: whether a node or a claim on its way takes pods, and has room for those placed on it.

use outrigger_model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use outrigger_model::{
    InstanceType, Node, NodeClaim, Pod, PodState, Requirement, Resources, Snapshot, Taint, Target,
};

use super::Violation;
use super::facts::{Labels, Machine};

/// Checks the pods that are placed on one node or claim.
pub(super) fn check(snapshot: &Snapshot, target: &Target, pods: &[&Pod], out: &mut Vec<Violation>) {
    let closed = |reason: &str| Violation::Closed { target: target.name().to_owned(), reason: reason.into() };
    match target {
        Target::Node(name) => match snapshot.nodes.iter().find(|node| node.name == *name) {
            Some(node) => on_node(snapshot, node, pods, out),
            None => out.push(closed("there is no such node")),
        },
        Target::Claim(name) => match snapshot.claims.iter().find(|claim| claim.name == *name) {
            Some(claim) if claim.state.accepts_pods() => on_claim(snapshot, claim, pods, out),
            Some(_) => out.push(closed("its claim takes no more pods")),
            None => out.push(closed("there is no such claim")),
        },
    }
}

fn claim_of<'a>(snapshot: &'a Snapshot, node: &Node) -> Option<&'a NodeClaim> {
    let is_it =
        |name: Option<&str>| name.is_some() && (name == Some(&node.name) || name == node.instance_id());
    snapshot.claims.iter().find(|claim| is_it(claim.instance_id()) || is_it(claim.node_name.as_deref()))
}

fn on_node(snapshot: &Snapshot, node: &Node, pods: &[&Pod], out: &mut Vec<Violation>) {
    let claim = claim_of(snapshot, node);
    let young = (claim.is_some() || node.node_pool().is_some()) && !node.is_initialized();
    let rules = [
        (node.deleting, "it is being deleted"),
        (node.unschedulable, "it is cordoned"),
        (!node.ready && !young, "it is not ready"),
        (claim.is_some_and(|claim| !claim.state.accepts_pods()), "its claim takes no more pods"),
    ];
    for (_, reason) in rules.into_iter().filter(|(broken, _)| *broken) {
        out.push(Violation::Closed { target: node.name.clone(), reason: reason.into() });
    }
    let mut available = node.allocatable.clone();
    let mut labels = node.labels.clone();
    if let Some(claim) = claim.filter(|_| young) {
        for (name, amount) in
            claim.allocatable.iter().filter(|(name, _)| node.allocatable.get(name).is_zero())
        {
            available.set(name, amount);
        }
        let missing = claim.labels.iter().filter(|(key, _)| !node.labels.contains_key(*key));
        labels.extend(missing.map(|(key, value)| (key.clone(), value.clone())));
    }
    let mut daemons_there = Resources::new();
    let mut ports = Vec::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.occupies(&node.name)) {
        available.subtract(&pod.spec.requests);
        ports.extend(pod.spec.host_ports.iter().cloned());
        if pod.owner_kind == "DaemonSet" {
            daemons_there.add(&pod.spec.requests);
        }
    }
    let taints = lasting_taints(snapshot, node, claim, young);
    let machine =
        Machine { on: &node.name, instance_type: "it is", labels, taints: &taints, available, ports };
    machine.check(snapshot, pods, &daemons_there, out);
}

/// The taints that the node will still have once it has started.
fn lasting_taints(snapshot: &Snapshot, node: &Node, claim: Option<&NodeClaim>, young: bool) -> Vec<Taint> {
    let pool = snapshot.node_pools.iter().find(|pool| Some(pool.name.as_str()) == node.node_pool());
    let passes = |taint: &Taint| {
        young
            && (taint.is_ephemeral()
                || pool.is_some_and(|pool| pool.spec.template.spec.startup_taints.contains(taint))
                || claim.is_some_and(|claim| claim.startup_taints.contains(taint)))
    };
    node.taints.iter().filter(|taint| !passes(taint)).cloned().collect()
}

fn on_claim(snapshot: &Snapshot, claim: &NodeClaim, pods: &[&Pod], out: &mut Vec<Violation>) {
    let pool = snapshot.node_pools.iter().find(|pool| pool.name == claim.node_pool);
    let offer = pool.and_then(|pool| snapshot.offer_for(pool));
    let is_possible = |t: &&InstanceType| match &claim.instance {
        Some(instance) => instance.instance_type == t.name,
        None => claim.instance_types.contains(&t.name),
    };
    let types: Vec<&InstanceType> =
        offer.into_iter().flat_map(|offer| offer.instance_types.iter()).filter(is_possible).collect();
    let reserved: Vec<&Pod> = snapshot
        .pods
        .iter()
        .filter(|pod| pod.state == PodState::Waiting && pod.node_name.is_none())
        .filter(|pod| claim.nominated.iter().any(|nominated| nominated.uid == pod.uid))
        .collect();
    for instance_type in types {
        for zone in zones(claim) {
            let mut available = instance_type.allocatable.clone();
            for pod in &reserved {
                available.subtract(&pod.spec.requests);
            }
            let machine = Machine {
                on: &claim.name,
                instance_type: &instance_type.name,
                labels: labels_in(claim, instance_type, zone.as_deref()),
                taints: &claim.taints,
                available,
                ports: reserved.iter().flat_map(|pod| pod.spec.host_ports.iter().cloned()).collect(),
            };
            machine.check(snapshot, pods, &Resources::new(), out);
        }
    }
}

/// The zones that the claim's node may come up in; one unknown when nothing tells.
fn zones(claim: &NodeClaim) -> Vec<Option<String>> {
    if let Some(instance) = &claim.instance {
        return vec![Some(instance.zone.clone())];
    }
    let values = claim.requirements.get(ZONE).and_then(Requirement::values);
    values.filter(|v| !v.is_empty()).map_or(vec![None], |values| values.iter().cloned().map(Some).collect())
}

fn labels_in(claim: &NodeClaim, instance_type: &InstanceType, zone: Option<&str>) -> Labels {
    let mut labels = Labels::new();
    for key in claim.requirements.iter().map(|(key, _)| key) {
        if let Some(value) = claim.requirements.get(key).and_then(Requirement::single) {
            labels.insert(key.to_owned(), value.to_owned());
        }
    }
    labels.extend(claim.labels.clone());
    labels.extend(instance_type.labels.clone());
    labels.insert(INSTANCE_TYPE.into(), instance_type.name.clone());
    if let Some(zone) = zone {
        labels.insert(ZONE.into(), zone.to_owned());
    }
    if let Some(instance) = &claim.instance {
        labels.insert(CAPACITY_TYPE.into(), instance.capacity_type.to_string());
    }
    labels
}
