//! How the nodes of a plan and their pods are handed to kube-scheduler.
//!
//! Evaluating a nominated pod, kube-scheduler counts all pods that are nominated for that node as if they ran there. Where
//! more pods of a required spread are planned onto a node than its maxSkew, they would refuse one another, and each
//! nomination that is lost frees room that was meant for somebody. Such crowded pods are therefore left to kube-scheduler,
//! which spreads them by itself, evenly and to the emptiest nodes. What it does not know is that some of them have room on few
//! nodes only; those nodes are spared at first: soft taints make it prefer others for the pods that fit there. Rules say at first how
//! many each node gets; before a plan is applied, its opening is rehearsed and a better way is searched for.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrigger_model::resources::{CPU, MEMORY};
use outrigger_model::{
    ClassOffer, Handover, InstanceType, NodeClassRef, Plan, PlannedNode, Pod, PodSpec, Quantity, Report,
    Resources, Snapshot, Taint, labels, taint,
};

mod rehearsal;
mod search;
mod slack;

use crate::Options;
use crate::classes::{FixedMap, queue_order};
use rehearsal::{Direction, Part, Rehearsal};

/// Pods have little choice when the room that crowded pods take has no more places for them than this many percent of their
/// number.
const LITTLE_CHOICE_PERCENT: i128 = 150;
/// How often a plan gets further nodes at most.
const EXTENSIONS_MAX: usize = 2;

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
    let uids: Vec<BTreeSet<String>> =
        crowded.iter().map(|pods| pods.iter().map(|pod| pod.uid.clone()).collect()).collect();
    let turns = turns(nodes, |node, pod| !uids[node].contains(&pod.uid));
    let all = uids.into_iter().zip(turns).enumerate();
    all.map(|(node, (crowded, turn))| Handover {
        crowded,
        soft_taints: u8::from(scarce.contains(&node)),
        turn,
    })
    .collect()
}

/// The place of each node in the order in which they are opened. The first node that opens wakes all pods, and kube-scheduler
/// takes them up at once; a nominated pod whose node is still closed would go elsewhere, so the nodes of those that come first
/// in its queue go first.
fn turns(nodes: &[Opened<'_>], is_nominated: impl Fn(usize, &Pod) -> bool) -> Vec<u32> {
    let first = |node: usize| {
        nodes[node].pods.iter().copied().filter(|pod| is_nominated(node, pod)).min_by(|a, b| by_turn(a, b))
    };
    let mut order: Vec<(usize, Option<&Pod>)> = (0..nodes.len()).map(|node| (node, first(node))).collect();
    order.sort_by(|(_, a), (_, b)| match (a, b) {
        (Some(a), Some(b)) => by_turn(a, b),
        _ => b.is_some().cmp(&a.is_some()),
    });
    let mut turns = vec![0; nodes.len()];
    for (turn, (node, _)) in (0..).zip(order) {
        turns[node] = turn;
    }
    turns
}

/// The order of kube-scheduler's queue.
fn by_turn(a: &Pod, b: &Pod) -> Ordering {
    b.spec.priority.cmp(&a.spec.priority).then_with(|| queue_order(a).cmp(&queue_order(b)))
}

/// Writes into a plan how its nodes are handed over, by rules that cost next to nothing.
pub(crate) fn decide(snapshot: &Snapshot, plan: &mut Plan) {
    if !snapshot.pods.iter().any(spreads) {
        return;
    }
    // Only crowded pods make labels matter, and they are never alone.
    let matters = |pods: &[&Pod]| pods.len() > 1 && pods.iter().any(|pod| spreads(pod));
    let handovers = handovers(&opened(snapshot, plan, matters));
    for (node, handover) in plan.nodes.iter_mut().zip(handovers) {
        node.handover = handover;
    }
}

/// Tries out what kube-scheduler will make of a plan's nodes, and writes into the plan how they are handed over so that the fewest
/// pods are left over. Those that are left over all the same get further nodes in plan and report, where they can; returns how
/// many may be left even so. The same plan gets the same answer, unless [`Options::time_is_up`] ends the search sooner. It
/// takes next to no time where no pods are crowded, else up to half a second of one core, and as much again each time that nodes
/// are added.
pub fn rehearse(snapshot: &Snapshot, plan: &mut Plan, report: &mut Report, options: &Options<'_>) -> usize {
    let mut left = BTreeSet::new();
    if plan.nodes.iter().any(|node| !node.handover.crowded.is_empty()) {
        left = direct(snapshot, plan, options);
        for _ in 0..EXTENSIONS_MAX {
            let may_go_on = !left.is_empty() && !(options.time_is_up)();
            let wider = may_go_on.then(|| slack::with_slack(snapshot, plan, report, &left, options));
            let Some((mut wider, wider_report)) = wider.flatten() else { break };
            let next = direct(snapshot, &mut wider, options);
            if next.len() >= left.len() {
                break;
            }
            (*plan, *report, left) = (wider, wider_report, next);
        }
    }
    let turns = turns(&opened(snapshot, plan, |_| false), |node, pod| {
        !plan.nodes[node].handover.crowded.contains(&pod.uid)
    });
    for (node, turn) in plan.nodes.iter_mut().zip(turns) {
        node.handover.turn = turn;
    }
    left.len()
}

/// Writes into a plan the best way of opening its nodes that is found; gives the uids of the pods that are left over.
fn direct(snapshot: &Snapshot, plan: &mut Plan, options: &Options<'_>) -> BTreeSet<String> {
    let (direction, nominated, left) = {
        let nodes = opened(snapshot, plan, |_| true);
        let rooms: Vec<(Resources, Resources)> =
            plan.nodes.iter().zip(&nodes).map(|(node, opened)| room(node, &opened.pods)).collect();
        let rehearsal = Rehearsal::of(snapshot, &nodes, &rooms, options);
        let is_crowded = |part: &Part<'_>| plan.nodes[part.node].handover.crowded.contains(&part.pod.uid);
        let crowded: Vec<bool> = rehearsal.pods.iter().map(is_crowded).collect();
        let rules = Direction {
            taints: plan.nodes.iter().map(|node| node.handover.soft_taints).collect(),
            nominated: crowded.iter().map(|is_crowded| !is_crowded).collect(),
        };
        let (direction, ending) = search::best(&rehearsal, rules, &crowded, options);
        let named = rehearsal.pods.iter().zip(&direction.nominated).filter(|(_, nominated)| **nominated);
        let nominated: BTreeSet<String> = named.map(|(part, _)| part.pod.uid.clone()).collect();
        let left = ending.left.iter().map(|pod| rehearsal.pods[*pod].pod.uid.clone()).collect();
        (direction, nominated, left)
    };
    for (node, soft_taints) in plan.nodes.iter_mut().zip(direction.taints) {
        node.handover.soft_taints = soft_taints;
        node.handover.crowded.retain(|uid| !nominated.contains(uid));
    }
    left
}

fn spreads(pod: &Pod) -> bool {
    pod.spec.topology_spread.iter().any(|spread| !spread.schedule_anyway)
}

/// A plan's nodes once they are opened, with labels where these matter for their pods.
fn opened<'a>(snapshot: &'a Snapshot, plan: &'a Plan, matters: impl Fn(&[&Pod]) -> bool) -> Vec<Opened<'a>> {
    let known: FixedMap<&str, &Pod> = snapshot.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
    let types = snapshot.classes.iter().map(|offer| (&offer.class.reference, by_name(offer))).collect();
    let open = |node: &'a PlannedNode| {
        let pods: Vec<&Pod> =
            node.pods.iter().filter_map(|pod| known.get(pod.uid.as_str()).copied()).collect();
        let labels = if matters(&pods) { likely_labels(snapshot, &types, node) } else { BTreeMap::new() };
        Opened { labels, taints: &node.taints, pods }
    };
    plan.nodes.iter().map(open).collect()
}

/// What a planned node offers at least, and what its daemons take of it.
fn room(node: &PlannedNode, pods: &[&Pod]) -> (Resources, Resources) {
    let of_pods = room_of(pods);
    let daemons = node.requests.iter().map(|(name, amount)| (name, amount - of_pods.get(name)));
    (node.allocatable.clone(), daemons.fold(Resources::new(), |sum, (name, amount)| sum.with(name, amount)))
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
