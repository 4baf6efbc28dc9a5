//! A Snapshot that is written and read back gives the same bytes of plan, whatever it remembers of
//! launches.

use std::collections::BTreeSet;

use outrigger_model::{
    CapacityType, Hold, NodeOutcome, PlannedNode, PodHealth, PoolHealth, PutOffReason, Refusal, Snapshot,
    SpotRefusal,
};
use serde_json::json;

use crate::fixtures::{planned, pool, spec, with_pods};

/// Pods of three kinds and two pools, of which launches have failed in every way.
fn after_failures() -> Snapshot {
    let mut snapshot = with_pods(&[("wide", 3, spec(7_000, 512)), ("vain", 1, spec(500, 256))]);
    snapshot.node_pools.push(pool("refused", json!({})));
    let now = snapshot.taken_at;
    let hold = |seconds, reason: &str| Hold {
        until: now + jiff::SignedDuration::from_secs(seconds),
        failures: 2,
        reason: reason.into(),
    };
    let tries = PoolHealth {
        outcomes: vec![NodeOutcome { claim: "w-1".into(), created_at: now, failure: Some("lost".into()) }],
        judged_until: Some(now),
        breaker: Some(hold(0, "its nodes came to nothing")),
        refused: None,
    };
    let refused = PoolHealth { refused: Some(hold(60, "EC2 refuses it")), ..PoolHealth::default() };
    let health = &mut snapshot.health;
    health.version = 7;
    health.pools.extend([("default".into(), tries), ("refused".into(), refused)]);
    let vain = PodHealth { claims: vec!["w-1".into()], at: now, hold: Some(hold(60, "in vain")) };
    health.pods.insert("uid-vain-00000".into(), vain);
    health.subnets.insert("subnet-1".into(), hold(60, "full"));
    health.launches = Some(hold(-60, "too many"));
    health.templates.insert("t".into(), now);
    snapshot
}

/// The same world once all spot fleets of its first plan have launched nothing, twice.
fn without_spot(snapshot: &Snapshot) -> Snapshot {
    let (plan, _) = planned(snapshot);
    let refused = plan.nodes.iter().map(|node| SpotRefusal::from_planned(node, snapshot.taken_at));
    let once: Vec<_> = refused.collect();
    Snapshot { spot_refusals: [once.clone(), once].concat(), ..snapshot.clone() }
}

fn kinds(nodes: &[PlannedNode]) -> BTreeSet<CapacityType> {
    nodes.iter().map(|node| node.capacity_type).collect()
}

#[test]
fn what_is_remembered_of_launches_is_read_back_and_gives_the_same_plan() {
    let snapshot = after_failures();
    assert_eq!(kinds(&planned(&snapshot).0.nodes), BTreeSet::from([CapacityType::Spot]));
    let snapshot = without_spot(&snapshot);
    let (plan, report) = planned(&snapshot);
    assert_eq!(kinds(&plan.nodes), BTreeSet::from([CapacityType::OnDemand]), "there is no spot");
    assert_eq!((plan.nodes.len(), plan.put_off.len()), (1, 2), "the pool tries with one node");
    assert!(plan.put_off.iter().all(|node| node.reason == PutOffReason::BesideProbe));
    let reported = serde_json::to_string(&report).unwrap();
    assert!(reported.contains("in vain"), "a pod is in quarantine: {reported}");

    let written = serde_json::to_string(&snapshot).unwrap();
    let read: Snapshot = serde_json::from_str(&written).unwrap();
    assert_eq!(read, snapshot);
    assert_eq!(serde_json::to_string(&read).unwrap(), written);
    let again = planned(&read);
    assert_eq!(serde_json::to_string(&again.0).unwrap(), serde_json::to_string(&plan).unwrap());
    assert_eq!(serde_json::to_string(&again.1).unwrap(), reported);
}

#[test]
fn a_paused_pool_is_a_reason_in_the_report() {
    let mut snapshot = after_failures();
    snapshot.node_pools.retain(|pool| pool.name == "refused");
    let (plan, report) = planned(&snapshot);
    assert!(plan.nodes.is_empty());
    let written = serde_json::to_string(&report).unwrap();
    let why = "EC2 refuses it; it tries again with one node at 2026-11-20T12:01:00Z";
    assert!(written.contains(&Refusal::Paused(why.into()).to_string()) || written.contains(why), "{written}");
}
