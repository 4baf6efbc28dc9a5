//! Volumes that one pod alone may use (ReadWriteOncePod): kube-scheduler keeps a second pod pending
//! wherever there is room, until the first is gone.

use std::collections::BTreeMap;

use outrigger_model::{Node, PodState, PodsOutcome, Report, Snapshot, Taint, labels};
use serde_json::json;

use super::placed;
use crate::fixtures::{bound, node, planned, pods, spec, with_pods};

/// A waiting pod `new-0`, and a claim for one pod alone that it mounts.
fn waiting() -> Snapshot {
    let mut snapshot = with_pods(&[("new", 1, spec(100, 128))]);
    let claim =
        json!({"id": "default/data", "driver": "ebs.csi.aws.com", "handle": "vol-1", "forOnePod": true});
    snapshot.volume_claims.push(serde_json::from_value(claim).unwrap());
    snapshot.pods[0].volume_claims.push("data".into());
    snapshot
}

/// The same beside a pod `old-0` in some state that mounts it too, on a node with ample room.
fn beside(state: PodState, change: impl Fn(&mut Node)) -> Snapshot {
    let mut snapshot = waiting();
    let mut there = node("i-1", "m6a.2xlarge");
    change(&mut there);
    snapshot.nodes.push(there);
    let mut old = bound("i-1", pods("old", 1, spec(100, 128)));
    old[0].state = state;
    old[0].volume_claims.push("data".into());
    snapshot.pods.extend(old);
    snapshot
}

/// Why each pod is left out, by name.
fn left_out(report: &Report) -> BTreeMap<&str, &str> {
    let reasons = report.pods.iter().flat_map(|entry| {
        let reason = match &entry.outcome {
            PodsOutcome::Volume { problem } => Some(problem.as_str()),
            _ => None,
        };
        entry.pods.iter().filter_map(move |pod| Some((pod.name.as_str(), reason?)))
    });
    reasons.collect()
}

/// Drained by us.
fn going(node: &mut Node) {
    node.annotations.insert(labels::CLAIM.into(), "web-1".into());
    node.taints.push(Taint::disrupted());
}

#[test]
fn a_pod_that_runs_keeps_its_volume_from_others() {
    for state in [PodState::Bound, PodState::Terminating] {
        let (plan, report) = planned(&beside(state, |_| {}));
        assert_eq!(placed(&plan, "new"), 0, "{state:?}");
        let reason = left_out(&report)["new-0"];
        let expected = "PersistentVolumeClaim default/data: its access mode is ReadWriteOncePod, and the pod \
                        default/old-0 has it";
        assert!(reason.contains(expected), "{reason}");
    }
}

#[test]
fn a_pod_that_is_over_keeps_nothing() {
    for state in [PodState::Finished, PodState::Refused] {
        let (plan, _) = planned(&beside(state, |_| {}));
        assert_eq!(placed(&plan, "new"), 1, "{state:?}");
    }
}

#[test]
fn the_successor_of_a_pod_that_is_evicted_has_a_place_at_once() {
    let (plan, _) = planned(&beside(PodState::Terminating, going));
    assert_eq!(placed(&plan, "new"), 1);
}

#[test]
fn a_pod_whose_node_goes_is_placed_before_others_that_want_its_volume() {
    let mut snapshot = beside(PodState::Bound, going);
    let old = snapshot.pods.iter_mut().find(|pod| pod.id.name == "old-0").unwrap();
    old.owner_kind = "ReplicaSet".into();
    let (plan, report) = planned(&snapshot);
    assert_eq!((placed(&plan, "old"), placed(&plan, "new")), (1, 0));
    let reason = left_out(&report)["new-0"];
    assert!(reason.contains("default/old-0 has it"), "{reason}");
}

#[test]
fn of_pods_that_wait_for_one_volume_one_is_placed() {
    let mut snapshot = waiting();
    let mut other = pods("other", 1, spec(100, 128));
    other[0].volume_claims.push("data".into());
    other[0].created_at = snapshot.pods[0].created_at + jiff::SignedDuration::from_secs(1);
    snapshot.pods.extend(other);
    let (plan, report) = planned(&snapshot);
    assert_eq!((placed(&plan, "new"), placed(&plan, "other")), (1, 0));
    let reason = left_out(&report)["other-0"];
    assert!(reason.contains("the pod default/new-0 comes before"), "{reason}");
}
