//! Room that plans cannot know of at first: static pods, and kubelets that leave less to pods than
//! is computed. What one node shows is known from then on, and a pod that fits nowhere harms no
//! other.

use std::collections::BTreeSet;

use outrigger_simulation::{Ending, Expect, Kind};
use serde_json::{Value, json};

use crate::common::{self, Pool, Workload, World, minutes};

fn world(types: &[&str]) -> World {
    let pool = Pool::new("general").on_demand().instance_types(types);
    World::new("room", minutes(30)).disrupts().pool(pool)
}

/// Nodes that leave less to pods than is computed.
fn narrow(types: &[&str]) -> World {
    world(types).set("allocatablePercent", 95)
}

/// A workload whose pods ask for so much of the processor from a minute on.
fn workload(name: &str, minute: u64, replicas: u32, cpu: &str) -> Workload {
    Workload::new(name, replicas, cpu, "256Mi").at(minutes(minute)).labelled()
}

/// A static pod of each node, written by nodeup or by a hook.
fn static_pod(written_by: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m"}}});
    let template = json!({"spec": {"containers": [container]}});
    json!({"name": "kube-proxy", "writtenBy": written_by, "template": template})
}

/// How many machines were launched, by type.
fn launched(ending: &Ending) -> Vec<&str> {
    let instances = ending.claims.iter().filter_map(|claim| claim.status.instance.as_ref());
    let mut types: Vec<&str> = instances.map(|instance| instance.instance_type.as_str()).collect();
    types.sort_unstable();
    types
}

/// The minutes in which something was launched.
fn minutes_of_launches(ending: &Ending) -> BTreeSet<u64> {
    let launches = ending.summary.timeline.iter().filter(|happening| happening.kind == Kind::Launch);
    launches.map(|happening| happening.at.as_secs() / 60).collect()
}

#[test]
fn a_pod_that_no_node_fits_costs_one_launch_and_harms_no_other() {
    let large = workload("large", 0, 1, "1950m").expect(Expect::Waiting);
    let world = narrow(&["m6i.large"]).workload(large);
    let ending = world.workload(workload("other", 16, 1, "1500m")).play_as_expected();
    assert_eq!(launched(&ending), ["m6i.large"; 2], "{}", common::timeline(&ending));
    assert_eq!(ending.nodes.len(), 1, "the idle node ends: {}", common::timeline(&ending));
}

#[test]
fn a_pod_gets_the_type_that_fits_once_a_node_has_shown_what_it_leaves() {
    let world = narrow(&["m6i.large", "m6i.xlarge"]);
    let ending = world.workload(workload("large", 0, 1, "1950m")).play_as_expected();
    assert_eq!(launched(&ending), ["m6i.large", "m6i.xlarge"], "{}", common::timeline(&ending));
    assert_eq!(ending.nodes.len(), 1, "{}", common::timeline(&ending));
}

#[test]
fn nodes_are_planned_with_room_for_the_static_pods_that_kops_writes() {
    // Without kube-proxy four of them fill a machine of two processors.
    let world = world(&["m6i.large"]).listed("staticPods", static_pod("nodeup"));
    let ending = world.workload(workload("web", 0, 7, "500m")).play_as_expected();
    assert_eq!(launched(&ending), ["m6i.large"; 3], "{}", common::timeline(&ending));
    assert_eq!(minutes_of_launches(&ending).len(), 1, "{}", common::timeline(&ending));
}

#[test]
fn what_a_hook_writes_is_learned_from_the_first_node() {
    let world = world(&["m6i.large"]).listed("staticPods", static_pod("hook"));
    let world = world.workload(workload("web", 0, 4, "500m"));
    let ending = world.workload(workload("more", 10, 6, "500m")).play_as_expected();
    // The first plan leaves one pod out; the second knows better, and so does the third.
    assert_eq!(minutes_of_launches(&ending).len(), 3, "{}", common::timeline(&ending));
}
