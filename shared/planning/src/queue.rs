//! Which pods a decision is about, and why the others are left out.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{Outcome, Pod, PodRef, PodSpec, PodsReport, Snapshot, labels};

use crate::classes;

/// The pods to place, grouped by what they ask for, and those left out with the reason.
pub(crate) struct Queue<'a> {
    /// Equal pods with what they ask for.
    pub(crate) groups: Vec<(&'a PodSpec, Vec<&'a Pod>)>,
    /// Pods that are left out.
    pub(crate) ignored: Vec<PodsReport>,
}

/// Sorts out which pods nodes may be launched for.
pub(crate) fn queue(snapshot: &Snapshot) -> Queue<'_> {
    let mut ignored: BTreeMap<String, Vec<PodRef>> = BTreeMap::new();
    let waits = preemptions(snapshot);
    let mut wanted = Vec::new();
    for pod in snapshot.pods.iter().filter(|pod| pod.is_provisionable()) {
        match pod.nominated_node.as_deref().filter(|node| waits.contains(node)) {
            Some(node) => {
                let reason = format!("it waits for pods on node {node} to make room for it");
                ignored.entry(reason).or_default().push(pod.id.clone());
            }
            None => wanted.push(pod),
        }
    }
    let (out, groups) =
        classes::group(wanted.into_iter()).into_iter().partition::<Vec<_>, _>(|(spec, _)| spec.opts_out());
    for (_, pods) in out {
        let reason = format!("it asks for a node without the label {}", labels::NODE_POOL);
        ignored.entry(reason).or_default().extend(pods.iter().map(|pod| pod.id.clone()));
    }
    let ignored = ignored
        .into_iter()
        .map(|(reason, mut pods)| {
            pods.sort();
            PodsReport { pods, outcome: Outcome::Ignored { reason } }
        })
        .collect();
    Queue { groups, ignored }
}

/// Nodes that exist and are not of a claim: a pod nominated to one of them waits for a preemption there. A nomination
/// to a node of a claim is our own, and one to a node that is gone holds nothing back.
fn preemptions(snapshot: &Snapshot) -> BTreeSet<&str> {
    let claimed: BTreeSet<&str> = snapshot
        .claims
        .iter()
        .flat_map(|claim| [claim.node_name.as_deref(), claim.instance_id()])
        .flatten()
        .collect();
    let nodes = snapshot.nodes.iter().map(|node| node.name.as_str());
    nodes.filter(|name| !claimed.contains(name)).collect()
}

/// What a pod asks for that this version does not plan for; none when it can be placed with certainty.
pub(crate) fn unsupported(spec: &PodSpec) -> Option<String> {
    let mut what = Vec::new();
    if spec.node_affinity.iter().any(|term| term.has_match_fields) {
        what.push("node affinity by matchFields".to_owned());
    }
    for spread in spec.topology_spread.iter().filter(|spread| !spread.schedule_anyway) {
        what.push(format!("required topology spread over {}", spread.topology_key));
    }
    for term in &spec.pod_affinity {
        what.push(format!("required pod affinity on {}", term.topology_key));
    }
    for term in &spec.pod_anti_affinity {
        what.push(format!("required pod anti-affinity on {}", term.topology_key));
    }
    if spec.uses_resource_claims {
        what.push("resource claims".to_owned());
    }
    (!what.is_empty()).then(|| what.join(", "))
}
