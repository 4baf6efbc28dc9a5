//! More pods than a NodePool may serve: its limits hold, and who asks elsewhere is served.

use outrigger_model::{ClaimState, labels};
use outrigger_simulation::Ending;
use outrigger_simulation::EventKind::DeletePods;
use serde_json::{Value, json};

use crate::common::{self, Pool, Workload, World, at, minutes, seconds};

/// Two pools, of which each pod asks for one; one of them has limits.
fn world(length: u64, limits: Value) -> World {
    let pool = |name| Pool::new(name).families(&["m6a"]);
    let world = World::new("floods", minutes(length)).seed(4);
    world.pool(pool("tenant").spec("limits", limits)).pool(pool("other"))
}

/// Pods of a pool.
fn workload(name: &str, replicas: u32, pool: &str) -> Workload {
    Workload::new(name, replicas, "500m", "1Gi").select(labels::NODE_POOL, pool)
}

fn running(ending: &Ending, workload: &str) -> usize {
    let is_its = |pod: &&outrigger_model::Pod| pod.id.name.starts_with(workload) && pod.node_name.is_some();
    ending.pods.iter().filter(is_its).count()
}

/// Eight pods need a node each, and the pool may have three. Whoever makes the pods deletes them
/// and makes them again and again, long before a machine has joined.
#[test]
fn limits_count_what_is_launched_and_has_not_joined() {
    let again = (1..=7).map(|step| at(seconds(30 * step), DeletePods(8)));
    let world = world(9, json!({"nodes": 3})).boot_time(240).events(again);
    let ending = world.workload(workload("again", 8, "tenant").host_port()).play_lawfully();
    let story = || common::timeline(&ending);
    assert_eq!((ending.claims.len(), ending.instances.len()), (3, 3), "{}", story());
    assert_eq!(running(&ending, "again"), 3, "{}", story());
}

/// One tenant asks for far more than its pool may have. The pool stops at its limits, and others
/// are served at once.
#[test]
fn a_tenant_that_floods_the_cluster_gets_what_its_pool_may_have() {
    let flood = workload("flood", 1_500, "tenant").at(minutes(1));
    let others = workload("web", 6, "other").at(seconds(90));
    let world = world(5, json!({"cpu": 16, "nodes": 4}));
    let ending = world.workload(flood).workload(others).play_lawfully();
    let story = || common::timeline(&ending);
    let of_tenant = ending.claims.iter().filter(|claim| claim.spec.node_pool == "tenant");
    let launched = of_tenant.filter(|claim| claim.status.state == ClaimState::Initialized).count();
    assert!((1..=4).contains(&launched), "{launched} nodes: {}", story());
    assert!((16..=32).contains(&running(&ending, "flood")), "{}: {}", running(&ending, "flood"), story());
    assert_eq!(running(&ending, "web"), 6, "{}", story());
}
