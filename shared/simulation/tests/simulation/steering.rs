//! What CreateFleet takes where its own price does not say: capacity reservations, and prices that
//! NodeOverlays change.

use std::collections::BTreeMap;

use outrigger_model::{CapacityType, Intent, labels};

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
  ec2NodeClasses: [{class}]
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

/// Plays it with these events and counts instances by their capacity type. Those that are reserved,
/// and no others, have the label of the reservation.
fn bought(events: &str) -> BTreeMap<CapacityType, usize> {
    let class = common::ec2_node_class("capacityReservationSelectorTerms: [{id: cr-1}]");
    let text = RESERVED.replace("{class}", &class).replace("{events}", events);
    let ending = common::run_scenario(&common::scenario(&text), &[]);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(&ending));
    let mut counts = BTreeMap::new();
    for claim in &ending.claims {
        let Some(instance) = &claim.status.instance else { continue };
        let is_reserved = instance.capacity_type == CapacityType::Reserved;
        let reservation = claim.spec.labels.get(labels::RESERVATION_ID).map(String::as_str);
        assert_eq!(reservation, is_reserved.then_some("cr-1"), "{claim:?}");
        *counts.entry(instance.capacity_type).or_default() += 1;
    }
    for node in &ending.nodes {
        let is_reserved = node.labels[labels::CAPACITY_TYPE] == "reserved";
        assert_eq!(node.labels.contains_key(labels::RESERVATION_ID), is_reserved, "{node:?}");
    }
    counts
}

#[test]
fn reservations_are_launched_into_while_they_have_room_and_then_on_demand_is_bought() {
    assert_eq!(bought(""), BTreeMap::from([(CapacityType::Reserved, 3), (CapacityType::OnDemand, 2)]));
}

#[test]
fn two_functions_at_once_take_no_more_than_a_reservation_has() {
    let bought = bought("{at: 5s, kind: Duplicate, function: provision, for: 5m}");
    assert_eq!(bought, BTreeMap::from([(CapacityType::Reserved, 3), (CapacityType::OnDemand, 2)]));
}

#[test]
fn a_reservation_that_lets_nobody_in_is_left_alone() {
    let bought = bought("{at: 0s, kind: InsufficientCapacity, for: 8m, capacityType: reserved}");
    assert_eq!(bought, BTreeMap::from([(CapacityType::OnDemand, 5)]));
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
    let offered = |intent: &&Intent| {
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
