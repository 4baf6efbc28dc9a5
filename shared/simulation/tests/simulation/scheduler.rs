//! The simulated scheduler: pods that want to be near others or away from them, and pods that make
//! others leave.

use std::collections::BTreeMap;

use outrigger_model::Pod;
use outrigger_simulation::Ending;

use crate::common;

/// One pool of small nodes, with `{limits}` and `{workloads}`.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: scheduler}
spec:
  seed: 3
  duration: 12m
  bootTime: 30s
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general}
      spec:
        {limits}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  workloads:
{workloads}
";

fn run(limits: &str, workloads: &[&str]) -> Ending {
    let workloads: Vec<String> = workloads.iter().map(|workload| format!("    - {workload}")).collect();
    let text = SCENARIO.replace("{limits}", limits).replace("{workloads}", &workloads.join("\n"));
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    ending
}

/// The pods of a workload that are on a node, by that.
fn by_node<'a>(ending: &'a Ending, workload: &str) -> BTreeMap<&'a str, Vec<&'a Pod>> {
    let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    let own = |pod: &&Pod| pod.id.name.starts_with(workload);
    for pod in ending.pods.iter().filter(own) {
        if let Some(node) = pod.node_name.as_deref() {
            by_node.entry(node).or_default().push(pod);
        }
    }
    by_node
}

#[test]
fn pods_are_near_whom_they_ask_for_and_away_from_whom_they_shun() {
    let ending = run(
        "limits: {cpu: '100'}",
        &[
            "{name: apart, at: 2s, replicas: 3, template: {metadata: {labels: {app: apart}}, spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: apart}}}]}}, containers: [{name: c, image: i, resources: {requests: {cpu: 300m, memory: 1Gi}}}]}}}",
            "{name: near, at: 3m, replicas: 3, template: {metadata: {labels: {app: near}}, spec: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: apart}}}]}}, containers: [{name: c, image: i, resources: {requests: {cpu: 300m, memory: 1Gi}}}]}}}",
            // It would find room beside `apart`, which keeps it away; it says nothing of that
            // itself.
            "{name: shunned, at: 6m, replicas: 1, template: {metadata: {labels: {app: apart, kind: other}}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m, memory: 64Mi}}}]}}}",
        ],
    );
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{story}");
    let (apart, near, shunned) =
        (by_node(&ending, "apart"), by_node(&ending, "near"), by_node(&ending, "shunned"));
    assert_eq!(apart.values().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1], "{story}");
    assert_eq!(near.values().map(Vec::len).sum::<usize>(), 3, "{story}");
    assert!(near.keys().all(|node| apart.contains_key(node)), "{story}");
    assert!(shunned.len() == 1 && shunned.keys().all(|node| !apart.contains_key(node)), "{story}");
}

#[test]
fn a_pod_that_fits_nowhere_makes_lower_ones_leave() {
    let ending = run(
        "limits: {nodes: '1'}",
        &[
            "{name: low, at: 2s, replicas: 4, expect: Waiting, template: {spec: {terminationGracePeriodSeconds: 20, containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]}}}",
            "{name: high, at: 5m, replicas: 1, template: {spec: {priority: 1000, containers: [{name: c, image: i, resources: {requests: {cpu: 700m, memory: 1Gi}}}]}}}",
        ],
    );
    let story = common::timeline(&ending);
    let running = |workload: &str| by_node(&ending, workload).values().map(Vec::len).sum::<usize>();
    assert_eq!((running("high"), running("low"), ending.nodes.len()), (1, 3, 1), "{story}");
    assert_eq!(story.matches("preempted").count(), 1, "{story}");
}
