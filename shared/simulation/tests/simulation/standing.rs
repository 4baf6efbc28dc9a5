//! Nodes that no pod asks for: those of static pools and the room of buffers. They come up without
//! a single pending pod, and there are never more of them than asked, whatever goes wrong.

use std::sync::Arc;

use outrigger_engine::ports::Scope;
use outrigger_model::{CapacityBuffer, PodRef};
use outrigger_simulation::{Crash, Ending, Function, Kill, Listed, Scenario};

use crate::common;

const HEAD: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: standing}
spec:
  duration: 8m
  bootTime: 30s
  instanceTypes: [m6a]
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m6a]}
  workloads:
    - {name: web, at: 5m, replicas: {replicas}, template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 500m, memory: 1Gi}}}]}}}
";

fn scenario(web: u32, extra: &str) -> Scenario {
    let text = HEAD.replace("{replicas}", &web.to_string()) + extra;
    common::scenario(&text)
}

fn with_replicas(replicas: u32, extra: &str) -> Scenario {
    let mut scenario = scenario(0, extra);
    scenario.configuration.node_pools[0].spec.replicas = Some(replicas);
    scenario
}

/// Room for so many pods like those of `web`.
fn with_buffer(count: u32, web: u32) -> Scenario {
    let mut scenario = scenario(web, "");
    let like = &scenario.workloads[0];
    scenario.configuration.buffers.push(CapacityBuffer {
        id: PodRef { namespace: "default".into(), name: "spare".into() },
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
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
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
        let ending = check(&with_replicas(replicas, ""), &[], replicas as usize);
        assert_eq!(ending.summary.fleets, u64::from(replicas > 0), "one fleet, never another");
        // Whether a static pool is short its claims say.
        assert_eq!(whole_reads(&ending), usize::from(replicas > 0), "{:?}", ending.lists);
    }
}

#[test]
fn a_static_pool_is_filled_once_capacity_is_there() {
    check(&with_replicas(3, "  events: [{at: 0s, kind: InsufficientCapacity, for: 2m}]"), &[], 3);
}

#[test]
fn a_static_pool_outlives_the_death_of_provision() {
    for calls in 1..30 {
        let kill = Kill { function: Function::Provision, run: 1, crash: Crash::AfterCalls(calls) };
        check(&with_replicas(3, ""), &[kill], 3);
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
