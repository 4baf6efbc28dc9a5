//! Pods with several volumes: one node must do for all of them.

use outrigger_model::{Snapshot, VolumeClaim, labels};
use serde_json::{Value, json};

use super::{all_placed, refusals, zones_of};
use crate::fixtures::{ZONES, node, planned, pool, requiring, spec, with_pods};

/// An alternative of a volume's node affinity.
fn node_term(key: &str, operator: &str, value: &str) -> Value {
    json!([{"key": key, "operator": operator, "values": [value]}])
}

/// A cluster with one pod that mounts a volume for each of these lists of alternatives: `data-0`,
/// `data-1` and so on.
fn mounting(volumes: &[Vec<Value>]) -> Snapshot {
    let mut snapshot = with_pods(&[("db", 1, spec(500, 512))]);
    for (number, alternatives) in volumes.iter().enumerate() {
        let name = format!("data-{number}");
        let claim = json!({"id": format!("default/{name}"), "driver": "ebs.csi.aws.com",
            "handle": format!("vol-{number}"), "alternatives": alternatives});
        snapshot.volume_claims.push(serde_json::from_value::<VolumeClaim>(claim).unwrap());
        snapshot.pods[0].volume_claims.push(name);
    }
    snapshot
}

/// Two volumes that no node has both of.
fn apart() -> Vec<Snapshot> {
    let zone = |operator, value| node_term(labels::ZONE, operator, value);
    [
        [zone("In", ZONES[0]), zone("In", ZONES[1])],
        [zone("In", ZONES[0]), zone("NotIn", ZONES[0])],
        [node_term("topology.ebs.csi.aws.com/zone", "In", ZONES[0]), zone("In", ZONES[1])],
        [node_term("rack", "In", "r1"), node_term("rack", "In", "r2")],
        [node_term("rack", "Exists", "r1"), node_term("rack", "DoesNotExist", "r2")],
    ]
    .map(|terms| mounting(&terms.map(|term| vec![term])))
    .into()
}

/// The same for a pool whose nodes may be in two racks.
fn apart_in_racks() -> Vec<Snapshot> {
    let mut snapshots = apart();
    let racks = requiring(&[("rack", "In", &["r1", "r2"])]);
    for snapshot in &mut snapshots {
        snapshot.node_pools = vec![pool("default", racks.clone())];
    }
    snapshots
}

// F4
#[test]
fn no_node_is_bought_for_volumes_that_exclude_one_another() {
    for snapshot in apart().into_iter().chain(apart_in_racks()) {
        let (plan, report) = planned(&snapshot);
        let claims = &snapshot.volume_claims;
        assert_eq!((plan.nodes.len(), plan.existing.len()), (0, 0), "{claims:?}");
        assert_eq!(refusals(&report).len(), 1, "{claims:?}");
    }
}

// F4
#[test]
fn the_volumes_that_exclude_one_another_are_named() {
    for snapshot in apart_in_racks() {
        let (_, report) = planned(&snapshot);
        let refusals = refusals(&report);
        let reason = refusals.get("db-0").map_or("", String::as_str);
        assert!(reason.contains("data-0") && reason.contains("data-1"), "{reason:?}");
        assert!(!reason.contains("empty terms"), "{reason:?}");
    }
}

// F4: any two have a zone that both may be in.
#[test]
fn volumes_that_exclude_one_another_only_together_are_all_named() {
    let either =
        |one, other| [one, other].map(|zone: usize| node_term(labels::ZONE, "In", ZONES[zone])).into();
    let (_, report) = planned(&mounting(&[either(0, 1), either(1, 2), either(0, 2)]));
    let reason = &refusals(&report)["db-0"];
    assert!(reason.contains("data-0 and data-1 and data-2 exclude one another"), "{reason}");
}

// F4: nor does the pod go to a node that one of them could be attached to.
#[test]
fn volumes_that_exclude_one_another_keep_a_pod_off_existing_nodes() {
    for (mut snapshot, rack) in apart().into_iter().zip([None, Some("r1")].into_iter().cycle()) {
        let mut there = node("i-1", "m6a.large");
        there.labels.extend(rack.map(|rack| ("rack".to_owned(), rack.to_owned())));
        snapshot.nodes.push(there);
        let (plan, _) = planned(&snapshot);
        assert_eq!((plan.nodes.len(), plan.existing.len()), (0, 0), "{:?}", snapshot.volume_claims);
    }
}

/// Volumes with three alternatives each, of which only the last, the same for all, can hold
/// together.
fn with_common_zone(volumes: usize) -> Vec<Vec<Value>> {
    let zone = |name: String| node_term(labels::ZONE, "In", &name);
    let zone_of = |number: usize, which| zone(format!("us-east-1{which}{number}"));
    (0..volumes)
        .map(|number| vec![zone_of(number, 'x'), zone_of(number, 'y'), zone(ZONES[2].into())])
        .collect()
}

// F5: 81 combinations, of which the last is the only one that a node meets.
#[test]
fn many_alternatives_of_many_volumes_find_the_zone_that_all_have() {
    for volumes in [2, 4, 6] {
        let plan = all_placed(&mounting(&with_common_zone(volumes)));
        assert_eq!(zones_of(&plan, "db"), [ZONES[2].to_owned()].into(), "{volumes} volumes");
    }
}

// F5: what is tried first does not hide what comes later.
#[test]
fn many_alternatives_of_many_volumes_find_an_existing_node() {
    let mut snapshot = mounting(&with_common_zone(4));
    let mut there = node("i-1", "m6a.large");
    there.labels.insert(labels::ZONE.into(), ZONES[2].into());
    snapshot.nodes.push(there);
    let plan = all_placed(&snapshot);
    assert_eq!((plan.nodes.len(), plan.existing.len()), (0, 1));
}

// F5: where every volume may be in every zone, one is still as good as another.
#[test]
fn volumes_for_all_zones_are_placed_where_the_pod_may_be() {
    let anywhere = || ZONES.iter().map(|zone| node_term(labels::ZONE, "In", zone)).collect::<Vec<_>>();
    let mut snapshot = mounting(&[anywhere(), anywhere(), anywhere(), anywhere()]);
    let mut spec = spec(500, 512);
    spec.node_selector.insert(labels::ZONE.into(), ZONES[2].into());
    snapshot.pods[0].spec = spec.into();
    assert_eq!(zones_of(&all_placed(&snapshot), "db"), [ZONES[2].to_owned()].into());
}
