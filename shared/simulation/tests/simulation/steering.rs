//! What CreateFleet takes where its own price does not say: capacity reservations, and prices that
//! NodeOverlays change.

use std::collections::BTreeMap;

use outrigger_model::{CapacityType, Intent, labels};
use outrigger_simulation::EventKind::Duplicate;
use outrigger_simulation::{Event, Function};
use serde_json::{Value, json};

use crate::common::{Pool, Workload, World, at, drought, ec2_node_class, minutes, seconds};

/// Plays a world with a reservation and this event, and counts instances by their capacity type.
/// Those that are reserved, and no others, have the label of the reservation.
fn bought(event: Option<Event>) -> BTreeMap<CapacityType, usize> {
    let mut class = ec2_node_class();
    class["spec"]["capacityReservationSelectorTerms"] = json!([{"id": "cr-1"}]);
    let reservation = json!({
        "id": "cr-1", "instanceType": "m6a.xlarge", "zone": "us-east-1b", "total": 3, "available": 3,
    });
    let pool = Pool::new("default").of_ec2_node_class("own");
    let workload = |name, replicas| Workload::new(name, replicas, "3", "4Gi").host_port();
    let ending = World::new("reserved", minutes(8))
        .seed(3)
        .sold(&["m6a"])
        .ec2_node_class(class)
        .listed("capacityReservations", reservation)
        .pool(pool.capacity_types(&["reserved", "on-demand"]))
        .workload(workload("first", 2).at(seconds(10)))
        .workload(workload("second", 3).at(seconds(90)))
        .events(event)
        .play_as_expected();
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
    assert_eq!(bought(None), BTreeMap::from([(CapacityType::Reserved, 3), (CapacityType::OnDemand, 2)]));
}

#[test]
fn two_functions_at_once_take_no_more_than_a_reservation_has() {
    let twice = Duplicate { function: Function::Provision, length: minutes(5) };
    let bought = bought(Some(at(seconds(5), twice)));
    assert_eq!(bought, BTreeMap::from([(CapacityType::Reserved, 3), (CapacityType::OnDemand, 2)]));
}

#[test]
fn a_reservation_that_lets_nobody_in_is_left_alone() {
    let drought = drought(Some(CapacityType::Reserved), minutes(8));
    let bought = bought(Some(at(seconds(0), drought)));
    assert_eq!(bought, BTreeMap::from([(CapacityType::OnDemand, 5)]));
}

/// The families of the instances where an overlay says what some cost, and whether EC2 was told to
/// follow the plan's order.
fn families(overlay: Option<Value>) -> (BTreeMap<String, usize>, bool) {
    let world = World::new("overlaid", minutes(4)).sold(&["m6a", "m6g"]).both_architectures("nodes");
    let web = Workload::new("web", 4, "1500m", "4Gi").at(seconds(10));
    let world = world.pool(Pool::new("default").on_demand()).workload(web);
    let overlays = overlay.into_iter();
    let ending = overlays.fold(world, |world, overlay| world.listed("nodeOverlays", overlay)).play();
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
    let (plain, prioritized) = families(None);
    assert_eq!((plain.keys().map(String::as_str).collect::<Vec<_>>(), prioritized), (vec!["m6g"], false));
    let requirement = json!({"key": labels::INSTANCE_FAMILY, "operator": "In", "values": ["m6a"]});
    let overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "savings-plan"},
        "spec": {"priceAdjustment": "-15%", "requirements": [requirement]},
    });
    let (steered, prioritized) = families(Some(overlay));
    assert_eq!((steered.keys().map(String::as_str).collect::<Vec<_>>(), prioritized), (vec!["m6a"], true));
}
