//! Whether a plan would hold.

use std::collections::BTreeMap;

use outrigger_model::{Plan, PodRef, PodsOutcome, Report, Snapshot};
use outrigger_policy::Supposed;

use super::cluster_state::ClusterState;
use super::daemon_pods::DaemonPods;
use super::market::Market;
use super::pod_index::PodIndex;
use super::topology::Topology;
use super::violation::{Violation, in_order};
use super::{affinity, anti_affinity, fit, nodes, planned_nodes, pools, spread, volumes};

/// What is wrong with a plan, in a fixed order; nothing when every pod may be where it is placed,
/// whatever each node turns out to be, and every node is one that may be had.
///
/// Preferences do not bind, so a plan that passes them over is right. Which pods must leave their
/// node is not judged: the snapshot says it, as [`Supposed::leaving`] gives it.
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    let mut violations = Vec::new();
    let cluster = ClusterState::new(snapshot);
    let market = Market::new(snapshot);
    let nodes = nodes::node_infos(&cluster, &market, plan, &mut violations);
    for node in &nodes {
        fit::check(&cluster, node, &mut violations);
        volumes::check(&cluster, node, &mut violations);
    }
    volumes::check_for_one_pod(&cluster, &nodes, &mut violations);
    planned_nodes::check(&cluster, &market, &nodes, &mut violations);
    pools::check(&cluster, plan, &nodes, &mut violations);
    let pod_index = PodIndex::new(&cluster, &nodes);
    let mut topology = Topology::new(&nodes);
    spread::check(&pod_index, &mut topology, &mut violations);
    let daemon_pods = DaemonPods::new(&cluster, &nodes);
    affinity::check(&pod_index, &daemon_pods, &mut topology, &mut violations);
    anti_affinity::check(&pod_index, &mut topology, &mut violations);
    daemon_pods.check(&pod_index, &mut topology, &mut violations);
    // A node is checked as every type in every zone, which finds most faults more than once.
    in_order(violations)
}

/// What is wrong with a plan and its report together: beside [`check`], that each pod that waits
/// for a node is either placed or reported with a reason, and that the report places it where the
/// plan does. The snapshot is the one that was decided from.
pub fn check_with_report(snapshot: &Snapshot, plan: &Plan, report: &Report) -> Vec<Violation> {
    let seen = Supposed::leaving(snapshot);
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
                PodsOutcome::Placed { on } => node_of.get(pod) == Some(&on.as_str()),
                _ => !node_of.contains_key(pod),
            };
            *times.entry(pod).or_default() += if agrees { 1 } else { 2 };
        }
    }
    let wrong = times.into_iter().filter(|(_, times)| *times != 1);
    violations.extend(wrong.map(|(pod, times)| Violation::NotOnce { pod: pod.clone(), times }));
    violations
}
