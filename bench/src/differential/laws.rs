//! Laws that every decision keeps, on the same random clusters: it is the same each time, whatever
//! the order of the input; once applied there is nothing left to launch; and who may choose from
//! more types does not pay more. A plan that does not hold is said to be that, and nothing else of
//! it is looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use anyhow::Result;
use outrigger_model::{Plan, PlannedNode, Pod, PodSpec, Resources, Snapshot};
use outrigger_planning::provision;
use outrigger_policy::{Options, Preferences, Supposed};
use outrigger_referee as referee;
use serde_json::Value;

use super::judge::{Fault, has_wishes, read};
use crate::figures::NODE_PRICE;

/// How much more may be paid with more types to choose from, of 1.
const DEARER: f64 = 0.01;

/// The laws that our decision about a List breaks.
pub fn broken_laws(list: &Value) -> Result<Vec<Fault>> {
    let snapshot = read(list)?;
    let mut faults = Vec::new();
    let (plan, report) = decide(&snapshot);
    let violations = referee::check_with_report(&snapshot, &plan, &report);
    if !violations.is_empty() {
        return Ok(vec![Fault::Violations(violations.iter().map(ToString::to_string).collect())]);
    }
    let first = serde_json::to_string(&(&plan, &report))?;
    if first != serde_json::to_string(&decide(&snapshot))? {
        faults.push(Fault::Law("the same each time", "a second decision differs".into()));
    }
    if first != serde_json::to_string(&decide(&reversed(&snapshot)))? {
        faults
            .push(Fault::Law("order does not matter", "the decision differs with the input reversed".into()));
    }
    let next = applied(&snapshot, &plan);
    let (again, report) = decide(&next);
    if !again.nodes.is_empty() {
        let shapes: Vec<String> = again.nodes.iter().map(shape).collect();
        faults.push(Fault::Law("nothing left to launch", shapes.join(", ")));
    }
    let violations = referee::check_with_report(&next, &again, &report);
    if !violations.is_empty() {
        let texts: Vec<String> = violations.iter().map(ToString::to_string).collect();
        faults.push(Fault::Law("the second plan holds", texts.join("; ")));
    }
    faults.extend(dearer_with_more_types(&snapshot, has_wishes(list)));
    Ok(faults)
}

fn decide(snapshot: &Snapshot) -> (Plan, outrigger_model::Report) {
    provision(snapshot, &Options { node_price: Some(NODE_PRICE), ..Options::default() })
}

/// A plan that looks at nothing but the price.
fn decide_by_price(snapshot: &Snapshot, preferences: Preferences) -> Plan {
    let options =
        Options { node_price: Some(NODE_PRICE), spot_types_min: 1, preferences, ..Options::default() };
    provision(snapshot, &options).0
}

fn reversed(snapshot: &Snapshot) -> Snapshot {
    let mut reversed = snapshot.clone();
    reversed.pods.reverse();
    reversed.nodes.reverse();
    reversed.node_pools.reverse();
    reversed.daemon_sets.reverse();
    reversed.volume_claims.reverse();
    reversed
}

/// Every other type left out: then as many pods at most, and no smaller price for as many. A pool
/// of few types lets spot nodes do with fewer types than they would otherwise keep at a price, so
/// here neither plan keeps any.
///
/// Three things come before the price, as with Karpenter, and where more types change what they
/// come to the law says nothing: wishes, the first of a pod's required terms that can be met, and
/// the first pool by weight that can meet it.
fn dearer_with_more_types(snapshot: &Snapshot, has_wishes: bool) -> Option<Fault> {
    let mut fewer = snapshot.clone();
    for offer in &mut fewer.classes {
        let kept = offer.instance_types.iter().enumerate().filter(|(index, _)| index % 2 == 0);
        offer.instance_types = Arc::new(kept.map(|(_, kind)| kind.clone()).collect());
    }
    let fault = dearer(snapshot, &fewer, Preferences::Respect)?;
    if choices(snapshot) != choices(&fewer) {
        return None;
    }
    // More types may fulfil more wishes, which count as demands first.
    if has_wishes { dearer(snapshot, &fewer, Preferences::Ignore) } else { Some(fault) }
}

fn dearer(snapshot: &Snapshot, fewer: &Snapshot, preferences: Preferences) -> Option<Fault> {
    let (plan, small) = (&decide_by_price(snapshot, preferences), decide_by_price(fewer, preferences));
    let paid = |plan: &Plan| (plan.price() + plan.node_price()).dollars();
    let (with_all, with_half) = (placed(plan), placed(&small));
    let is_alike = with_all == with_half && carried(snapshot, plan) == carried(snapshot, &small);
    let is_dearer = is_alike
        && passed_over(snapshot, plan) >= passed_over(snapshot, &small)
        && paid(plan) > paid(&small) * (1.0 + DEARER) + 1e-6;
    (with_all < with_half || is_dearer).then(|| {
        let what = format!(
            "{with_all} pods for {:.4} $/h of all types, {with_half} for {:.4} of every other one",
            paid(plan),
            paid(&small)
        );
        Fault::Law("more types cost no more", what)
    })
}

/// How many pools of a higher weight the pods on new nodes passed over. A plan that fills those
/// pools further may pay for it.
pub(super) fn passed_over(snapshot: &Snapshot, plan: &Plan) -> usize {
    let weights: BTreeMap<&str, u32> =
        snapshot.node_pools.iter().map(|pool| (pool.name.as_str(), pool.spec.weight.unwrap_or(0))).collect();
    let heavier = |weight: u32| weights.values().filter(|other| **other > weight).count();
    let weight_of = |node: &PlannedNode| {
        let weight = weights.get(node.spec.node_pool.as_str()).copied().unwrap_or(0);
        heavier(weight) * node.pods.len()
    };
    plan.nodes.iter().map(weight_of).sum()
}

/// What the pods with a place ask for together. Where two plans leave out other pods, neither price
/// is a yardstick.
fn carried(snapshot: &Snapshot, plan: &Plan) -> Resources {
    let requests: BTreeMap<&str, &Resources> =
        snapshot.pods.iter().map(|pod| (pod.uid.as_str(), &pod.spec.requests)).collect();
    let new = plan.nodes.iter().flat_map(|node| &node.pods);
    let placed = new.chain(plan.existing.iter().flat_map(|placement| &placement.pods));
    let mut sum = Resources::new();
    placed.filter_map(|pod| requests.get(pod.uid.as_str())).for_each(|one| sum.add(one));
    sum
}

fn placed(plan: &Plan) -> usize {
    let new: usize = plan.nodes.iter().map(|node| node.pods.len()).sum();
    new + plan.existing.iter().map(|placement| placement.pods.len()).sum::<usize>()
}

/// For the pods of each spec by themselves, in a cluster without nodes, limits and wishes: with how
/// many of their required terms, from the first on, they have a place, and of which pools their
/// nodes are.
fn choices(snapshot: &Snapshot) -> Vec<(usize, BTreeSet<String>)> {
    let mut empty = Snapshot { nodes: Vec::new(), pods: Vec::new(), ..snapshot.clone() };
    empty.node_pools.iter_mut().for_each(|pool| pool.spec.limits = None);
    let mut kinds: Vec<Vec<&Pod>> = Vec::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.is_provisionable()) {
        let is_like = |kind: &&mut Vec<&Pod>| (&kind[0].spec, &kind[0].labels) == (&pod.spec, &pod.labels);
        match kinds.iter_mut().find(is_like) {
            Some(kind) => kind.push(pod),
            None => kinds.push(vec![pod]),
        }
    }
    kinds.iter().map(|pods| choice(&mut empty, pods)).collect()
}

/// The choice of some pods of one spec.
fn choice(empty: &mut Snapshot, pods: &[&Pod]) -> (usize, BTreeSet<String>) {
    let spec = &pods[0].spec;
    for terms in 1..=spec.node_affinity.len().max(1) {
        let node_affinity = spec.node_affinity.iter().take(terms).cloned().collect();
        let spec = Arc::new(PodSpec { node_affinity, ..spec.as_ref().clone() });
        empty.pods = pods.iter().map(|pod| Pod { spec: Arc::clone(&spec), ..(*pod).clone() }).collect();
        let plan = decide_by_price(empty, Preferences::Ignore);
        if !plan.nodes.is_empty() {
            return (terms, plan.nodes.iter().map(|node| node.spec.node_pool.clone()).collect());
        }
    }
    (0, BTreeSet::new())
}
fn shape(node: &PlannedNode) -> String {
    let first = node.instance_types.first().map_or("?", |kind| kind.name.as_str());
    let pods: Vec<String> = node.pods.iter().map(|pod| pod.pod.to_string()).collect();
    format!("{first} for {}", pods.join(" "))
}

/// The world a minute after the plan was written down.
fn applied(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut next = Supposed::after(snapshot, plan).into_snapshot();
    next.generation += 1;
    next.taken_at += jiff::SignedDuration::from_secs(60);
    next
}
