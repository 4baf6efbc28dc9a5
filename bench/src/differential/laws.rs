//! Laws that every decision keeps, on the same random clusters: it is the same each time, whatever the order of the input;
//! once applied there is nothing left to launch; and who may choose from more types does not pay more. A plan that does
//! not hold is said to be that, and nothing else of it is looked at.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Result;
use outrigger_model::{ClaimState, NodeCheck, NodeClaim, Plan, PlannedNode, Snapshot, Target};
use outrigger_planning::{Options, check, provision};
use serde_json::Value;

use super::judge::{Fault, read};
use crate::figures::NODE_PRICE;

/// How much more may be paid with more types to choose from, of 1.
const DEARER: f64 = 0.01;

/// The laws that our decision about a List breaks.
pub fn broken_laws(list: &Value) -> Result<Vec<Fault>> {
    let snapshot = read(list)?;
    let mut faults = Vec::new();
    let (plan, report) = decide(&snapshot);
    let violations = check::check_with_report(&snapshot, &plan, &report);
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
    let violations = check::check_with_report(&next, &again, &report);
    if !violations.is_empty() {
        let all: Vec<String> = violations.iter().map(ToString::to_string).collect();
        faults.push(Fault::Law("the second plan holds", all.join("; ")));
    }
    faults.extend(dearer_with_more_types(&snapshot));
    Ok(faults)
}

fn decide(snapshot: &Snapshot) -> (Plan, outrigger_model::Report) {
    provision(snapshot, &Options { node_price: Some(NODE_PRICE), ..Options::default() })
}

/// A plan that looks at nothing but the price.
fn decide_by_price(snapshot: &Snapshot) -> Plan {
    provision(snapshot, &Options { node_price: Some(NODE_PRICE), spot_types_min: 1, ..Options::default() }).0
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

/// Every other type left out: then as many pods at most, and no smaller price for as many. A pool of few types lets spot
/// nodes do with fewer types than they would otherwise keep at a price, so here neither plan keeps any.
fn dearer_with_more_types(snapshot: &Snapshot) -> Option<Fault> {
    let mut fewer = snapshot.clone();
    for offer in &mut fewer.classes {
        let kept = offer.instance_types.iter().enumerate().filter(|(index, _)| index % 2 == 0);
        offer.instance_types = Arc::new(kept.map(|(_, kind)| kind.clone()).collect());
    }
    let (plan, small) = (&decide_by_price(snapshot), decide_by_price(&fewer));
    let placed = |plan: &Plan| -> usize {
        let new: usize = plan.nodes.iter().map(|node| node.pods.len()).sum();
        new + plan.existing.iter().map(|placement| placement.pods.len()).sum::<usize>()
    };
    let paid = |plan: &Plan| (plan.price() + plan.node_price()).dollars();
    let (all, some) = (placed(plan), placed(&small));
    let is_worse = all < some || (all == some && paid(plan) > paid(&small) * (1.0 + DEARER) + 1e-6);
    is_worse.then(|| {
        let what = format!(
            "{all} pods for {:.4} $/h of all types, {some} for {:.4} of every other one",
            paid(plan),
            paid(&small)
        );
        Fault::Law("more types cost no more", what)
    })
}

fn shape(node: &PlannedNode) -> String {
    let first = node.instance_types.first().map_or("?", |kind| kind.name.as_str());
    let pods: Vec<String> = node.pods.iter().map(|pod| pod.pod.to_string()).collect();
    format!("{first} for {}", pods.join(" "))
}

/// The world a minute after the plan's claims were written down, and its pods nominated to the nodes that have room for
/// them.
fn applied(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut next = snapshot.clone();
    next.generation += 1;
    next.claims.extend(plan.nodes.iter().map(|node| claim(snapshot, node)));
    next.taken_at += jiff::SignedDuration::from_secs(60);
    for placement in &plan.existing {
        match &placement.target {
            Target::Node(node) => {
                let uids: BTreeSet<&str> = placement.pods.iter().map(|pod| pod.uid.as_str()).collect();
                let pods = next.pods.iter_mut().filter(|pod| uids.contains(pod.uid.as_str()));
                pods.for_each(|pod| pod.nominated_node = Some(node.clone()));
            }
            Target::Claim(name) => {
                let claims = next.claims.iter_mut().filter(|claim| &claim.name == name);
                claims.for_each(|claim| claim.nominated.extend(placement.pods.iter().cloned()));
            }
        }
    }
    next
}

fn claim(snapshot: &Snapshot, node: &PlannedNode) -> NodeClaim {
    NodeClaim {
        name: node.claim.clone(),
        state: ClaimState::Intent,
        version: 1,
        intent: "intent".into(),
        node_pool: node.node_pool.clone(),
        node_class: node.node_class.clone(),
        requirements: node.requirements.clone(),
        instance_types: node.instance_types.iter().map(|kind| kind.name.clone()).collect(),
        labels: node.labels.clone(),
        annotations: node.annotations.clone(),
        taints: node.taints.clone(),
        startup_taints: node.startup_taints.clone(),
        expire_after: node.expire_after,
        termination_grace_period: node.termination_grace_period,
        requests: node.requests.clone(),
        reserved: node.reserved.clone(),
        allocatable: node.allocatable.clone(),
        nominated: node.pods.clone(),
        created_at: snapshot.taken_at,
        instance: None,
        node_name: None,
        launched_at: None,
        registered_at: None,
        initialized_at: None,
        node_check: NodeCheck::default(),
        termination: None,
        last_error: None,
    }
}
