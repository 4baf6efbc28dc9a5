//! Pods whose node is going: a place is planned for them as if they were pending, and only once.

use outrigger_model::{PodState, labels};
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
        let found: usize = third.existing.iter().map(|placement| placement.pods.len()).sum();
        assert_eq!((third.nodes.len(), found), (0, 3), "its successor waits");
    }
}
