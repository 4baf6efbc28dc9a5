//! Nodes that no pod asks for: those of static pools and the room of buffers. They come up without
//! a single pending pod, and there are never more of them than asked, whatever goes wrong.

use std::sync::Arc;

use outrigger_engine::ports::Scope;
use outrigger_model::CapacityBuffer;
use outrigger_simulation::{Crash, Ending, Function, Kill, Listed, Scenario};

use crate::common::{self, Pool, Workload, World, drought, in_default, minutes, seconds};

fn world(web: u32) -> World {
    World::new("standing", minutes(8))
        .sold(&["m6a"])
        .pool(Pool::new("general").on_demand().families(&["m6a"]))
        .workload(Workload::new("web", web, "500m", "1Gi").at(minutes(5)))
}

fn with_replicas(replicas: u32, world: &World) -> Scenario {
    let mut scenario = world.scenario();
    scenario.configuration.node_pools[0].spec.replicas = Some(replicas);
    scenario
}

/// Room for so many pods like those of `web`.
fn with_buffer(count: u32, web: u32) -> Scenario {
    let mut scenario = world(web).scenario();
    let like = &scenario.workloads[0];
    scenario.configuration.buffers.push(CapacityBuffer {
        id: in_default("spare"),
        count,
        spec: Arc::clone(&like.spec),
        labels: Arc::clone(&like.labels),
    });
    scenario
}

/// The nodes that are ready for pods at the end; all that was bought is.
fn check(scenario: &Scenario, kills: &[Kill], nodes: usize) -> Ending {
    let ending = common::run_scenario(scenario, kills);
    let story = || common::timeline(&ending);
    common::check_expected(&ending, "");
    assert_eq!(ending.instances.len(), nodes, "{}", story());
    assert_eq!(ending.nodes.iter().filter(|node| node.is_initialized()).count(), nodes, "{}", story());
    ending
}

/// How often provision has read the whole cluster.
fn whole_reads(ending: &Ending) -> usize {
    let whole = |list: &&Listed| list.function == Function::Provision && list.scope == Scope::Everything;
    ending.lists.iter().filter(whole).count()
}

#[test]
fn a_static_pool_has_as_many_nodes_as_it_asks_for() {
    for replicas in [0, 1, 3] {
        let ending = check(&with_replicas(replicas, &world(0)), &[], replicas as usize);
        assert_eq!(ending.summary.fleets, u64::from(replicas > 0), "one fleet, never another");
        // Whether a static pool is short its claims say.
        assert_eq!(whole_reads(&ending), usize::from(replicas > 0), "{:?}", ending.lists);
    }
}

#[test]
fn a_static_pool_is_filled_once_capacity_is_there() {
    let dry = world(0).event(seconds(0), drought(None, minutes(2)));
    check(&with_replicas(3, &dry), &[], 3);
}

#[test]
fn a_static_pool_outlives_the_death_of_provision() {
    for calls in 1..30 {
        let kill = Kill { function: Function::Provision, run: 1, crash: Crash::AfterCalls(calls) };
        check(&with_replicas(3, &world(0)), &[kill], 3);
    }
}

#[test]
fn a_buffer_keeps_room_before_any_pod_waits() {
    check(&with_buffer(0, 0), &[], 0);
    let ending = check(&with_buffer(2, 0), &[], 1);
    assert_eq!(
        whole_reads(&ending),
        8,
        "whether its room is there is looked up each minute: {:?}",
        ending.lists
    );
}

#[test]
fn a_buffer_is_filled_again_when_pods_have_taken_its_room() {
    let ending = check(&with_buffer(3, 3), &[], 2);
    let first = ending.nodes.iter().map(|node| node.created_at).min();
    let on_first = |pod: &&outrigger_model::Pod| {
        let node = ending.nodes.iter().find(|node| Some(&node.name) == pod.node_name.as_ref());
        node.map(|node| node.created_at) == first
    };
    assert_eq!(ending.pods.iter().filter(on_first).count(), 3, "{}", common::timeline(&ending));
}
