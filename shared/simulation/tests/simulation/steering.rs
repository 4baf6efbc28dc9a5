//! What CreateFleet takes where its own price does not say: capacity reservations, and prices that NodeOverlays change.

use std::collections::BTreeMap;

use outrigger_model::{CapacityType, labels};
use outrigger_simulation::Ending;

use crate::common;

const RESERVED: &str = "\
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: reserved}
spec:
  seed: 3
  duration: 8m
  bootTime: 30s
  disrupt: false
  instanceTypes: [m6a]
  ec2NodeClasses:
    - apiVersion: karpenter.k8s.aws/v1
      kind: EC2NodeClass
      metadata: {name: own}
      spec:
        amiFamily: Custom
        amiSelectorTerms: [{id: ami-1}]
        subnetSelectorTerms: [{id: subnet-1}]
        securityGroupSelectorTerms: [{id: sg-1}]
        instanceProfile: nodes
        capacityReservationSelectorTerms: [{id: cr-1}]
  capacityReservations: [{id: cr-1, instanceType: m6a.xlarge, zone: us-east-1b, total: 3, available: 3}]
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: default}
      spec:
        template:
          spec:
            nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: own}
            requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [reserved, on-demand]}]
  workloads:
    - {name: first, at: 10s, replicas: 2,
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '3', memory: 4Gi}},
        ports: [{containerPort: 80, hostPort: 80}]}]}}}
    - {name: second, at: 90s, replicas: 3,
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: '3', memory: 4Gi}},
        ports: [{containerPort: 80, hostPort: 80}]}]}}}
  events: [{events}]
";

/// How many instances of each capacity type and reservation there are.
fn bought(ending: &Ending) -> BTreeMap<(CapacityType, Option<&str>), usize> {
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(ending));
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(ending));
    let mut counts = BTreeMap::new();
    for claim in &ending.claims {
        let Some(instance) = &claim.status.instance else { continue };
        let reservation = claim.spec.labels.get(labels::RESERVATION_ID).map(String::as_str);
        *counts.entry((instance.capacity_type, reservation)).or_default() += 1;
    }
    for node in &ending.nodes {
        let reserved = node.labels[labels::CAPACITY_TYPE] == "reserved";
        assert_eq!(node.labels.contains_key(labels::RESERVATION_ID), reserved, "{node:?}");
    }
    counts
}

#[test]
fn reservations_are_launched_into_while_they_have_room_and_then_on_demand_is_bought() {
    let ending = common::run_scenario(&common::scenario(&RESERVED.replace("{events}", "")), &[]);
    let expected = [((CapacityType::Reserved, Some("cr-1")), 3), ((CapacityType::OnDemand, None), 2)];
    assert_eq!(bought(&ending), BTreeMap::from(expected), "{}", common::timeline(&ending));
}

#[test]
fn two_functions_at_once_take_no_more_than_a_reservation_has() {
    let events = "{at: 5s, kind: Duplicate, function: provision, for: 5m}";
    let ending = common::run_scenario(&common::scenario(&RESERVED.replace("{events}", events)), &[]);
    let expected = [((CapacityType::Reserved, Some("cr-1")), 3), ((CapacityType::OnDemand, None), 2)];
    assert_eq!(bought(&ending), BTreeMap::from(expected), "{}", common::timeline(&ending));
}

#[test]
fn a_reservation_that_lets_nobody_in_is_left_alone() {
    let events = "{at: 0s, kind: InsufficientCapacity, for: 8m, capacityType: reserved}";
    let ending = common::run_scenario(&common::scenario(&RESERVED.replace("{events}", events)), &[]);
    let expected = [((CapacityType::OnDemand, None), 5)];
    assert_eq!(bought(&ending), BTreeMap::from(expected), "{}", common::timeline(&ending));
}

const OVERLAID: &str = "\
apiVersion: outrigger.dev/v1alpha1
kind: Scenario
metadata: {name: overlaid}
spec:
  duration: 4m
  bootTime: 30s
  disrupt: false
  instanceTypes: [m6a, m6g]
  instanceGroups: [{name: nodes, images: [amd64, arm64]}]
  nodeOverlays: [{overlay}]
  nodePools:
    - apiVersion: karpenter.sh/v1
      kind: NodePool
      metadata: {name: default}
      spec:
        template:
          spec:
            nodeClassRef: {group: kops.k8s.io, kind: InstanceGroup, name: nodes}
            requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}]
  workloads:
    - {name: web, at: 10s, replicas: 4,
       template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1500m, memory: 4Gi}}}]}}}
";

/// The families of the instances, and whether EC2 was told to follow the plan's order.
fn families(overlay: &str) -> (BTreeMap<String, usize>, bool) {
    let ending = common::run_scenario(&common::scenario(&OVERLAID.replace("{overlay}", overlay)), &[]);
    let mut families = BTreeMap::new();
    for instance in ending.claims.iter().filter_map(|claim| claim.status.instance.as_ref()) {
        let family = instance.instance_type.split('.').next().unwrap_or_default().to_owned();
        *families.entry(family).or_default() += 1;
    }
    let offered = |intent: &&outrigger_model::Intent| {
        let types = intent.request.overrides.iter().map(|wanted| &wanted.instance_type);
        ["m6a", "m6g"].iter().all(|family| types.clone().any(|name| name.starts_with(family)))
    };
    assert!(ending.intents.iter().all(|intent| offered(&intent)), "EC2 has the choice");
    (families, ending.intents.iter().all(|intent| intent.request.prioritized))
}

#[test]
fn ec2_takes_what_overlays_make_the_cheapest() {
    let (plain, prioritized) = families("");
    assert_eq!((plain.keys().map(String::as_str).collect::<Vec<_>>(), prioritized), (vec!["m6g"], false));
    let overlay = "{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {name: savings-plan}, \
                   spec: {priceAdjustment: '-15%', \
                   requirements: [{key: karpenter.k8s.aws/instance-family, operator: In, values: [m6a]}]}}";
    let (steered, prioritized) = families(overlay);
    assert_eq!((steered.keys().map(String::as_str).collect::<Vec<_>>(), prioritized), (vec!["m6a"], true));
}
