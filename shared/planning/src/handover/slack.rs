//! Room for the pods that kube-scheduler would leave over: they get nodes of their own at once, where otherwise they would wait
//! for a second plan, and for a second boot, to come to the same.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{
    ClaimState, Node, NodeClaim, Outcome, Plan, PlannedNode, Pod, PodRef, PodState, PodsReport, Report,
    Resources, Snapshot, Target,
};

use super::{Types, by_name, crowded, likely_labels};
use crate::{Options, provision};

/// The plan with further nodes for those whom a rehearsal has left over; none where they cannot have any, or where nobody would
/// be planned onto another node any more.
pub(super) fn with_slack(
    snapshot: &Snapshot,
    plan: &Plan,
    report: &Report,
    left: &BTreeSet<String>,
    options: &Options<'_>,
) -> Option<(Plan, Report)> {
    let known: BTreeMap<&str, &Pod> = snapshot
        .pods
        .iter()
        .filter(|pod| left.contains(&pod.uid))
        .map(|pod| (pod.uid.as_str(), pod))
        .collect();
    let (further, further_report) = provision(&without(snapshot, plan, &known), options);
    let mut moved: BTreeMap<&str, &Pod> = BTreeMap::new();
    for pod in further.nodes.iter().flat_map(|node| &node.pods) {
        let (uid, pod) = known.get_key_value(pod.uid.as_str())?;
        moved.insert(*uid, *pod);
    }
    if moved.is_empty() {
        return None;
    }
    let (mut plan, mut report) = (plan.clone(), report.clone());
    for node in &mut plan.nodes {
        take_off(node, &moved);
        if node.pods.is_empty() {
            return None;
        }
    }
    for mut node in further.nodes {
        let pods: Vec<&Pod> =
            node.pods.iter().filter_map(|pod| moved.get(pod.uid.as_str()).copied()).collect();
        node.handover.crowded = crowded(&pods).into_iter().map(|pod| pod.uid.clone()).collect();
        tell(&mut report, &node);
        plan.nodes.push(node);
    }
    report.nodes.extend(further_report.nodes);
    Some((plan, report))
}

/// The cluster once the planned nodes are there, with no room but for their other pods.
fn without(snapshot: &Snapshot, plan: &Plan, left: &BTreeMap<&str, &Pod>) -> Snapshot {
    // Headroom was planned with the first nodes.
    let mut next = Snapshot { buffers: Vec::new(), ..snapshot.clone() };
    let types: Types<'_> =
        snapshot.classes.iter().map(|offer| (&offer.class.reference, by_name(offer))).collect();
    let mut on: BTreeMap<&str, &str> = BTreeMap::new();
    for node in &plan.nodes {
        let pods = node.pods.iter().filter(|pod| !left.contains_key(pod.uid.as_str()));
        on.extend(pods.map(|pod| (pod.uid.as_str(), node.claim.as_str())));
        let mut full = node.clone();
        take_off(&mut full, left);
        let claim = NodeClaim {
            state: ClaimState::Registered,
            node_name: Some(node.claim.clone()),
            nominated: Vec::new(),
            ..NodeClaim::planned(&full, "", snapshot.taken_at)
        };
        next.nodes.push(joined(&full, likely_labels(snapshot, &types, node), snapshot));
        next.claims.push(claim);
    }
    for placement in &plan.existing {
        if let Target::Node(name) = &placement.target {
            on.extend(placement.pods.iter().map(|pod| (pod.uid.as_str(), name.as_str())));
        }
    }
    for pod in &mut next.pods {
        if let Some(node) = on.get(pod.uid.as_str()) {
            pod.node_name = Some((*node).to_owned());
            pod.state = PodState::Bound;
        }
    }
    next
}

fn joined(node: &PlannedNode, labels: BTreeMap<String, String>, snapshot: &Snapshot) -> Node {
    Node {
        name: node.claim.clone(),
        uid: String::new(),
        resource_version: String::new(),
        provider_id: None,
        labels,
        annotations: BTreeMap::new(),
        finalizers: Vec::new(),
        taints: node.taints.clone(),
        capacity: node.reserved.clone(),
        allocatable: node.requests.clone(),
        volume_limits: BTreeMap::new(),
        conditions: BTreeMap::new(),
        ready: true,
        unschedulable: false,
        deleting: false,
        created_at: snapshot.taken_at,
    }
}

fn take_off(node: &mut PlannedNode, moved: &BTreeMap<&str, &Pod>) {
    let mut less = Resources::new();
    node.pods.retain(|pod| match moved.get(pod.uid.as_str()) {
        Some(pod) => {
            less.add(&pod.spec.requests);
            false
        }
        None => true,
    });
    node.handover.crowded.retain(|uid| !moved.contains_key(uid.as_str()));
    let left = node.requests.iter().map(|(name, amount)| (name.to_owned(), amount - less.get(name)));
    node.requests = left.collect();
}

/// Tells of the pods of a node that they go there, and no more where they went.
fn tell(report: &mut Report, node: &PlannedNode) {
    let mut ids: BTreeSet<PodRef> = node.pods.iter().map(|pod| pod.pod.clone()).collect();
    let mut entries = Vec::new();
    for entry in &mut report.pods {
        let Outcome::Placed { .. } = entry.outcome else { continue };
        let here: Vec<PodRef> = entry.pods.iter().filter(|pod| ids.contains(pod)).cloned().collect();
        entry.pods.retain(|pod| !ids.contains(pod));
        ids.retain(|pod| !here.contains(pod));
        if !here.is_empty() {
            entries.push(PodsReport { pods: here, outcome: Outcome::Placed { on: node.claim.clone() } });
        }
    }
    report.pods.retain(|entry| !entry.pods.is_empty());
    report.pods.extend(entries);
}
