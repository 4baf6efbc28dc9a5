//! Rules of Karpenter and kube-scheduler that a planner came short of once: each cluster is the
//! smallest that shows it.

mod affinity;
mod attach_limits;
mod beside_daemons;
mod closed_domains;
mod daemons;
mod node_labels;
mod one_pod_volumes;
mod pools;
mod preferences;
mod reasons;
mod spreads;
mod static_nodes;
mod static_pods;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{Plan, PlannedNode, Report, Snapshot, labels};
use serde_json::{Value, json};

use crate::fixtures::planned;

/// How many pods of an app, which is the first part of their names, have a place.
fn placed(plan: &Plan, app: &str) -> usize {
    let new = plan.nodes.iter().map(|node| &node.pods);
    let placements = new.chain(plan.existing.iter().map(|placement| &placement.pods)).flatten();
    placements.filter(|pod| app_of(&pod.pod.name) == app).count()
}

fn app_of(pod: &str) -> &str {
    pod.rsplit_once('-').map_or(pod, |(app, _)| app)
}

/// Every zone in which new nodes with pods of an app may come up.
fn zones_of(plan: &Plan, app: &str) -> BTreeSet<String> {
    let of_app = plan.nodes.iter().filter(|node| node.pods.iter().any(|pod| app_of(&pod.pod.name) == app));
    of_app.flat_map(|node| node.zones.iter().cloned()).collect()
}

/// Whether every new node with pods of one app is, or is in one zone with, every new node with pods
/// of the other.
fn are_together(plan: &Plan, one: &str, other: &str) -> bool {
    let with = |app: &str| -> Vec<&PlannedNode> {
        let has = |node: &&PlannedNode| node.pods.iter().any(|pod| app_of(&pod.pod.name) == app);
        plan.nodes.iter().filter(has).collect()
    };
    let (ones, others) = (with(one), with(other));
    let is_near =
        |a: &PlannedNode, b: &PlannedNode| a.claim == b.claim || a.zones.len() == 1 && a.zones == b.zones;
    ones.iter().all(|a| others.iter().all(|b| is_near(a, b)))
}

/// The new nodes in short: where they may come up, and their pods.
fn summary(plan: &Plan) -> String {
    let node = |node: &PlannedNode| {
        let pods: Vec<&str> = node.pods.iter().map(|pod| pod.pod.name.as_str()).collect();
        format!("{}: {}", node.zones.join(" "), pods.join(" "))
    };
    plan.nodes.iter().map(node).collect::<Vec<_>>().join("\n")
}

/// Why each pod without a place has none, by name.
fn refusals(report: &Report) -> BTreeMap<String, String> {
    report.unplaced().map(|(pod, reason)| (pod.name.clone(), reason)).collect()
}

/// Plans, and makes sure that no pod is left without a place.
#[track_caller]
fn all_placed(snapshot: &Snapshot) -> Plan {
    let (plan, report) = planned(snapshot);
    assert_eq!(refusals(&report), BTreeMap::new());
    plan
}

fn term(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "selector": {"matchLabels": {"app": app}}, "namespaces": ["default"]})
}

/// Required affinity to the pods of an app.
fn near(key: &str, app: &str) -> Value {
    json!({"podAffinity": [term(key, app)]})
}

/// A required spread over zones of the pods of an app.
fn spread(app: &str) -> Value {
    json!({"topologySpread": [{"topologyKey": labels::ZONE, "maxSkew": 1, "scheduleAnyway": false,
        "selector": {"matchLabels": {"app": app}}, "honorAffinity": true, "honorTaints": false}]})
}
