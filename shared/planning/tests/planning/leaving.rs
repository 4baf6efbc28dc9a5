//! Pods whose node is going: a place is planned for them as if they were pending, and only once.

use outrigger_model::fixtures::budget;
use outrigger_model::{
    Command, PodDisruptionBudget, PodRef, PodState, Snapshot, Taint, TerminationReason, labels,
};
use serde_json::json;

use crate::fixtures::{applied, bound, node, planned, pods, spec, spec_with, taint, with_pods};

/// What a spread over zones asks for.
fn spread() -> serde_json::Value {
    json!({"topologySpread": [{
        "topologyKey": labels::ZONE, "maxSkew": 1, "scheduleAnyway": false, "honorAffinity": true,
        "honorTaints": false, "selector": {"matchLabels": {"app": "web"}}}]})
}

#[test]
fn leaving_pods_are_planned_for_until_they_have_left_and_bought_for_once() {
    for spec in [spec(500, 512), spec_with(500, 512, spread())] {
        let mut snapshot = with_pods(&[]);
        let mut old = node("i-old", "m6a.large");
        old.taints = vec![serde_json::from_value(taint(labels::DISRUPTED_TAINT)).unwrap()];
        snapshot.nodes.push(old);
        snapshot.pods = bound("i-old", pods("web", 3, spec));
        assert_eq!(planned(&snapshot).0.nodes.len(), 0, "pods that stay");

        for pod in &mut snapshot.pods {
            pod.state = PodState::Leaving;
        }
        let (plan, report) = planned(&snapshot);
        let placed: usize = plan.nodes.iter().map(|node| node.pods.len()).sum();
        assert_eq!((placed, report.unplaced().count()), (3, 0));

        // The same pods, fewer of them, and one that its controller has made in another's place.
        let mut next = applied(&snapshot, &plan);
        assert_eq!(planned(&next).0.nodes.len(), 0, "all of them still there");
        next.pods[0].state = PodState::Terminating;
        assert_eq!(planned(&next).0.nodes.len(), 0, "one of them falls");
        next.pods[0].uid = "a successor".into();
        next.pods[0].id.name = "web-successor".into();
        (next.pods[0].state, next.pods[0].node_name) = (PodState::Unschedulable, None);
        let (third, _) = planned(&next);
        let placed: usize = third.existing.iter().map(|placement| placement.pods.len()).sum();
        assert_eq!((third.nodes.len(), placed), (0, 3), "its successor waits");
    }
}

/// A node of ours that is closed for its drain, with three pods on it.
fn closed() -> Snapshot {
    let mut snapshot = with_pods(&[]);
    let mut old = node("i-old", "m6a.large");
    old.annotations.insert(labels::CLAIM.into(), "web-1".into());
    old.taints.push(Taint::disrupted());
    snapshot.nodes.push(old);
    snapshot.pods = bound("i-old", pods("web", 3, spec_with(500, 512, spread())));
    snapshot
}

/// How many pods get a place on new nodes.
fn placed(snapshot: &Snapshot) -> usize {
    planned(snapshot).0.nodes.iter().map(|node| node.pods.len()).sum()
}

#[test]
fn who_must_leave_follows_from_the_facts() {
    let mut snapshot = closed();
    assert_eq!(placed(&snapshot), 3);
    snapshot.nodes[0].taints.clear();
    snapshot.nodes[0].deleting = true;
    assert_eq!(placed(&snapshot), 0, "that somebody deletes the node is not enough");
    snapshot.nodes[0].taints.push(Taint::disrupted());
    snapshot.disruption_budgets.push(PodDisruptionBudget {
        id: PodRef { namespace: snapshot.pods[0].id.namespace.clone(), name: "none".into() },
        is_fully_blocking: true,
        ..budget("none")
    });
    assert_eq!(placed(&snapshot), 0, "a budget lets none of them go");
}

#[test]
fn a_snapshot_that_was_written_and_read_back_gives_the_same_bytes_of_plan() {
    // A claim on its way, a command over it, and pods of each state.
    let first = closed();
    let mut snapshot = applied(&first, &planned(&first).0);
    let claims = snapshot.claims.iter().map(|claim| claim.name.clone()).collect();
    snapshot.commands.push(Command::new(TerminationReason::Rebalanced, "test", claims, first.taken_at));
    snapshot.pods.extend(pods("late", 7, spec(1_500, 3_000)));
    assert!(!planned(&snapshot).0.nodes.is_empty(), "there is something to decide");
    let text = serde_json::to_string(&snapshot).unwrap();
    let read: Snapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    let bytes = |snapshot: &Snapshot| serde_json::to_string(&planned(snapshot)).unwrap();
    assert_eq!(bytes(&read), bytes(&snapshot));
}
