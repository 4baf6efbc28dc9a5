//! NodePools that InstanceGroups of the state store ask for: they launch as any other, until
//! somebody writes one.

use std::collections::BTreeMap;

use outrigger_engine::ports::ManagedPools;
use outrigger_model::{Invalid, NodeClassRef, NodePool, Quantity, Resources, labels};
use outrigger_simulation::Ending;

use crate::common;

const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: managed}
spec:
  seed: 4
  duration: 10m
  bootTime: 30s
  instanceTypes: [m6a]
  nodePools: [{written}]
  workloads:
    - {name: web, at: 10s, replicas: 6, template: {spec: {containers: [{name: c, image: i, ports: [{containerPort: 80, hostPort: 80}], resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}
";

const WRITTEN: &str = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: mine}, spec: {limits: {nodes: 1}, \
     template: {spec: {nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}, requirements: []}}}}";

fn pool(name: &str) -> NodePool {
    NodePool::bare(name, NodeClassRef::instance_group("nodes"))
}

/// The world of a group with minSize 2 and maxSize 5, and of one that is refused.
fn play(written: &str) -> Ending {
    let mut scenario = common::scenario(&SCENARIO.replace("{written}", written));
    let (mut least, mut grown) = (pool("nodes-min"), pool("nodes"));
    least.spec.replicas = Some(2);
    grown.spec.limits = Some(Resources::new().with("nodes", Quantity::units(3)));
    let invalid = vec![Invalid::new("InstanceGroup/odd", "spec.warmPool", "{}", "maxSize 0")];
    scenario.managed_pools = ManagedPools { node_pools: vec![least, grown], invalid };
    let ending = common::run_scenario(&scenario, &[]);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
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
    let ending = play("");
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
    let ending = play(WRITTEN);
    assert_eq!(nodes(&ending), BTreeMap::from([("mine", 1)]), "{}", common::timeline(&ending));
}
