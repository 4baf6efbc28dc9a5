//! Domains that no pool can open a node in, and no node is in, are none for a spread.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::resources::CPU;
use outrigger_model::{NodePool, Plan, Quantity, Resources, Snapshot, Taint, TaintEffect, labels};
use serde_json::{Value, json};

use super::{placed, spread};
use crate::fixtures::{
    ZONES, applied, bound, cluster, daemon_set, merge, node, planned, pods, pool, requiring, spec, spec_with,
};

/// A pool of machines of two cpus in some zones, with a patch over its spec.
fn in_zones(name: &str, zones: &[&str], patch: Value) -> NodePool {
    let mut merged = requiring(&[
        (labels::ZONE, "In", zones),
        (labels::INSTANCE_TYPE, "In", &["m6a.large"]),
        (labels::CAPACITY_TYPE, "In", &["on-demand"]),
    ]);
    merge(&mut merged, patch);
    pool(name, merged)
}

/// Four pods of 1.5 cpus that spread over zones, a pool in the first two, and another in the third.
fn beside(third: NodePool) -> Snapshot {
    let mut snapshot = cluster();
    snapshot.node_pools = vec![in_zones("main", &ZONES[..2], json!({})), third];
    snapshot.pods = pods("web", 4, spec_with(1_500, 512, spread("web")));
    snapshot
}

fn third(patch: Value) -> NodePool {
    in_zones("third", &ZONES[2..], patch)
}

/// How many pods are in each zone.
fn by_zone(plan: &Plan) -> BTreeMap<&str, usize> {
    let mut zones = BTreeMap::new();
    for node in plan.nodes.iter().filter(|node| node.zones.len() == 1) {
        *zones.entry(node.zones[0].as_str()).or_default() += node.pods.len();
    }
    zones
}

#[track_caller]
fn assert_two_in_each_open_zone(snapshot: &Snapshot, what: &str) {
    let (plan, _) = planned(snapshot);
    assert_eq!(by_zone(&plan), BTreeMap::from([(ZONES[0], 2), (ZONES[1], 2)]), "{what}");
}

fn cpus(cpus: i64) -> Value {
    json!({"limits": {"cpu": cpus.to_string()}})
}

#[test]
fn the_zone_of_a_pool_whose_limits_admit_no_machine_is_no_domain() {
    for limits in [cpus(0), cpus(1), json!({"limits": {"memory": "1Gi"}}), json!({"limits": {"nodes": "0"}})]
    {
        assert_two_in_each_open_zone(&beside(third(limits.clone())), &limits.to_string());
    }
}

/// A node of the pool `third` in a zone, which others fill.
fn full_node_in(zone: &str, snapshot: &mut Snapshot) {
    let mut full = node("i-1", "m6a.large");
    full.labels.insert(labels::ZONE.into(), zone.into());
    full.labels.insert(labels::NODE_POOL.into(), "third".into());
    full.labels.insert(labels::INITIALIZED.into(), "true".into());
    snapshot.nodes.push(full);
    snapshot.pods.extend(bound("i-1", pods("old", 1, spec(1_900, 512))));
}

// Its only node is in another zone.
#[test]
fn the_zone_of_a_pool_whose_nodes_use_up_its_limits_is_no_domain() {
    for limits in [cpus(3), json!({"limits": {"nodes": "1"}})] {
        let mut snapshot = beside(third(limits.clone()));
        full_node_in(ZONES[0], &mut snapshot);
        assert_two_in_each_open_zone(&snapshot, &limits.to_string());
    }
}

// kube-scheduler counts the domains of all nodes, whoever made them.
#[test]
fn a_zone_in_which_a_node_is_stays_a_domain() {
    let mut snapshot = beside(third(cpus(2)));
    full_node_in(ZONES[2], &mut snapshot);
    let (plan, _) = planned(&snapshot);
    assert_eq!(by_zone(&plan), BTreeMap::from([(ZONES[0], 1), (ZONES[1], 1)]));
}

// The claim uses up the limit, and its node will be there.
#[test]
fn a_zone_to_which_a_node_is_on_its_way_stays_a_domain() {
    let mut first = beside(third(cpus(2)));
    let web = std::mem::take(&mut first.pods);
    first.pods = pods("old", 1, spec_with(1_900, 512, json!({"nodeSelector": {labels::ZONE: ZONES[2]}})));
    let mut second = applied(&first, &planned(&first).0);
    second.pods.extend(web);
    for pools in [2, 1] {
        second.node_pools.truncate(pools);
        let (plan, _) = planned(&second);
        assert_eq!(by_zone(&plan), BTreeMap::from([(ZONES[0], 1), (ZONES[1], 1)]), "with {pools} pools");
    }
}

#[test]
fn the_zone_of_a_pool_whose_machines_fit_no_pod_is_no_domain() {
    let small = requiring(&[(labels::INSTANCE_TYPE, "In", &["c6a.large"])]);
    let mut snapshot = beside(third(small));
    snapshot.node_pools[0] = in_zones("main", &ZONES[..2], json!({}));
    snapshot.pods = pods("web", 4, spec_with(1_500, 5_000, spread("web")));
    assert_two_in_each_open_zone(&snapshot, "a pod asks for more memory than c6a.large has");
}

#[test]
fn the_zone_of_a_pool_whose_machines_daemonsets_fill_is_no_domain() {
    let labelled = json!({"template": {"metadata": {"labels": {"team": "red"}}}});
    let mut snapshot = beside(third(labelled));
    let mut large = spec_with(1_000, 512, json!({"nodeSelector": {"team": "red"}}));
    large.requests = Resources::new().with(CPU, Quantity::millis(1_000));
    snapshot.daemon_sets.push(daemon_set("large", large));
    assert_two_in_each_open_zone(&snapshot, "a daemonset takes more than half of each machine there");
}

#[test]
fn the_zone_of_a_pool_that_cannot_launch_is_no_domain() {
    let mut deleting = third(json!({}));
    deleting.deleting = true;
    let mut not_ready = third(json!({}));
    not_ready.not_ready = Some("its class is being resolved".into());
    for pool in [deleting, not_ready] {
        assert_two_in_each_open_zone(&beside(pool), "it is deleting, or not ready");
    }
    let mut tainted = third(json!({}));
    tainted.spec.template.spec.taints.push(Taint::new("special", "", TaintEffect::NoSchedule));
    assert_two_in_each_open_zone(&beside(tainted), "no pod bears its taint");
}

#[test]
fn a_zone_in_which_nothing_is_sold_is_no_domain() {
    let mut snapshot = beside(third(json!({})));
    let offer = &mut snapshot.classes[0];
    let mut types = offer.instance_types.as_ref().clone();
    for offering in
        types.iter_mut().flat_map(|kind| &mut kind.offerings).filter(|offering| offering.zone == ZONES[2])
    {
        offering.available = false;
    }
    offer.instance_types = Arc::new(types);
    assert_two_in_each_open_zone(&snapshot, "no offering is available there");
}

#[test]
fn the_zone_of_a_pool_whose_min_values_cannot_be_kept_is_no_domain() {
    let mut wanting = third(json!({}));
    let family = json!({"key": "karpenter.k8s.aws/instance-family", "operator": "Exists", "minValues": 2});
    wanting.spec.template.spec.requirements.push(serde_json::from_value(family).unwrap());
    assert_two_in_each_open_zone(&beside(wanting), "it has one family and asks for two");
}

// What a domain is does not depend on the key.
#[test]
fn a_capacity_type_that_no_pool_can_buy_is_no_domain() {
    let over_capacity_types = |anyway: bool| {
        json!({"topologySpread": [{"topologyKey": labels::CAPACITY_TYPE, "maxSkew": 1, "scheduleAnyway": anyway,
            "selector": {"matchLabels": {"app": "web"}}, "honorAffinity": true, "honorTaints": false}]})
    };
    let mut snapshot = cluster();
    let spot = json!({"limits": {"cpu": "0"}, "template": {"spec": {"requirements": [
        {"key": labels::CAPACITY_TYPE, "operator": "In", "values": ["spot"]}]}}});
    snapshot.node_pools = vec![in_zones("main", &ZONES, json!({})), pool("spot", spot)];
    snapshot.pods = pods("web", 4, spec_with(1_500, 512, over_capacity_types(false)));
    assert_eq!(placed(&planned(&snapshot).0, "web"), 4);
}

// Fewer domains than minDomains count as an empty one, so each zone takes maxSkew pods.
#[test]
fn a_closed_domain_does_not_count_for_min_domains() {
    let mut with_min = spread("web");
    with_min["topologySpread"][0]["minDomains"] = json!(3);
    let mut snapshot = beside(third(cpus(0)));
    snapshot.pods = pods("web", 4, spec_with(1_500, 512, with_min));
    assert_eq!(placed(&planned(&snapshot).0, "web"), 2);
    snapshot.node_pools[1] = third(json!({}));
    assert_eq!(placed(&planned(&snapshot).0, "web"), 4);
}
