//! Where pods lie among one another, and the capacity that is more than a pool and its types: one
//! small cluster after another, each with the guarantee that it proves.

use std::sync::Arc;

use outrigger_model::resources::CPU;
use outrigger_model::{
    CapacityBuffer, CapacityType, ClaimState, NodeClaim, NodeOverlay, Offering, PodRef, Price, PriceOverlay,
    Quantity, Requirement, Requirements, Reservation, Resources, Snapshot, VolumeClaim, fixtures, labels,
};
use serde_json::{Value, json};

use crate::fixtures::{
    ZONES, bound, check_snapshot as check, node, planned, pods, pool, requiring, spec, spec_with, with_pods,
};

fn term(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "selector": {"matchLabels": {"app": app}}, "namespaces": ["default"]})
}

fn spread(key: &str, app: &str, anyway: bool) -> Value {
    json!({"topologySpread": [{"topologyKey": key, "maxSkew": 1, "scheduleAnyway": anyway,
        "selector": {"matchLabels": {"app": app}}, "honorAffinity": true, "honorTaints": false}]})
}

#[test]
fn spread_over_zones() {
    let mut snapshot = with_pods(&[("web", 7, spec_with(500, 512, spread(labels::ZONE, "web", false)))]);
    snapshot.nodes.push(node("i-1", "m6a.large"));
    snapshot.pods.extend(bound("i-1", pods("old", 2, spec(100, 128))));
    check(
        "spread_zones",
        "Seven pods over three zones are 3, 2 and 2, the room of a node used first.",
        &snapshot,
    );
}

#[test]
fn spread_over_hosts_as_a_wish() {
    let wish = spec_with(500, 512, spread(labels::HOSTNAME, "web", true));
    check(
        "spread_wish",
        "A spread that is only a wish counts as a rule while a node can be had, as in Karpenter.",
        &with_pods(&[("web", 2, wish)]),
    );
}

#[test]
fn anti_affinity() {
    let alone = spec_with(500, 512, json!({"podAntiAffinity": [term(labels::HOSTNAME, "alone")]}));
    let shy = spec_with(500, 512, json!({"podAntiAffinity": [term(labels::ZONE, "web")]}));
    check(
        "anti_affinity",
        "No two of a kind on a node; and none in a zone with those that it must be away from, whichever comes first.",
        &with_pods(&[("alone", 3, alone), ("web", 4, spec(500, 512)), ("shy", 1, shy)]),
    );
}

#[test]
fn anti_affinity_of_running_pods() {
    let shy = spec_with(100, 128, json!({"podAntiAffinity": [term(labels::HOSTNAME, "web")]}));
    let mut snapshot = with_pods(&[("web", 1, spec(100, 128))]);
    snapshot.nodes.push(node("i-shy", "m6a.large"));
    snapshot.pods.extend(bound("i-shy", pods("shy", 1, shy)));
    check("anti_affinity_running", "What a running pod wants kept away is kept away.", &snapshot);
}

#[test]
fn affinity() {
    let family = spec_with(500, 512, json!({"podAffinity": [term(labels::HOSTNAME, "family")]}));
    let friend = spec_with(500, 512, json!({"podAffinity": [term(labels::ZONE, "cache")]}));
    let lost = spec_with(500, 512, json!({"podAffinity": [term(labels::ZONE, "nobody")]}));
    check(
        "affinity",
        "Pods that must be together are on one node; those near others in their zone; those near nobody nowhere.",
        &with_pods(&[
            ("family", 4, family),
            ("cache", 1, spec(500, 512)),
            ("friend", 2, friend),
            ("lost", 1, lost),
        ]),
    );
}

#[test]
fn wishes_that_contradict_are_given_up() {
    let preferred = json!({"nodeSelector": {labels::ARCH: "amd64"}, "preferredNodeAffinity": [
        {"weight": 9, "term": {"matchExpressions": [{"key": labels::ARCH, "operator": "In", "values": ["arm64"]}]}},
        {"weight": 1, "term": {"matchExpressions": [
            {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m6a.large"]}]}}]});
    check(
        "wishes",
        "The heaviest preference that can be met is met.",
        &with_pods(&[("web", 1, spec_with(100, 128, preferred))]),
    );
}

#[test]
fn a_term_that_was_given_up_for_a_wish_is_still_enough() {
    let term = |key: &str, operator: &str, value: &str| {
        let expression = json!({"key": key, "operator": operator, "values": [value]});
        json!({"matchExpressions": [expression]})
    };
    let terms = json!({
        "nodeAffinity": [term(labels::ARCH, "In", "arm64"), term("team", "In", "blue")],
        "preferredNodeAffinity": [{"weight": 1, "term": term("team", "In", "red")}],
    });
    check(
        "given_up_for_a_wish",
        "Of two required terms only the first can be met, and only without the preference.",
        &with_pods(&[("web", 1, spec_with(100, 128, terms))]),
    );
}

#[test]
fn volumes() {
    let mut snapshot = with_pods(&[("data", 2, spec(500, 512)), ("broken", 1, spec(500, 512))]);
    let claim = |name: &str, zone: Option<&str>, problem: Option<&str>| VolumeClaim {
        id: PodRef { namespace: "default".into(), name: name.into() },
        driver: "ebs.csi.aws.com".into(),
        handle: name.into(),
        alternatives: zone
            .into_iter()
            .map(|z| Requirements::new().with(labels::ZONE, Requirement::exactly(z)))
            .collect(),
        needs_scheduler: false,
        for_one_pod: false,
        on_host: false,
        selected_node: None,
        problem: problem.map(str::to_owned),
    };
    snapshot.volume_claims = vec![
        claim("near", Some(ZONES[1]), None),
        claim("far", Some(ZONES[2]), None),
        claim("gone", None, Some("PersistentVolumeClaim default/gone: it is being deleted")),
    ];
    for (pod, name) in snapshot.pods.iter_mut().zip(["near", "far", "gone"]) {
        pod.volume_claims.push(name.into());
    }
    check("volumes", "Pods go where their volumes are; a claim that cannot be used is named.", &snapshot);
}

#[test]
fn reservations_are_used_first_and_no_more_than_there_are() {
    let mut snapshot = with_pods(&[("web", 3, spec(3_000, 512))]);
    let types = Arc::make_mut(&mut snapshot.classes[0].instance_types);
    let reserved = types.iter_mut().find(|t| t.name == "m6a.xlarge").unwrap();
    reserved.offerings.push(Offering {
        zone: ZONES[0].into(),
        capacity_type: CapacityType::Reserved,
        price: Price::ZERO,
        available: true,
        reservation: Some(Reservation { id: "cr-1".into(), count: 2, total: None }),
        interruption: None,
    });
    check("reserved", "Two of three nodes draw on a reservation with room for two.", &snapshot);

    // What our claims hold is taken, launches on their way among it; EC2's count may not know of
    // them yet.
    let reserved = |snapshot: &Snapshot| {
        let (plan, _) = planned(snapshot);
        plan.nodes.iter().filter(|node| node.capacity_type == CapacityType::Reserved).count()
    };
    let types = Arc::make_mut(&mut snapshot.classes[0].instance_types);
    let offering = types
        .iter_mut()
        .flat_map(|kind| &mut kind.offerings)
        .find(|offering| offering.reservation.is_some())
        .unwrap();
    offering.reservation = Some(Reservation { id: "cr-1".into(), count: 2, total: Some(4) });
    let mut claim = fixtures::claim();
    claim.spec.labels.insert(labels::RESERVATION_ID.into(), "cr-1".into());
    for (held, expected) in [(0, 2), (2, 2), (3, 1), (4, 0)] {
        snapshot.claims =
            (0..held).map(|number| NodeClaim { name: format!("held-{number}"), ..claim.clone() }).collect();
        assert_eq!(reserved(&snapshot), expected, "of four {held} are held, and EC2 says two are left");
    }
    claim.status.state = ClaimState::Gone;
    snapshot.claims = vec![claim; 4];
    assert_eq!(reserved(&snapshot), 2);
}

#[test]
fn static_pools_have_their_number_of_nodes() {
    let mut snapshot = with_pods(&[]);
    snapshot.node_pools = vec![pool("fixed", json!({"replicas": 2}))];
    snapshot.pods = pods("web", 3, spec(7_000, 128));
    check(
        "static",
        "A static pool gets its nodes for pods to use, and pods get no further ones of it.",
        &snapshot,
    );
}

#[test]
fn overlays_change_prices_and_machines() {
    let mut snapshot = with_pods(&[("device", 1, {
        let mut device = spec(100, 128);
        device.requests.set("example.com/device", Quantity::units(1));
        device
    })]);
    let of_type = |name: &str| Requirements::new().with(labels::INSTANCE_TYPE, Requirement::exactly(name));
    snapshot.overlays = vec![NodeOverlay {
        name: "devices".into(),
        weight: 5,
        requirements: of_type("m6a.xlarge"),
        price: Some(PriceOverlay::Scale(-500_000)),
        capacity: Resources::new().with("example.com/device", Quantity::units(2)),
    }];
    check("overlays", "A type with an overlay's device serves, at half its price.", &snapshot);
}

#[test]
fn buffers_keep_room() {
    let mut snapshot = with_pods(&[("web", 1, spec(500, 512))]);
    snapshot.buffers = vec![CapacityBuffer {
        id: PodRef { namespace: "default".into(), name: "spare".into() },
        count: 3,
        spec: Arc::new(spec(500, 512)),
        labels: Arc::default(),
    }];
    check("buffers", "There is room for three more pods than there are.", &snapshot);
}

#[test]
fn groups_are_placed_whole_or_not_at_all() {
    let mut snapshot = with_pods(&[("job", 3, spec(1_500, 512)), ("web", 1, spec(500, 512))]);
    for pod in snapshot.pods.iter_mut().filter(|pod| pod.id.name.starts_with("job")) {
        pod.group = Some("job".into());
    }
    snapshot.node_pools[0].spec.limits = Some(Resources::new().with(CPU, Quantity::units(4)));
    check("groups", "Two of three would fit the limit, so none is placed; others are.", &snapshot);
}

#[test]
fn a_group_that_cannot_be_whole_costs_no_other_its_place() {
    let nowhere = spec_with(900, 1_024, json!({"nodeSelector": {"nowhere": "at-all"}}));
    let mut snapshot = with_pods(&[("ranks", 6, spec(900, 1_024)), ("free", 4, spec(500, 1_024))]);
    snapshot.pods.extend(pods("broken", 3, spec(900, 1_024)));
    snapshot.pods.extend(pods("broken-too", 1, nowhere));
    for pod in &mut snapshot.pods {
        let group = pod.id.name.split('-').next().filter(|name| *name != "free");
        pod.group = group.map(Box::from);
    }
    check("two_groups", "All pods but those of the broken group have a place.", &snapshot);
}

#[test]
fn priorities_count_where_limits_bind() {
    let urgent = spec_with(100, 128, json!({"priority": 1_000}));
    let mut snapshot = with_pods(&[("batch", 1, spec(1_800, 512)), ("urgent", 1, urgent)]);
    snapshot.node_pools = vec![pool("default", requiring(&[(labels::INSTANCE_TYPE, "In", &["c6a.large"])]))];
    snapshot.node_pools[0].spec.limits = Some(Resources::new().with("nodes", Quantity::units(1)));
    snapshot.pods.extend(pods("batch-too", 1, spec(1_800, 512)));
    check("priorities", "The urgent pod has its place although a larger one would come first.", &snapshot);
}
