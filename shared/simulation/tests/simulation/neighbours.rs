//! Pods that must be near their like: their node goes, and a budget lets them leave one by one
//! only.

use std::collections::BTreeSet;

use outrigger_model::{ClaimState, labels};

use crate::common;

/// Three pods that must be in one zone, of which two must run. Their node is to go while its zone
/// has no capacity.
const SCENARIO: &str = r"
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: neighbours}
spec:
  seed: 3
  duration: 25m
  bootTime: 30s
  disrupt: true
  zones: [us-east-1a, us-east-1b]
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: general, annotations: {outrigger.dev/patience: '0', outrigger.dev/drift-deadline: '0'}}
      spec:
        disruption: {budgets: [{nodes: 100%}]}
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements:
              - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
              - {key: node.kubernetes.io/instance-type, operator: In, values: [m6a.large]}
  workloads:
    - name: web
      at: 2s
      replicas: 3
      template:
        metadata: {labels: {app: web}}
        spec:
          affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: web}}}]}}
          containers: [{name: c, image: i, resources: {requests: {cpu: 400m, memory: 1Gi}}}]
  podDisruptionBudgets: [{name: web, matchLabels: {app: web}, maxUnavailable: 1}]
  events:
    - {at: 5m, kind: InsufficientCapacity, zones: [us-east-1a], for: 5m}
    - {at: 6m, {event}}
";

fn check(event: &str) {
    let ending = common::run_scenario(&common::scenario(&SCENARIO.replace("{event}", event)), &[]);
    let story = common::timeline(&ending);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{story}");
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{story}");
    let launched = ending.claims.iter().filter(|claim| claim.status.launched_at.is_some());
    let states: Vec<ClaimState> = launched.map(|claim| claim.status.state).collect();
    assert_eq!(states.len(), 2, "no node is bought in vain: {story}");
    assert!(states.contains(&ClaimState::Gone), "its drain ends: {story}");
    let zones: BTreeSet<_> = ending.nodes.iter().map(|node| node.labels.get(labels::ZONE)).collect();
    assert_eq!(zones, BTreeSet::from([Some(&"us-east-1a".to_owned())]), "{story}");
}

#[test]
fn pods_that_leave_one_by_one_stay_in_the_zone_of_those_that_are_left() {
    check("kind: DeleteNodes, count: 1");
}

#[test]
fn what_replaces_a_drifted_node_of_such_pods_is_in_its_zone() {
    check("kind: UpdateImages");
}
