//! Which pods a decision is about, and why the others are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrigger_model::{Pod, PodRef, PodSpec, PodState, PodsOutcome, PodsReport, Snapshot, labels};

use crate::launch_outcomes::LeftAlone;
use crate::pods::virtual_pods::{BUFFER, virtual_pod};
use crate::pods::volumes::Volumes;

/// The pods to place, and those left out with the reason.
pub struct Queue<'a> {
    /// The pods.
    pub pods: Vec<&'a Pod>,
    /// Pods that are left out, with the reason.
    pub left_out: Vec<PodsReport>,
    /// The pod groups of these.
    pub incomplete: BTreeSet<GroupName<'a>>,
}

/// A pod group: its namespace and its name.
pub type GroupName<'a> = (&'a str, &'a str);

/// The group of a pod.
pub fn group_of(pod: &Pod) -> Option<GroupName<'_>> {
    pod.group.as_deref().map(|group| (pod.id.namespace.as_str(), group))
}

/// Pods that stand for the buffers' room: of the lowest priority, never in a plan, so that room for
/// them is found last and given up first (Karpenter `provisioning/buffers.go`).
pub fn buffer_pods(snapshot: &Snapshot) -> Vec<Pod> {
    let of_buffer = snapshot.buffers.iter().flat_map(|buffer| {
        let spec = Arc::new(PodSpec { priority: i32::MIN, ..buffer.spec.as_ref().clone() });
        (0..buffer.count).map(move |number| {
            let name = format!("{} {number}", buffer.id.name);
            let id = PodRef { namespace: buffer.id.namespace.clone(), name };
            let pod = virtual_pod(BUFFER, id, &spec, snapshot.taken_at);
            Pod { labels: Arc::clone(&buffer.labels), ..pod }
        })
    });
    of_buffer.collect()
}

/// Sorts out which pods nodes may be launched for.
pub fn queue<'a>(
    snapshot: &'a Snapshot,
    buffers: &'a [Pod],
    volumes: &Volumes<'a>,
    left_alone: &LeftAlone<'_>,
) -> Queue<'a> {
    let mut left_out: BTreeMap<String, PodsReport> = BTreeMap::new();
    let waits = preemptions(snapshot);
    let mut opts_out: BTreeMap<*const PodSpec, bool> = BTreeMap::new();
    let (mut pods, mut incomplete) = (Vec::new(), BTreeSet::new());
    for pod in snapshot.pods.iter().filter(|pod| pod.is_provisionable()).chain(buffers) {
        let waiting_for = pod.nominated_node.as_deref().filter(|_| pod.node_name.is_none());
        let preempts = waiting_for.filter(|node| waits.contains(node));
        let ignored = if let Some(why) = left_alone.quarantined.get(pod.uid.as_str()) {
            Some((*why).to_owned())
        } else if let Some(node) = preempts {
            Some(format!("it waits for pods on node {node} to make room for it"))
        } else if *opts_out.entry(Arc::as_ptr(&pod.spec)).or_insert_with(|| pod.spec.opts_out()) {
            Some(format!("it asks for a node without the label {}", labels::NODE_POOL))
        } else {
            None
        };
        let outcome = if let Some(problem) = &pod.degraded {
            PodsOutcome::Unreadable { problem: problem.complaint() }
        } else if let Some(reason) = ignored {
            PodsOutcome::Ignored { reason }
        } else if let Some(problem) = volumes.problem(pod) {
            PodsOutcome::Volume { problem }
        } else {
            pods.push(pod);
            continue;
        };
        incomplete.extend(group_of(pod));
        let entry = left_out.entry(why(&outcome));
        entry.or_insert_with(|| PodsReport { pods: Vec::new(), outcome }).pods.push(pod.id.clone());
    }
    for entry in left_out.values_mut() {
        entry.pods.sort();
    }
    Queue { pods, left_out: left_out.into_values().collect(), incomplete }
}

/// Why pods are left out, for those that are so for the same reason.
fn why(outcome: &PodsOutcome) -> String {
    match outcome {
        PodsOutcome::Ignored { reason } => reason.clone(),
        other => other.unplaced_reason().unwrap_or_default(),
    }
}

/// Nodes that are making room: a pod nominated to one of them waits for a preemption there. Any
/// other nomination is our own or holds nothing back.
fn preemptions(snapshot: &Snapshot) -> BTreeSet<&str> {
    let leaving = snapshot.pods.iter().filter(|pod| pod.state == PodState::Terminating);
    let nodes: BTreeSet<&str> = leaving.filter_map(|pod| pod.node_name.as_deref()).collect();
    snapshot.nodes.iter().map(|node| node.name.as_str()).filter(|name| nodes.contains(name)).collect()
}

/// What a pod asks for that Outrigger does not plan for; none when it can be placed with certainty.
pub fn unsupported(spec: &PodSpec) -> Option<String> {
    let mut what = Vec::new();
    if spec.node_affinity.iter().any(|term| term.has_match_fields) {
        what.push("node affinity by matchFields");
    }
    if spec.uses_resource_claims {
        what.push("resource claims (dynamic resource allocation), whose devices only a running node shows");
    }
    (!what.is_empty()).then(|| what.join(", "))
}
