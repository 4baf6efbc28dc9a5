//! Required affinity between pods that wait together.

use std::sync::Arc;

use outrigger_model::labels::{HOSTNAME, ZONE};
use outrigger_model::{Plan, PlannedNode, PodSpec, Snapshot};
use serde_json::json;

use super::{all_placed, are_together, near, placed, summary};
use crate::fixtures::{bound, node, planned, pods, pool, requiring, spec, spec_with, with_pods};

/// Pods of one cpu that must be near those of an app.
fn following(key: &str, app: &str) -> PodSpec {
    spec_with(1_000, 512, near(key, app))
}

/// A cluster with such pods for each of several pools: one of all machines, and some of one size.
/// What is placed is not to depend on what other machines there are.
fn on_every_size(groups: &[(&str, usize, PodSpec)]) -> Vec<Snapshot> {
    let of_size = |size: &str| {
        let mut snapshot = with_pods(groups);
        snapshot.node_pools =
            vec![pool("default", requiring(&[("karpenter.k8s.aws/instance-size", "In", &[size])]))];
        snapshot
    };
    std::iter::once(with_pods(groups)).chain(["large", "xlarge", "2xlarge"].map(of_size)).collect()
}

// F1
#[test]
fn a_pod_that_must_be_near_pods_that_are_near_themselves_is_placed_with_them() {
    for snapshot in on_every_size(&[("b", 1, following(ZONE, "b")), ("c", 1, following(ZONE, "b"))]) {
        let plan = all_placed(&snapshot);
        assert!(are_together(&plan, "b", "c"), "{}", summary(&plan));
    }
}

// F1
#[test]
fn pods_without_rules_have_their_places_whatever_others_must_be_near() {
    let groups =
        [("b", 1, following(ZONE, "b")), ("c", 1, following(ZONE, "b")), ("free", 6, spec(1_000, 512))];
    for snapshot in on_every_size(&groups) {
        let (plan, _) = planned(&snapshot);
        assert_eq!((placed(&plan, "b"), placed(&plan, "c"), placed(&plan, "free")), (1, 1, 6));
    }
}

// F1
#[test]
fn one_that_follows_on_the_host_is_on_the_host() {
    let groups = [
        ("b", 2, following(HOSTNAME, "b")),
        ("c", 1, following(HOSTNAME, "b")),
        ("free", 6, spec(1_000, 512)),
    ];
    for snapshot in on_every_size(&groups).into_iter().skip(2) {
        let plan = all_placed(&snapshot);
        let of_b = |node: &&PlannedNode| node.pods.iter().any(|pod| pod.pod.name == "b-0");
        let together = plan.nodes.iter().find(of_b).unwrap();
        let names: Vec<&str> = together.pods.iter().map(|pod| pod.pod.name.as_str()).collect();
        assert!(["b-0", "b-1", "c-0"].iter().all(|name| names.contains(name)), "{names:?}");
    }
}

// F1
#[test]
fn a_chain_of_followers_ends_in_the_zone_where_it_begins() {
    let groups = [
        ("d", 2, following(ZONE, "c")),
        ("c", 2, following(ZONE, "b")),
        ("b", 2, following(ZONE, "b")),
        ("free", 6, spec(1_000, 512)),
    ];
    for snapshot in on_every_size(&groups) {
        let plan = all_placed(&snapshot);
        assert!(are_together(&plan, "b", "d"), "{}", summary(&plan));
        assert!(are_together(&plan, "c", "d"), "{}", summary(&plan));
    }
}

// F1: a follower whom no order of binding serves does not take the others with it.
#[test]
fn pods_near_one_another_in_a_ring_have_no_place_and_others_have() {
    let groups =
        [("x", 1, following(ZONE, "y")), ("y", 1, following(ZONE, "x")), ("free", 6, spec(1_000, 512))];
    for snapshot in on_every_size(&groups) {
        let (plan, _) = planned(&snapshot);
        assert_eq!((placed(&plan, "x"), placed(&plan, "y"), placed(&plan, "free")), (0, 0, 6));
    }
}

// F10: kube-scheduler binds in an order of its own. A pod that comes too soon is refused and tried
// again, so every order ends well if each pod is near its own on the node that it is meant for.
#[test]
fn a_chain_of_followers_is_together_on_existing_nodes() {
    for key in [HOSTNAME, ZONE] {
        let mut snapshot = with_pods(&[
            ("c2", 1, spec_with(300, 512, near(key, "c1"))),
            ("c1", 1, spec_with(300, 512, near(key, "a"))),
            ("a", 1, spec(300, 512)),
        ]);
        snapshot.nodes = vec![node("i-1", "m6a.large"), node("i-2", "m6a.large")];
        snapshot.nodes[1].labels.insert(ZONE.into(), "us-east-1b".into());
        let plan = all_placed(&snapshot);
        assert_eq!(plan.nodes, [], "over {key} there is room");
        assert_eq!(plan.existing.len(), 1, "over {key} all are on one node: {:?}", plan.existing);
    }
}

// F10: the room of the first is taken by nobody who is not needed there.
#[test]
fn a_chain_of_followers_finds_the_only_node_with_room_for_all() {
    let mut snapshot = with_pods(&[
        ("c2", 1, spec_with(600, 512, near(HOSTNAME, "c1"))),
        ("c1", 1, spec_with(600, 512, near(HOSTNAME, "a"))),
        ("a", 1, spec(600, 512)),
        ("free", 1, spec(1_000, 512)),
    ]);
    snapshot.node_pools.clear();
    snapshot.nodes = vec![node("i-1", "m6a.large"), node("i-2", "m6a.large")];
    snapshot.pods.extend(bound("i-1", pods("old", 1, spec(800, 512))));
    let plan = all_placed(&snapshot);
    let places: Vec<(&str, usize)> =
        plan.existing.iter().map(|placement| (placement.target.name(), placement.pods.len())).collect();
    assert_eq!(places, [("i-1", 1), ("i-2", 3)]);
}

// F10: a pod that its own term means may go anywhere while no such pod is bound, so nothing may
// depend on its coming last.
#[test]
fn a_pod_that_may_begin_elsewhere_is_planned_where_the_others_are() {
    let either = json!({"podAffinity": [{"topologyKey": HOSTNAME, "namespaces": ["default"], "selector":
        {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "c1"]}]}}]});
    let mut snapshot = with_pods(&[
        ("c2", 1, spec_with(300, 512, near(HOSTNAME, "c1"))),
        ("c1", 1, spec_with(300, 512, either)),
        ("a", 1, spec(300, 512)),
    ]);
    snapshot.nodes = vec![node("i-1", "m6a.large"), node("i-2", "m6a.large")];
    let plan = all_placed(&snapshot);
    assert_eq!((plan.nodes.len(), plan.existing.len()), (0, 1), "{:?}", plan.existing);
}

/// A follower of `a-0`, which waits, on two nodes in two zones; on the second such a pod runs and
/// takes so much cpu.
fn beside_running(key: &str, cpu: i64) -> Snapshot {
    let mut snapshot =
        with_pods(&[("c", 1, spec_with(300, 512, near(key, "a"))), ("a", 1, spec(1_000, 512))]);
    snapshot.nodes = vec![node("i-1", "m6a.large"), node("i-2", "m6a.large")];
    snapshot.nodes[1].labels.insert(ZONE.into(), "us-east-1b".into());
    let mut running = bound("i-2", pods("old", 1, spec(cpu, 512)));
    running[0].labels = Arc::clone(&snapshot.pods[1].labels);
    snapshot.pods.extend(running);
    snapshot
}

/// The existing node that a pod is meant for.
fn target_of(plan: &Plan, pod: &str) -> Option<String> {
    let mut with =
        plan.existing.iter().filter(|placement| placement.pods.iter().any(|other| other.pod.name == pod));
    with.next().map(|placement| placement.target.name().to_owned())
}

// F10: kube-scheduler binds the follower before the pod that only waits, wherever it finds one that
// runs. Beside that one its nomination comes true in every order.
#[test]
fn a_follower_goes_to_pods_that_run_rather_than_to_pods_that_wait() {
    for key in [HOSTNAME, ZONE] {
        let plan = all_placed(&beside_running(key, 1_000));
        let targets = (target_of(&plan, "a-0"), target_of(&plan, "c-0"));
        assert_eq!(targets, (Some("i-1".into()), Some("i-2".into())), "over {key}");
    }
}

// F10: where the running one has no room beside it, no order leads there.
#[test]
fn a_follower_goes_to_pods_that_wait_where_no_running_one_has_room_beside_it() {
    for key in [HOSTNAME, ZONE] {
        let plan = all_placed(&beside_running(key, 1_700));
        let targets = (target_of(&plan, "a-0"), target_of(&plan, "c-0"));
        assert_eq!(targets, (Some("i-1".into()), Some("i-1".into())), "over {key}");
    }
}
