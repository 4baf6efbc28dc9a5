//! Room that plans cannot know of at first: static pods, and kubelets that leave less to pods than
//! is computed. What one node shows is known from then on, and a pod that fits nowhere harms no
//! other.

use std::collections::BTreeSet;

use outrigger_simulation::{Ending, Kind};

use crate::common;

const WORLD: &str = "\
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: room}
spec:
  duration: 30m
  bootTime: 30s
  disrupt: true
  {extra}
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
              - {key: node.kubernetes.io/instance-type, operator: In, values: [{types}]}
  workloads: [{workloads}]
";

/// A workload whose pods ask for so much of the processor.
fn workload(name: &str, at: &str, replicas: u32, cpu: &str, expect: &str) -> String {
    format!(
        "{{name: {name}, at: {at}, replicas: {replicas}, expect: {expect}, template: {{metadata: {{labels: {{app: \
         {name}}}}}, spec: {{containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}, memory: 256Mi}}}}}}]}}}}}}"
    )
}

/// A static pod of each node, written by nodeup or by a hook.
fn static_pod(cpu: &str, written_by: &str) -> String {
    format!(
        "staticPods: [{{name: kube-proxy, writtenBy: {written_by}, template: {{spec: {{containers: [{{name: c, image: i, \
         resources: {{requests: {{cpu: {cpu}}}}}}}]}}}}}}]"
    )
}

/// Plays a world with these types and workloads; all laws must hold, and all pods end as expected.
fn played(extra: &str, types: &str, workloads: &[String]) -> Ending {
    let text = WORLD.replace("{extra}", extra).replace("{types}", types);
    let text = text.replace("{workloads}", &workloads.join(", "));
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(&ending));
    ending
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

const LESS: &str = "allocatablePercent: 95";

#[test]
fn a_pod_that_no_node_fits_costs_one_launch_and_harms_no_other() {
    let workloads =
        [workload("large", "0s", 1, "1950m", "Waiting"), workload("other", "16m", 1, "1500m", "Running")];
    let ending = played(LESS, "m6i.large", &workloads);
    assert_eq!(launched(&ending), ["m6i.large"; 2], "{}", common::timeline(&ending));
    assert_eq!(ending.nodes.len(), 1, "the idle node ends: {}", common::timeline(&ending));
}

#[test]
fn a_pod_gets_the_type_that_fits_once_a_node_has_shown_what_it_leaves() {
    let ending = played(LESS, "m6i.large, m6i.xlarge", &[workload("large", "0s", 1, "1950m", "Running")]);
    assert_eq!(launched(&ending), ["m6i.large", "m6i.xlarge"], "{}", common::timeline(&ending));
    assert_eq!(ending.nodes.len(), 1, "{}", common::timeline(&ending));
}

#[test]
fn nodes_are_planned_with_room_for_the_static_pods_that_kops_writes() {
    // Without kube-proxy four of them fill a machine of two processors.
    let ending =
        played(&static_pod("100m", "nodeup"), "m6i.large", &[workload("web", "0s", 7, "500m", "Running")]);
    assert_eq!(launched(&ending), ["m6i.large"; 3], "{}", common::timeline(&ending));
    assert_eq!(minutes_of_launches(&ending).len(), 1, "{}", common::timeline(&ending));
}

#[test]
fn what_a_hook_writes_is_learned_from_the_first_node() {
    let workloads =
        [workload("web", "0s", 4, "500m", "Running"), workload("more", "10m", 6, "500m", "Running")];
    let ending = played(&static_pod("100m", "hook"), "m6i.large", &workloads);
    // The first plan leaves one pod out; the second knows better, and so does the third.
    assert_eq!(minutes_of_launches(&ending).len(), 3, "{}", common::timeline(&ending));
}
