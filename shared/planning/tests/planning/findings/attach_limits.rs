//! How many EBS volumes a node attaches: by its type where it is new or joins, by its CSINode where
//! that tells.

use std::sync::Arc;

use outrigger_model::{Snapshot, labels};
use serde_json::json;

use super::{all_placed, placed, refusals};
use crate::fixtures::{bound, cluster, node, planned, pods, pool, requiring, spec, with_plan};

/// A cluster whose pool makes nodes of these types, each of which attaches so many volumes.
fn attaching(types: &[(&str, u32)]) -> Snapshot {
    let mut snapshot = cluster();
    let kinds = Arc::make_mut(&mut snapshot.classes[0].instance_types);
    for (name, limit) in types {
        kinds.iter_mut().find(|kind| kind.name == *name).unwrap().ebs_volumes = Some(*limit);
    }
    let names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
    snapshot.node_pools = vec![pool("default", requiring(&[(labels::INSTANCE_TYPE, "In", &names)]))];
    snapshot
}

/// Adds small pods that wait, each with so many volumes of its own.
fn add(snapshot: &mut Snapshot, app: &str, count: usize, volumes: usize) {
    let first = snapshot.pods.len();
    snapshot.pods.extend(pods(app, count, spec(100, 128)));
    for index in first..snapshot.pods.len() {
        give(snapshot, index, volumes);
    }
}

/// Gives a pod volumes.
fn give(snapshot: &mut Snapshot, index: usize, volumes: usize) {
    let pod = snapshot.pods[index].id.name.clone();
    for name in (0..volumes).map(|number| format!("{pod}-{number}")) {
        let claim = json!({"id": format!("default/{name}"), "driver": "ebs.csi.aws.com", "handle": name});
        snapshot.volume_claims.push(serde_json::from_value(claim).unwrap());
        snapshot.pods[index].volume_claims.push(name);
    }
}

#[test]
fn a_pod_goes_to_a_type_that_attaches_all_of_its_volumes() {
    let mut snapshot = attaching(&[("m6a.large", 26), ("r6a.large", 31)]);
    add(&mut snapshot, "db", 1, 27);
    let plan = all_placed(&snapshot);
    let [node] = &plan.nodes[..] else { panic!("{:?}", plan.nodes) };
    let types: Vec<&str> = node.instance_types.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(types, ["r6a.large"]);
}

#[test]
fn a_pod_with_more_volumes_than_any_type_attaches_learns_how_many_that_are() {
    let mut snapshot = attaching(&[("m6a.large", 26), ("r6a.large", 31)]);
    add(&mut snapshot, "db", 1, 32);
    let (plan, report) = planned(&snapshot);
    assert_eq!(placed(&plan, "db"), 0);
    let reason = &refusals(&report)["db-0"];
    assert!(
        reason.contains("32 volumes of ebs.csi.aws.com, of which a node attaches at most 31"),
        "{reason}"
    );
}

#[test]
fn new_nodes_take_no_more_volumes_than_their_type_attaches() {
    let mut snapshot = attaching(&[("m6a.2xlarge", 3)]);
    add(&mut snapshot, "db", 9, 1);
    let plan = all_placed(&snapshot);
    let counts: Vec<usize> = plan.nodes.iter().map(|node| node.pods.len()).collect();
    assert_eq!(counts, [3, 3, 3]);
}

#[test]
fn a_claim_in_flight_takes_no_more_volumes_than_its_type_attaches() {
    let mut snapshot = attaching(&[("m6a.2xlarge", 3)]);
    add(&mut snapshot, "db", 3, 1);
    let mut snapshot = with_plan(&snapshot, &all_placed(&snapshot));
    add(&mut snapshot, "late", 1, 1);
    let plan = all_placed(&snapshot);
    let on_claim: usize = plan.existing.iter().map(|placement| placement.pods.len()).sum();
    assert_eq!((plan.nodes.len(), on_claim), (1, 3));
}

#[test]
fn a_node_that_tells_nothing_yet_takes_what_its_type_attaches() {
    // How many volumes run there, what the CSINode tells, and whether the next pod has room there.
    let table = [(2, None, true), (3, None, false), (3, Some(4), true), (2, Some(2), false)];
    for (running, reported_limit, fits) in table {
        let mut snapshot = attaching(&[("m6a.2xlarge", 3)]);
        let mut there = node("i-1", "m6a.2xlarge");
        for (key, value) in [(labels::NODE_POOL, "default"), (labels::INITIALIZED, "true")] {
            there.labels.insert(key.into(), value.into());
        }
        there.volume_limits.extend(reported_limit.map(|limit| ("ebs.csi.aws.com".to_owned(), limit)));
        snapshot.nodes.push(there);
        snapshot.pods = bound("i-1", pods("old", running, spec(100, 128)));
        (0..running).for_each(|index| give(&mut snapshot, index, 1));
        add(&mut snapshot, "db", 1, 1);
        let plan = all_placed(&snapshot);
        assert_eq!(plan.nodes.is_empty(), fits, "{running} {reported_limit:?}");
    }
}
