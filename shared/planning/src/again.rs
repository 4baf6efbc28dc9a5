//! Once more: pods that a plan has left without a place are planned for in the world in which the plan has come true.
//!
//! The first decision looks at all pods together, and what it learns late - that a limit leaves room after all, that a node
//! was opened where others may join - helps nobody any more. The next tick would find it; so it is asked for at once.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{NominatedPod, Plan, Pod, Report, Snapshot, Target};

use crate::attempts::{Decision, best_decision};
use crate::volumes::Volumes;
use crate::{Options, check};

/// Up to how many pods a decision is made once more.
const PODS_MAX: usize = 256;
/// How often.
const ROUNDS_MAX: usize = 3;

/// A decision with those pods placed too that the world after it has room for. Nodes of static pools and the room of
/// buffers are left to the next tick: pods may use them, but are not planned onto them.
pub(crate) fn completed(
    snapshot: &Snapshot,
    options: &Options<'_>,
    mut decision: Decision,
    pods: &[&Pod],
) -> Decision {
    let is_plain = |decision: &Decision| decision.plan.nodes.iter().all(|node| !node.pods.is_empty());
    if pods.len() > PODS_MAX || !snapshot.buffers.is_empty() || !is_plain(&decision) {
        return decision;
    }
    for _ in 0..ROUNDS_MAX {
        let is_settled = decision.plan.nodes.is_empty() && !decision.leaves_out();
        if decision.report.unplaced().next().is_none() || is_settled || (options.time_is_up)() {
            break;
        }
        let next = snapshot.with_plan(&decision.plan);
        let uids: BTreeSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        let again: Vec<&Pod> = next.pods.iter().filter(|pod| uids.contains(pod.uid.as_str())).collect();
        let volumes = Volumes::of(&next);
        let found = best_decision(&next, options, &volumes, &again);
        let is_better = found.places_more_than(&decision);
        let is_as_good = decision.leaves_out() && found.places_as_many_as(&decision);
        if !is_better && !is_as_good {
            break;
        }
        let both = merged(decision.clone(), found, pods);
        // Pods that were left out may be some that the others must be near, or should be counted with.
        if !check::check(snapshot, &both.plan).is_empty() {
            break;
        }
        decision = both;
        if !is_better {
            break;
        }
    }
    decision
}

/// A second decision as part of the first, whose nodes it took for claims.
fn merged(first: Decision, mut second: Decision, pods: &[&Pod]) -> Decision {
    let mut on_claims: BTreeMap<String, Vec<NominatedPod>> = BTreeMap::new();
    let mut existing = Vec::new();
    for placement in second.plan.existing {
        match &placement.target {
            Target::Claim(name) if first.plan.nodes.iter().any(|node| &node.claim == name) => {
                on_claims.insert(name.clone(), placement.pods);
            }
            _ => existing.push(placement),
        }
    }
    let requests: BTreeMap<&str, &Pod> = pods.iter().map(|pod| (pod.uid.as_str(), *pod)).collect();
    let mut kept = Vec::new();
    for mut node in first.plan.nodes {
        let now = on_claims.remove(&node.claim).unwrap_or_default();
        if now.is_empty() {
            // Its pods have gone elsewhere.
            continue;
        }
        for pod in node.pods.iter().filter_map(|pod| requests.get(pod.uid.as_str())) {
            node.requests.subtract(&pod.spec.requests);
        }
        for pod in now.iter().filter_map(|pod| requests.get(pod.uid.as_str())) {
            node.requests.add(&pod.spec.requests);
        }
        node.pods = now;
        kept.push(node);
    }
    let names: BTreeSet<&str> = kept.iter().map(|node| node.claim.as_str()).collect();
    let reports = first.report.nodes.iter().filter(|report| names.contains(report.claim.as_str())).cloned();
    let reports: Vec<_> = reports.chain(second.report.nodes).collect();
    kept.extend(second.plan.nodes);
    second.plan = Plan { nodes: kept, existing, ..first.plan };
    second.report = Report { nodes: reports, ..second.report };
    second
}
