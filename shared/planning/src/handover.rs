//! How the nodes of a plan and their pods are handed to kube-scheduler.
//!
//! Evaluating a nominated pod, kube-scheduler counts all pods that are nominated for that node as if they ran there. Where
//! more pods of a required spread are planned onto a node than its maxSkew, they would refuse one another, and each
//! nomination that is lost frees room that was meant for somebody. Such crowded pods are therefore left to kube-scheduler,
//! which spreads them by itself, evenly and to the emptiest nodes. What it does not know is that some of them have room on few
//! nodes only; those nodes are spared at first: a soft taint makes it prefer others for the pods that fit there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrigger_model::resources::{CPU, MEMORY};
use outrigger_model::{
    ClassOffer, Handover, InstanceType, NodeClassRef, Plan, PlannedNode, Pod, PodSpec, Quantity, Resources,
    Snapshot, Taint, labels, taint,
};

use crate::classes::FixedMap;

/// Pods have little choice when the room that crowded pods take has no more places for them than this many percent of their
/// number.
const LITTLE_CHOICE_PERCENT: i128 = 150;

/// A node that is to be opened.
#[derive(Clone, Debug)]
pub struct Opened<'a> {
    /// Its labels, as far as they are known beforehand.
    pub labels: BTreeMap<String, String>,
    /// The taints that it keeps.
    pub taints: &'a [Taint],
    /// The pods that it was planned for.
    pub pods: Vec<&'a Pod>,
}

/// Pods that are alike to kube-scheduler: namespace, labels and spec. Pods of one workload share the latter two.
type Kind<'a> = (&'a str, *const BTreeMap<String, String>, *const PodSpec);

/// The instance types of each class, by name.
type Types<'a> = BTreeMap<&'a NodeClassRef, FixedMap<&'a str, &'a InstanceType>>;

/// Those of the pods planned for one node that carry a required spread, counting themselves, of which more are planned there
/// than its maxSkew.
pub fn crowded<'a>(pods: &[&'a Pod]) -> Vec<&'a Pod> {
    let kinds = kinds(pods);
    let is_crowded = |pod: &Pod| {
        let required = pod.spec.topology_spread.iter().filter(|spread| !spread.schedule_anyway);
        required.filter(|spread| spread.selector.matches(&pod.labels)).any(|spread| {
            let counts = |other: &Pod| {
                other.id.namespace == pod.id.namespace
                    && spread.selector.matches(&other.labels)
                    && spread.match_label_keys.iter().all(|key| other.labels.get(key) == pod.labels.get(key))
            };
            let counted = kinds.iter().filter(|alike| counts(alike[0])).map(Vec::len);
            counted.sum::<usize>() > usize::try_from(spread.max_skew).unwrap_or_default()
        })
    };
    kinds.iter().filter(|alike| is_crowded(alike[0])).flatten().copied().collect()
}

/// Decides for nodes that are opened together; the answers are in the order of the nodes.
pub fn handovers(nodes: &[Opened<'_>]) -> Vec<Handover> {
    let crowded: Vec<Vec<&Pod>> = nodes.iter().map(|node| crowded(&node.pods)).collect();
    let scarce = scarce(nodes, &crowded);
    let handover = |(node, pods): (usize, &Vec<&Pod>)| Handover {
        crowded: pods.iter().map(|pod| pod.uid.clone()).collect(),
        spared: scarce.contains(&node),
    };
    crowded.iter().enumerate().map(handover).collect()
}

/// Writes into a plan how its nodes are handed over.
pub(crate) fn decide(snapshot: &Snapshot, plan: &mut Plan) {
    let spreads = |pod: &Pod| pod.spec.topology_spread.iter().any(|spread| !spread.schedule_anyway);
    if !snapshot.pods.iter().any(spreads) {
        return;
    }
    let known: FixedMap<&str, &Pod> = snapshot.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
    let types = snapshot.classes.iter().map(|offer| (&offer.class.reference, by_name(offer))).collect();
    let labels_and_pods = |node: &PlannedNode| {
        let pods: Vec<&Pod> =
            node.pods.iter().filter_map(|pod| known.get(pod.uid.as_str()).copied()).collect();
        // Only crowded pods make labels matter, and they are never alone.
        let matters = pods.len() > 1 && pods.iter().any(|pod| spreads(pod));
        let labels = if matters { likely_labels(snapshot, &types, node) } else { BTreeMap::new() };
        (labels, pods)
    };
    let nodes: Vec<Opened<'_>> = plan
        .nodes
        .iter()
        .map(|node| {
            let (labels, pods) = labels_and_pods(node);
            Opened { labels, taints: &node.taints, pods }
        })
        .collect();
    let handovers = handovers(&nodes);
    for (node, handover) in plan.nodes.iter_mut().zip(handovers) {
        node.handover = handover;
    }
}

/// The labels that a planned node has if it comes to be of the smallest type that it offers, whose room is sure.
fn likely_labels(snapshot: &Snapshot, types: &Types<'_>, node: &PlannedNode) -> BTreeMap<String, String> {
    let pool = snapshot.node_pools.iter().find(|pool| pool.name == node.node_pool);
    let known = pool.and_then(|pool| types.get(pool.node_class()));
    let offered = node.instance_types.iter().filter_map(|ranked| {
        let kind = *known?.get(ranked.name.as_str())?;
        Some(((kind.allocatable.get(CPU), kind.allocatable.get(MEMORY)), kind, ranked))
    });
    let (kind, ranked) =
        offered.min_by_key(|(size, ..)| *size).map(|(_, kind, ranked)| (kind, ranked)).unzip();
    let mut all = kind.map(|kind: &InstanceType| kind.labels.clone()).unwrap_or_default();
    all.extend(node.labels.clone());
    all.insert(labels::NODE_POOL.to_owned(), node.node_pool.clone());
    all.insert(labels::CAPACITY_TYPE.to_owned(), node.capacity_type.to_string());
    let zone = ranked.and_then(|ranked| ranked.offerings.first()).map(|offering| offering.zone.clone());
    all.extend(zone.map(|zone| (labels::ZONE.to_owned(), zone)));
    all
}

fn by_name(offer: &ClassOffer) -> FixedMap<&str, &InstanceType> {
    offer.instance_types.iter().map(|kind| (kind.name.as_str(), kind)).collect()
}

/// The nodes that hold crowded pods with little choice. Those that ask how their node is paid for have none: the others take
/// every such node for as good as any.
fn scarce(nodes: &[Opened<'_>], crowded: &[Vec<&Pod>]) -> BTreeSet<usize> {
    let open: Vec<Resources> = crowded.iter().map(|pods| room_of(pods)).collect();
    let all: Vec<&Pod> = crowded.iter().flatten().copied().collect();
    let mut on: FixedMap<Kind<'_>, BTreeSet<usize>> = FixedMap::default();
    for (node, pods) in crowded.iter().enumerate() {
        for pod in pods {
            on.entry(kind(pod)).or_default().insert(node);
        }
    }
    let mut scarce = BTreeSet::new();
    for alike in kinds(&all) {
        let spec = &alike[0].spec;
        let pods = i128::try_from(alike.len()).unwrap_or(i128::MAX);
        let enough = pods.saturating_mul(LITTLE_CHOICE_PERCENT) / 100;
        let wanted = spec.node_requirements();
        let mut places: i128 = 0;
        for (node, room) in nodes.iter().zip(&open).filter(|(_, room)| !room.is_empty()) {
            let admits = taint::first_untolerated(node.taints, &spec.tolerations).is_none()
                && wanted.iter().any(|wanted| wanted.match_labels(&node.labels).is_ok());
            places = places.saturating_add(if admits { copies(&spec.requests, room) } else { 0 });
            if places >= enough {
                break;
            }
        }
        let asks_for_payment = wanted.iter().any(|wanted| wanted.get(labels::CAPACITY_TYPE).is_some());
        if places < enough || asks_for_payment {
            scarce.extend(on.remove(&kind(alike[0])).unwrap_or_default());
        }
    }
    scarce
}

/// What pods ask for together.
fn room_of(pods: &[&Pod]) -> Resources {
    let mut sum = Resources::new();
    for pod in pods {
        sum.add(&pod.spec.requests);
    }
    sum
}

/// How many pods with these requests fit in a room.
fn copies(requests: &Resources, room: &Resources) -> i128 {
    let wanted = requests.iter().filter(|(_, wanted)| *wanted > Quantity::ZERO);
    wanted.map(|(name, wanted)| room.get(name).nanos() / wanted.nanos()).min().unwrap_or_default()
}

fn kind(pod: &Pod) -> Kind<'_> {
    (&pod.id.namespace, Arc::as_ptr(&pod.labels), Arc::as_ptr(&pod.spec))
}

/// Pods that are alike together, none empty, in the order of the first of each.
fn kinds<'a>(pods: &[&'a Pod]) -> Vec<Vec<&'a Pod>> {
    let mut kinds: Vec<Vec<&Pod>> = Vec::new();
    let mut known: FixedMap<Kind<'_>, usize> = FixedMap::default();
    for pod in pods {
        let index = *known.entry(kind(pod)).or_insert(kinds.len());
        match kinds.get_mut(index) {
            Some(alike) => alike.push(pod),
            None => kinds.push(vec![pod]),
        }
    }
    kinds
}

#[cfg(test)]
mod tests;
