//! Pods use the nodes that static pools are given in the same plan.

use outrigger_model::{NodePool, Plan, Snapshot, labels};
use serde_json::{Value, json};

use super::{all_placed, near, placed, refusals, spread};
use crate::fixtures::{
    ZONES, applied, bound, cluster, merge, node, planned, pods, pool, requiring, spec, spec_with, taint,
};

/// A pool of so many nodes, machines of two cpus, with a patch over its spec.
fn fixed(replicas: u32, patch: Value) -> NodePool {
    let mut spec = requiring(&[(labels::INSTANCE_TYPE, "In", &["m6a.large"])]);
    merge(&mut spec, patch);
    let mut fixed = pool("fixed", spec);
    fixed.spec.replicas = Some(replicas);
    fixed
}

/// Such a pool and one for pods, with these pods.
fn with(fixed: NodePool, groups: &[(&str, usize, outrigger_model::PodSpec)]) -> Snapshot {
    let mut snapshot = cluster();
    snapshot.node_pools = vec![fixed, pool("other", json!({}))];
    for (name, count, spec) in groups {
        snapshot.pods.extend(pods(name, *count, spec.clone()));
    }
    snapshot
}

fn count(plan: &Plan, pool: &str) -> usize {
    plan.nodes.iter().filter(|node| node.spec.node_pool == pool).count()
}

fn counts(snapshot: &Snapshot) -> (usize, usize) {
    let plan = all_placed(snapshot);
    (count(&plan, "fixed"), count(&plan, "other"))
}

#[test]
fn pods_are_on_static_nodes_that_are_launched_anyway() {
    for kinds in [&["on-demand"][..], &["spot"], &["spot", "on-demand"]] {
        let patch = json!({"template": {"spec": {"requirements": [
            {"key": labels::CAPACITY_TYPE, "operator": "In", "values": kinds},
            {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m6a.large"]}]}}});
        for pods in 1..=2 {
            let snapshot = with(fixed(2, patch.clone()), &[("web", pods, spec(1_000, 512))]);
            assert_eq!(counts(&snapshot), (2, 0), "{pods} pods, {kinds:?}");
        }
        let snapshot = with(fixed(2, patch), &[("web", 3, spec(1_000, 512))]);
        assert_eq!(counts(&snapshot), (2, 1), "each static node has room for one");
    }
}

#[test]
fn a_static_pool_is_all_that_its_pods_need() {
    let mut snapshot = with(fixed(2, json!({})), &[("web", 3, spec(1_000, 512))]);
    snapshot.node_pools.truncate(1);
    let (plan, report) = planned(&snapshot);
    assert_eq!((placed(&plan, "web"), plan.nodes.len(), refusals(&report).len()), (2, 2, 1));
}

#[test]
fn pods_that_may_not_be_on_static_nodes_get_nodes_of_their_own() {
    let team = json!({"template": {"metadata": {"labels": {"team": "red"}}}});
    let not_red = json!({"key": "team", "operator": "NotIn", "values": ["red"]});
    let blue = json!({"nodeAffinity": [{"matchExpressions": [not_red]}]});
    assert_eq!(counts(&with(fixed(2, team.clone()), &[("web", 1, spec_with(1_000, 512, blue))])), (2, 1));
    let red = json!({"nodeSelector": {"team": "red"}});
    assert_eq!(counts(&with(fixed(2, team), &[("web", 1, spec_with(1_000, 512, red))])), (2, 0));
    let tainted = json!({"template": {"spec": {"taints": [taint("dedicated")]}}});
    assert_eq!(counts(&with(fixed(2, tainted.clone()), &[("web", 1, spec(1_000, 512))])), (2, 1));
    let tolerant =
        spec_with(1_000, 512, json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}));
    assert_eq!(counts(&with(fixed(2, tainted), &[("web", 1, tolerant)])), (2, 0));
    assert_eq!(counts(&with(fixed(2, json!({})), &[("web", 1, spec(3_000, 512))])), (2, 1));
}

#[test]
fn rules_about_other_pods_hold_on_static_nodes() {
    let apart = json!({"podAntiAffinity": [super::term(labels::HOSTNAME, "web")]});
    assert_eq!(counts(&with(fixed(2, json!({})), &[("web", 3, spec_with(100, 128, apart))])), (2, 1));
    let together = spec_with(600, 128, near(labels::HOSTNAME, "web"));
    assert_eq!(counts(&with(fixed(2, json!({})), &[("web", 3, together)])), (2, 0));
    let zones = json!({"template": {"spec": {"requirements": [
        {"key": labels::ZONE, "operator": "In", "values": ZONES[..2]},
        {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["m6a.large"]}]}}});
    let mut snapshot = with(fixed(2, zones), &[("web", 2, spec_with(1_000, 512, spread("web")))]);
    snapshot.node_pools.truncate(1);
    assert_eq!(placed(&all_placed(&snapshot), "web"), 2);
}

// The machine of a static node may be a larger one where that costs less than a further node.
#[test]
fn a_static_node_is_as_large_as_its_pods_need() {
    let sizes = json!({"template": {"spec": {"requirements": [
        {"key": labels::INSTANCE_TYPE, "operator": "In", "values": ["c6a.large", "m6a.large", "r6a.large"]}]}}});
    let snapshot = with(fixed(1, sizes), &[("web", 1, spec(1_500, 6_000))]);
    assert_eq!(counts(&snapshot), (1, 0));
}

#[test]
fn static_nodes_that_are_on_their_way_take_pods() {
    let mut first = with(fixed(2, json!({})), &[("web", 1, spec(1_000, 512))]);
    let mut second = applied(&first, &all_placed(&first));
    second.pods.extend(pods("more", 1, spec(1_000, 512)));
    let plan = all_placed(&second);
    assert_eq!((plan.nodes.len(), placed(&plan, "more")), (0, 1));
    // A second decision from the same state adds nothing.
    first.pods.clear();
    let joining = applied(&first, &all_placed(&first));
    assert_eq!(all_placed(&joining).nodes, []);
}

#[test]
fn a_static_pool_that_has_its_nodes_is_given_no_more() {
    let mut snapshot = with(fixed(1, json!({})), &[("web", 1, spec(1_000, 512))]);
    let mut there = node("i-1", "m6a.large");
    there.labels.insert(labels::NODE_POOL.into(), "fixed".into());
    there.labels.insert(labels::INITIALIZED.into(), "true".into());
    snapshot.nodes.push(there);
    assert_eq!(counts(&snapshot), (0, 0));
    snapshot.pods.extend(bound("i-1", pods("old", 1, spec(1_500, 512))));
    assert_eq!(counts(&snapshot), (0, 1));
}

// A static node that is launched anyway is no choice of a lighter pool.
#[test]
fn a_heavier_pool_does_not_keep_pods_off_static_nodes() {
    let mut snapshot = with(fixed(1, json!({})), &[("web", 1, spec(1_000, 512))]);
    snapshot.node_pools[1].spec.weight = Some(100);
    assert_eq!(counts(&snapshot), (1, 0));
}

// Static nodes make their zones domains, whoever may be on them.
#[test]
fn the_zone_of_a_static_node_is_a_domain() {
    let third = json!({"template": {"spec": {"taints": [taint("dedicated")], "requirements": [
        {"key": labels::ZONE, "operator": "In", "values": ZONES[2..]}]}}});
    let mut snapshot = with(fixed(1, third), &[("web", 4, spec_with(1_500, 512, spread("web")))]);
    snapshot.node_pools[1] = pool("other", requiring(&[(labels::ZONE, "In", &ZONES[..2])]));
    assert_eq!(placed(&planned(&snapshot).0, "web"), 2);
}
