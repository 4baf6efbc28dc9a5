//! Pods that must be near their like: their node goes, and a budget lets them leave one by one
//! only.

use std::collections::BTreeSet;

use outrigger_model::{ClaimState, labels};

use outrigger_simulation::EventKind::{self, DeleteNodes, InsufficientCapacity, UpdateImages};
use serde_json::json;

use crate::common::{self, Pool, Workload, World, max_unavailable, minutes};

/// Three pods that must be in one zone, of which two must run. Their node is to go while its zone
/// has no capacity.
fn check(event: EventKind) {
    let selector = json!({"matchLabels": {"app": "web"}});
    let near = json!([{"topologyKey": labels::ZONE, "labelSelector": selector}]);
    let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": near}});
    let disruption = json!({"budgets": [{"nodes": "100%"}]});
    let pool = Pool::new("general").annotate(labels::PATIENCE, "0").annotate(labels::DRIFT_DEADLINE, "0");
    let no_capacity = InsufficientCapacity {
        instance_types: Vec::new(),
        zones: vec!["us-east-1a".into()],
        capacity_type: None,
        length: minutes(5),
    };
    let ending = World::new("neighbours", minutes(25))
        .seed(3)
        .disrupts()
        .set("zones", vec!["us-east-1a", "us-east-1b"])
        .pool(pool.spec("disruption", disruption).of_m6a_large())
        .workload(Workload::new("web", 3, "400m", "1Gi").labelled().spec("affinity", affinity))
        .budgets([max_unavailable("web", 1)])
        .event(minutes(5), no_capacity)
        .event(minutes(6), event)
        .play();
    let story = common::timeline(&ending);
    common::check_expected(&ending, "");
    let launched = ending.claims.iter().filter(|claim| claim.status.launched_at.is_some());
    let states: Vec<ClaimState> = launched.map(|claim| claim.status.state).collect();
    assert_eq!(states.len(), 2, "no node is bought in vain: {story}");
    assert!(states.contains(&ClaimState::Gone), "its drain ends: {story}");
    let zones: BTreeSet<_> = ending.nodes.iter().map(|node| node.labels.get(labels::ZONE)).collect();
    assert_eq!(zones, BTreeSet::from([Some(&"us-east-1a".to_owned())]), "{story}");
}

#[test]
fn pods_that_leave_one_by_one_stay_in_the_zone_of_those_that_are_left() {
    check(DeleteNodes(1));
}

#[test]
fn what_replaces_a_drifted_node_of_such_pods_is_in_its_zone() {
    check(UpdateImages);
}
