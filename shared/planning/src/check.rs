//! An independent check of plans: it shares no code with the planner, is written for clarity and not for speed, and
//! asks of a finished plan whether Kubernetes and the pools' owners would accept it.

mod facts;
mod planned;
mod rooms;

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{NominatedPod, Outcome, Plan, Pod, PodRef, Report, Snapshot};

/// A rule that a plan breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A pod has more than one place, or a place and a reason for having none.
    #[error("pod {pod}: found {times} times in the plan and its report; allowed: once")]
    NotOnce {
        /// The pod.
        pod: PodRef,
        /// How often it was found.
        times: usize,
    },
    /// A pod is placed that is not waiting for a node.
    #[error("pod {pod}: placed on {on}; allowed: only pods of the snapshot that wait for a node")]
    NotWaiting {
        /// The pod.
        pod: PodRef,
        /// Where it is placed.
        on: String,
    },
    /// Pods and daemonsets ask for more than there is.
    #[error("{on}: {resource} {asked} is asked of it; allowed: {available} as {instance_type}")]
    Overfull {
        /// The node or claim.
        on: String,
        /// What it is or may become; `it is` for a node that has joined.
        instance_type: String,
        /// The resource.
        resource: String,
        /// What is asked.
        asked: String,
        /// What there is.
        available: String,
    },
    /// A pod may not be where it is placed.
    #[error("pod {pod}: placed on {on}, but {reason}")]
    Refused {
        /// The pod.
        pod: PodRef,
        /// Where it is placed.
        on: String,
        /// What stands against it.
        reason: String,
    },
    /// A planned node is not one that its pool and class allow.
    #[error("claim {claim}: {reason}")]
    Node {
        /// Its claim.
        claim: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A node or claim takes no pods.
    #[error("{target}: pods are placed on it, but {reason}")]
    Closed {
        /// The node or claim.
        target: String,
        /// Why it takes none.
        reason: String,
    },
    /// A pool would hold more than its limit if the largest types were launched.
    #[error("NodePool {node_pool}: {resource} {used} after the plan; allowed: {limit}")]
    Limit {
        /// The pool.
        node_pool: String,
        /// The resource.
        resource: String,
        /// What it would hold.
        used: String,
        /// Its limit.
        limit: String,
    },
}

/// What is wrong with a plan; nothing when every pod fits where it is placed and every node is one that may be had.
pub fn check(snapshot: &Snapshot, plan: &Plan) -> Vec<Violation> {
    let mut violations = Vec::new();
    let pods: BTreeMap<&str, &Pod> = snapshot.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
    let mut seen = BTreeMap::new();
    let mut look_up = |on: &str, nominated: &[NominatedPod], violations: &mut Vec<Violation>| {
        let mut found = Vec::new();
        for entry in nominated {
            *seen.entry(entry.pod.clone()).or_insert(0) += 1;
            match pods.get(entry.uid.as_str()).filter(|pod| pod.id == entry.pod && pod.is_provisionable()) {
                Some(pod) => found.push(*pod),
                None => {
                    violations.push(Violation::NotWaiting { pod: entry.pod.clone(), on: on.to_owned() });
                }
            }
        }
        found
    };
    for placement in &plan.existing {
        let pods = look_up(placement.target.name(), &placement.pods, &mut violations);
        rooms::check(snapshot, &placement.target, &pods, &mut violations);
    }
    let mut names: BTreeSet<&str> = snapshot.claims.iter().map(|claim| claim.name.as_str()).collect();
    for node in &plan.nodes {
        let pods = look_up(&node.claim, &node.pods, &mut violations);
        planned::check(snapshot, node, &pods, &mut violations);
        if !names.insert(&node.claim) {
            violations.push(planned::fault(node, "its name is used twice"));
        }
    }
    let twice = seen.into_iter().filter(|(_, times)| *times > 1);
    violations.extend(twice.map(|(pod, times)| Violation::NotOnce { pod, times }));
    planned::check_limits(snapshot, plan, &mut violations);
    // A node is checked as every type in every zone, which finds most faults more than once.
    let mut known = BTreeSet::new();
    violations.retain(|violation| known.insert(violation.to_string()));
    violations
}

/// What is wrong with a plan and its report together: beside [`check`], that each pod that waits for a node is either
/// placed or reported with a reason, and that the report places it where the plan does.
pub fn check_with_report(snapshot: &Snapshot, plan: &Plan, report: &Report) -> Vec<Violation> {
    let mut violations = check(snapshot, plan);
    let existing = plan.existing.iter().map(|placement| (placement.target.name(), &placement.pods));
    let nodes = plan.nodes.iter().map(|node| (node.claim.as_str(), &node.pods));
    let places: BTreeMap<&PodRef, &str> =
        existing.chain(nodes).flat_map(|(on, pods)| pods.iter().map(move |pod| (&pod.pod, on))).collect();
    let mut times: BTreeMap<&PodRef, usize> = BTreeMap::new();
    for entry in &report.pods {
        for pod in &entry.pods {
            let agrees = match &entry.outcome {
                Outcome::Placed { on } => places.get(pod) == Some(&on.as_str()),
                Outcome::Unplaced { .. } | Outcome::Ignored { .. } => !places.contains_key(pod),
            };
            *times.entry(pod).or_default() += if agrees { 1 } else { 2 };
        }
    }
    let waiting = snapshot.pods.iter().filter(|pod| pod.is_provisionable()).map(|pod| &pod.id);
    waiting.for_each(|pod| {
        times.entry(pod).or_default();
    });
    let wrong = times.into_iter().filter(|(_, times)| *times != 1);
    violations.extend(wrong.map(|(pod, times)| Violation::NotOnce { pod: pod.clone(), times }));
    violations
}
