//! NodePools that InstanceGroups of the state store ask for: they launch as any other, until
//! somebody writes one.

use std::collections::BTreeMap;

use outrigger_engine::ports::ManagedPools;
use outrigger_model::{Invalid, NodeClassRef, NodePool, Quantity, Resources, labels};
use outrigger_simulation::Ending;
use serde_json::json;

use crate::common::{self, Pool, Workload, World, minutes, seconds};

fn pool(name: &str) -> NodePool {
    NodePool::bare(name, NodeClassRef::instance_group("nodes"))
}

/// The world of a group with minSize 2 and maxSize 5, and of one that is refused.
fn play(written: Option<Pool>) -> Ending {
    let world = World::new("managed", minutes(10)).seed(4).sold(&["m6a"]);
    let web = Workload::new("web", 6, "400m", "1Gi").at(seconds(10)).host_port();
    let mut scenario = written.into_iter().fold(world, World::pool).workload(web).scenario();
    let (mut least, mut grown) = (pool("nodes-min"), pool("nodes"));
    least.spec.replicas = Some(2);
    grown.spec.limits = Some(Resources::new().with("nodes", Quantity::units(3)));
    let invalid = vec![Invalid::new("InstanceGroup/odd", "spec.warmPool", "{}", "maxSize 0")];
    scenario.managed_pools = ManagedPools { node_pools: vec![least, grown], invalid };
    let ending = common::run_scenario(&scenario, &[]);
    common::check_laws(&ending, "");
    ending
}

/// How many nodes each pool has.
fn nodes(ending: &Ending) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for node in &ending.nodes {
        *counts.entry(node.labels[labels::NODE_POOL].as_str()).or_default() += 1;
    }
    counts
}

#[test]
fn a_group_that_asks_for_pools_has_its_least_nodes_and_no_more_than_its_most() {
    let ending = play(None);
    assert_eq!(
        nodes(&ending),
        BTreeMap::from([("nodes-min", 2), ("nodes", 3)]),
        "{}",
        common::timeline(&ending)
    );
    assert_eq!(
        ending.pods.iter().filter(|pod| pod.node_name.is_some()).count(),
        5,
        "each has a node of its own"
    );
}

#[test]
fn a_pool_that_somebody_wrote_for_the_group_takes_the_place_of_its_own() {
    let ending = play(Some(Pool::new("mine").spec("limits", json!({"nodes": 1}))));
    assert_eq!(nodes(&ending), BTreeMap::from([("mine", 1)]), "{}", common::timeline(&ending));
}
