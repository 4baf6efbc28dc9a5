//! An independent check of plans: whether Kubernetes and the pools' owners would accept a finished plan. It is written
//! for clarity before speed. With the planner it shares plain facts only: which host ports clash, what a daemonset asks
//! of a node, the pods of a buffer.
//!
//! `cluster_state` indexes the snapshot, `market` says what may be bought, and `nodes` lists nodes, claims in flight
//! and planned nodes as `node_info`: what each may become, with its pods. Then each is judged for itself (`fit`,
//! `volumes`), each planned node as a purchase (`planned_nodes`), all of a pool, reservation or pod group together
//! (`pools`), and all nodes for the rules of pods about other pods (`spread`, `affinity` and `anti_affinity`, with
//! `daemon_pods`, `pod_index` and `topology`). `consolidation` judges the commands that give nodes up, and what they lead to.

mod affinity;
mod anti_affinity;
mod cluster_state;
mod consolidation;
mod daemon_pods;
mod eligible_domains;
mod fit;
mod market;
mod node_info;
mod nodes;
mod planned_nodes;
mod pod_index;
mod pools;
mod spread;
mod topology;
mod violation;
mod volumes;

use std::collections::BTreeMap;

use outrigger_model::{Outcome, Plan, PodRef, Report, Snapshot};

pub use consolidation::{CarriedOut, carried_out, check_consolidation};
pub use violation::Violation;

use cluster_state::ClusterState;
use daemon_pods::DaemonPods;
use market::Market;
use pod_index::PodIndex;
use topology::Topology;

/// What is wrong with a plan, in a fixed order; nothing when every pod may be where it is placed, whatever each node
/// turns out to be, and every node is one that may be had.
///
/// Preferences do not bind, so a plan that passes them over is right. Which pods must leave their node is not judged:
/// the snapshot says it, as [`crate::leaving::seen`] gives it.
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    let mut violations = Vec::new();
    let cluster = ClusterState::of(snapshot);
    let market = Market::of(snapshot);
    let nodes = nodes::all(&cluster, &market, plan, &mut violations);
    for node in &nodes {
        fit::check(&cluster, node, &mut violations);
        volumes::check(&cluster, node, &mut violations);
    }
    volumes::check_for_one_pod(&cluster, &nodes, &mut violations);
    planned_nodes::check(&cluster, &market, &nodes, &mut violations);
    pools::check(&cluster, plan, &nodes, &mut violations);
    let pod_index = PodIndex::of(&cluster, &nodes);
    let mut topology = Topology::of(&nodes);
    spread::check(&pod_index, &mut topology, &mut violations);
    let daemon_pods = DaemonPods::of(&cluster, &nodes);
    affinity::check(&pod_index, &daemon_pods, &mut topology, &mut violations);
    anti_affinity::check(&pod_index, &mut topology, &mut violations);
    daemon_pods.check(&pod_index, &mut topology, &mut violations);
    // A node is checked as every type in every zone, which finds most faults more than once.
    in_order(violations)
}

/// Each once, in the order of their words.
fn in_order(violations: Vec<Violation>) -> Vec<Violation> {
    let sorted: BTreeMap<String, Violation> =
        violations.into_iter().map(|violation| (violation.to_string(), violation)).collect();
    sorted.into_values().collect()
}

/// What is wrong with a plan and its report together: beside [`check`], that each pod that waits for a node is either
/// placed or reported with a reason, and that the report places it where the plan does. The snapshot is the one that
/// was decided from.
pub fn check_with_report(snapshot: &Snapshot, plan: &Plan, report: &Report) -> Vec<Violation> {
    let seen = crate::leaving::seen(snapshot);
    let snapshot = &*seen;
    let mut violations = check(snapshot, plan);
    let existing = plan.existing.iter().map(|placement| (placement.target.name(), &placement.pods));
    let planned = plan.nodes.iter().map(|node| (node.claim.as_str(), &node.pods));
    let node_of: BTreeMap<&PodRef, &str> =
        existing.chain(planned).flat_map(|(on, pods)| pods.iter().map(move |pod| (&pod.pod, on))).collect();
    let waiting = snapshot.pods.iter().filter(|pod| pod.is_provisionable());
    let mut times: BTreeMap<&PodRef, usize> = waiting.map(|pod| (&pod.id, 0)).collect();
    for entry in &report.pods {
        for pod in &entry.pods {
            let agrees = match &entry.outcome {
                Outcome::Placed { on } => node_of.get(pod) == Some(&on.as_str()),
                _ => !node_of.contains_key(pod),
            };
            *times.entry(pod).or_default() += if agrees { 1 } else { 2 };
        }
    }
    let wrong = times.into_iter().filter(|(_, times)| *times != 1);
    violations.extend(wrong.map(|(pod, times)| Violation::NotOnce { pod: pod.clone(), times }));
    violations
}
