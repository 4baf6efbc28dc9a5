//! How many nodes of a plan may be launched now, and what plan and report say of the others.

use outrigger_model::{Hold, Plan, PodsOutcome, PoolHealth, PutOff, PutOffReason, Report, Snapshot, labels};
use serde_json::json;

use crate::fixtures::{applied, planned, pool, spec, with_plan, with_pods};

/// Five pods that need a node each.
fn snapshot() -> Snapshot {
    with_pods(&[("wide", 5, spec(7_000, 512))])
}

fn reasons(report: &Report) -> Vec<(&str, usize)> {
    let ignored = report.pods.iter().filter_map(|entry| match &entry.outcome {
        PodsOutcome::Ignored { reason } => Some((reason.as_str(), entry.pods.len())),
        _ => None,
    });
    ignored.collect()
}

/// How many nodes come now and how many are put off, each with its pod.
fn counts(plan: &Plan) -> (usize, usize) {
    let pods = plan.nodes.iter().map(|node| node.pods.len());
    assert!(pods.chain(plan.put_off.iter().map(|node| node.pods.len())).all(|pods| pods == 1));
    (plan.nodes.len(), plan.put_off.len())
}

#[test]
fn a_pool_tries_with_one_node_after_a_pause() {
    let mut snapshot = snapshot();
    let over = Hold { until: snapshot.taken_at, failures: 1, reason: "its nodes came to nothing".into() };
    let tries = PoolHealth { breaker: Some(over), ..PoolHealth::default() };
    snapshot.health.pools.insert("default".into(), tries);
    let (plan, report) = planned(&snapshot);
    assert_eq!(counts(&plan), (1, 4));
    let beside =
        |node: &PutOff| (node.node_pool.as_str(), node.reason) == ("default", PutOffReason::BesideProbe);
    assert!(plan.put_off.iter().all(beside));
    let why = "its node is put off: the NodePool tries with one node after a pause";
    assert_eq!(reasons(&report).iter().map(|(_, pods)| pods).sum::<usize>(), 4);
    assert!(reasons(&report).iter().all(|(reason, _)| *reason == why));
    assert_eq!(report.nodes.len(), 1, "nothing is told of nodes that do not come");
}

#[test]
fn the_cap_counts_what_came_within_the_last_minute() {
    let mut snapshot = Snapshot { max_new_nodes_per_minute: Some(3), ..snapshot() };
    let (plan, report) = planned(&snapshot);
    assert_eq!(counts(&plan), (3, 2));
    assert!(plan.put_off.iter().all(|node| node.reason == PutOffReason::OverTheCap));
    let why = "its node is put off: as many nodes as allowed were launched within this minute";
    assert!(reasons(&report).iter().all(|(reason, _)| *reason == why));
    assert_eq!(counts(&planned(&with_plan(&snapshot, &plan)).0), (0, 2), "in the same minute");
    snapshot = applied(&snapshot, &plan);
    assert_eq!(counts(&planned(&snapshot).0), (2, 0), "a minute later");
}

#[test]
fn a_pool_may_be_allowed_less_than_the_cluster() {
    let mut snapshot = snapshot();
    let mut slow = pool("slow", json!({}));
    slow.annotations.insert(labels::MAX_NEW_NODES_PER_MINUTE.into(), "1".into());
    snapshot.node_pools = vec![slow];
    assert_eq!(counts(&planned(&snapshot).0), (5, 0), "all that is wanted is asked for");
    snapshot.max_new_nodes_per_minute = Some(500);
    assert_eq!(counts(&planned(&snapshot).0), (1, 4));
}
