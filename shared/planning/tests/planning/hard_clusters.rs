//! Small clusters that are hard to plan for: rules that keep pods from one another, limits that
//! bind, spreads that count others. Each line is a cluster, how many of its pods have a place, and
//! on how many new nodes.

use std::sync::Arc;

use outrigger_model::{
    CapacityType, PodRef, Price, Requirement, Requirements, Snapshot, VolumeClaim, labels,
};
use serde_json::{Value, json};

use crate::fixtures::{
    ZONES, applied, bound, cluster, node, planned, pods, pool, requiring, spec, spec_with, taint, with_pods,
};

fn term(key: &str, app: &str) -> Value {
    json!({"topologyKey": key, "selector": {"matchLabels": {"app": app}}, "namespaces": ["default"]})
}

fn spread(key: &str, app: &str, anyway: bool) -> Value {
    json!({"topologyKey": key, "maxSkew": 1, "scheduleAnyway": anyway, "honorAffinity": true, "honorTaints": false,
        "selector": {"matchLabels": {"app": app}}})
}

fn in_zone(zone: &str) -> Value {
    json!({"matchExpressions": [{"key": labels::ZONE, "operator": "In", "values": [zone]}]})
}

/// Gives the pods of an app the labels of another, so that the same rules count them.
fn labelled(mut snapshot: Snapshot, from: &str, to: &str) -> Snapshot {
    let labels = Arc::new([("app".to_owned(), to.to_owned())].into());
    for pod in snapshot.pods.iter_mut().filter(|pod| pod.labels["app"] == from) {
        pod.labels = Arc::clone(&labels);
    }
    snapshot
}

/// Binds one volume to each pod of an app, in the zones in turn.
fn with_volumes(mut snapshot: Snapshot, app: &str, zones: &[&str]) -> Snapshot {
    let prefix = format!("{app}-");
    let pods = snapshot.pods.iter_mut().filter(|pod| pod.id.name.starts_with(&prefix));
    for (pod, zone) in pods.zip(zones.iter().cycle()) {
        let id = PodRef { namespace: "default".into(), name: pod.id.name.clone() };
        pod.volume_claims.push(id.name.clone());
        snapshot.volume_claims.push(VolumeClaim {
            driver: "ebs.csi.aws.com".into(),
            handle: id.name.clone(),
            alternatives: vec![Requirements::new().with(labels::ZONE, Requirement::exactly(*zone))],
            needs_scheduler: false,
            for_one_pod: false,
            on_host: false,
            selected_node: None,
            problem: None,
            id,
        });
    }
    snapshot
}

#[track_caller]
fn check(snapshot: &Snapshot, placed: usize, new_nodes: usize) {
    let (plan, _) = planned(snapshot);
    let new: usize = plan.nodes.iter().map(|node| node.pods.len()).sum();
    let old: usize = plan.existing.iter().map(|placement| placement.pods.len()).sum();
    assert_eq!((new + old, plan.nodes.len()), (placed, new_nodes));
}

#[test]
fn pods_that_others_avoid_leave_them_a_zone() {
    let shy = spec_with(100, 128, json!({"podAntiAffinity": [term(labels::ZONE, "web")]}));
    check(&with_pods(&[("web", 6, spec(250, 128)), ("shy", 3, shy.clone())]), 9, 2);
    let lonely = labelled(with_pods(&[("web", 6, spec(250, 128)), ("shy", 3, shy)]), "shy", "web");
    check(&lonely, 8, 3);
}

#[test]
fn a_spread_counts_all_domains_that_a_wish_or_a_volume_leaves_out() {
    let wish = json!({"topologySpread": [spread(labels::ZONE, "web", false)],
        "preferredNodeAffinity": [{"weight": 1, "term": in_zone(ZONES[0])}]});
    check(&with_pods(&[("web", 2, spec_with(100, 128, wish))]), 2, 2);
    let spreading = json!({"topologySpread": [spread(labels::ZONE, "web", false)]});
    let volumes = with_pods(&[("web", 4, spec_with(100, 128, spreading))]);
    check(&with_volumes(volumes, "web", &ZONES[..1]), 1, 1);
}

#[test]
fn a_spread_counts_only_nodes_that_its_policies_admit() {
    let on_spot = json!({"nodeSelector": {labels::CAPACITY_TYPE: "spot"},
        "topologySpread": [spread(labels::ZONE, "web", false)]});
    let mut snapshot = with_pods(&[("web", 6, spec_with(100, 128, on_spot)), ("plain", 5, spec(100, 128))]);
    snapshot.nodes.push(node("i-1", "m6a.2xlarge"));
    check(&labelled(snapshot, "plain", "web"), 11, 3);
}

#[test]
fn pods_near_others_do_not_upset_a_spread() {
    let family = spec_with(100, 128, json!({"podAffinity": [term(labels::HOSTNAME, "web")]}));
    let spreading = spec_with(500, 128, json!({"topologySpread": [spread(labels::ZONE, "web", false)]}));
    let snapshot = with_pods(&[("family", 4, family), ("plain", 4, spec(100, 128)), ("web", 6, spreading)]);
    check(&labelled(labelled(snapshot, "family", "web"), "plain", "web"), 14, 3);
}

#[test]
fn pods_that_must_be_together_find_one_another_across_pools() {
    let family = spec_with(100, 128, json!({"podAffinity": [term(labels::HOSTNAME, "web")]}));
    let tolerant = spec_with(100, 128, json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}));
    let mut snapshot = cluster();
    snapshot.node_pools.push(pool("a", json!({"template": {"spec": {"taints": [taint("dedicated")]}}})));
    snapshot.node_pools.push(pool("b", json!({})));
    snapshot.pods = pods("family", 1, family);
    snapshot.pods.extend(pods("web", 1, tolerant));
    check(&labelled(snapshot, "family", "web"), 2, 1);
}

#[test]
fn the_smaller_part_of_a_family_that_cannot_be_together_waits() {
    let family = json!({"podAffinity": [term(labels::HOSTNAME, "web")],
        "nodeAffinity": [in_zone(ZONES[1])]});
    let mut snapshot = with_pods(&[("web", 1, spec(100, 128)), ("family", 2, spec_with(100, 128, family))]);
    snapshot.node_pools.push(pool("other", json!({})));
    check(&with_volumes(labelled(snapshot, "family", "web"), "web", &ZONES[..1]), 2, 1);
}

#[test]
fn the_largest_part_of_a_family_that_cannot_be_whole_has_a_place() {
    let family = spec_with(100, 128, json!({"podAffinity": [term(labels::HOSTNAME, "family")]}));
    check(&with_volumes(with_pods(&[("family", 4, family)]), "family", &ZONES), 2, 1);
}

#[test]
fn a_wish_to_be_apart_gives_way_to_the_need_to_be_together() {
    let family = json!({"podAffinity": [term(labels::HOSTNAME, "family")],
        "topologySpread": [spread(labels::HOSTNAME, "family", true)]});
    check(&with_pods(&[("family", 4, spec_with(100, 128, family))]), 4, 1);
}

#[test]
fn pods_near_running_ones_come_before_others_take_the_room() {
    let family = spec_with(500, 128, json!({"podAffinity": [term(labels::HOSTNAME, "old")]}));
    let mut snapshot = with_pods(&[("web", 4, spec(500, 128)), ("family", 2, family)]);
    snapshot.nodes.push(node("i-1", "c6a.large"));
    snapshot.pods.extend(bound("i-1", pods("old", 1, spec(100, 128))));
    check(&snapshot, 6, 1);
}

#[test]
fn within_a_limit_on_nodes_they_are_larger() {
    let mut snapshot = with_pods(&[("web", 12, spec(500, 128))]);
    snapshot.node_pools = vec![pool("default", json!({"limits": {"nodes": "1"}}))];
    check(&snapshot, 12, 1);
}

#[test]
fn pods_near_others_have_them_in_every_zone_that_they_need() {
    let near = spec_with(100, 128, json!({"podAffinity": [term(labels::ZONE, "cache")]}));
    let snapshot = with_pods(&[("cache", 3, spec(250, 128)), ("near", 6, near)]);
    check(&with_volumes(snapshot, "near", &ZONES), 9, 3);
}

#[test]
fn companions_are_kept_for_all_who_must_be_near_one() {
    let family = spec_with(100, 2_048, json!({"podAffinity": [term(labels::HOSTNAME, "family")]}));
    let snapshot = with_pods(&[("family", 6, family), ("web", 2, spec(250, 128))]);
    let apart = with_volumes(labelled(snapshot, "web", "family"), "family", &ZONES[..2]);
    check(&apart, 8, 2);
}

#[test]
fn companions_are_found_on_machines_that_no_other_pod_would_choose() {
    let family = spec_with(4_000, 128, json!({"podAffinity": [term(labels::HOSTNAME, "old")]}));
    let dear = spec_with(100, 128, json!({"nodeSelector": {"karpenter.k8s.aws/instance-family": "r6a"}}));
    let mut snapshot = with_pods(&[("family", 1, family), ("web", 1, dear)]);
    snapshot.nodes.push(node("i-1", "c6a.large"));
    snapshot.pods.extend(bound("i-1", pods("old", 1, spec(100, 128))));
    check(&labelled(labelled(snapshot, "family", "old"), "web", "old"), 2, 1);
}

#[test]
fn pods_lift_a_spread_where_its_own_pods_cannot_be() {
    let spreading =
        spec_with(100, 128, json!({"topologySpread": [spread(labels::CAPACITY_TYPE, "web", false)]}));
    let tolerant = json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}],
        "nodeAffinity": [in_zone(ZONES[1])]});
    let mut snapshot = with_pods(&[("web", 4, spreading), ("lift", 2, spec_with(100, 128, tolerant))]);
    let tainted = json!({"template": {"spec": {"taints": [taint("dedicated")]}}});
    snapshot.node_pools = vec![pool("default", tainted)];
    snapshot.nodes.push(node("i-1", "m6a.2xlarge"));
    snapshot.nodes[0].labels.insert(labels::CAPACITY_TYPE.into(), "spot".into());
    check(&labelled(snapshot, "lift", "web"), 5, 1);
}

#[test]
fn a_large_pod_is_left_out_where_a_limit_has_room_for_more_small_ones() {
    let mut snapshot = with_pods(&[("large", 1, spec(4_000, 128)), ("small", 6, spec(1_000, 4_096))]);
    snapshot.node_pools = vec![pool("default", json!({"limits": {"cpu": "8", "nodes": "1"}}))];
    check(&snapshot, 6, 1);
}

#[test]
fn a_second_decision_has_nothing_to_add() {
    let volumes = with_pods(&[
        ("near", 11, spec(2_000, 128)),
        ("web", 2, spec_with(2_000, 16_384, json!({"topologySpread": [spread(labels::ZONE, "web", false)]}))),
    ]);
    let mut snapshot = with_volumes(labelled(volumes, "near", "web"), "near", &ZONES);
    snapshot.node_pools = vec![pool("default", json!({"limits": {"memory": "97Gi"}}))];
    snapshot.nodes.push(node("i-1", "c6a.xlarge"));
    let (plan, _) = planned(&snapshot);
    let (again, _) = planned(&applied(&snapshot, &plan));
    assert_eq!(again.nodes, []);
}

#[test]
fn pods_go_to_where_they_are_nominated_before_those_that_follow_them() {
    let follower = json!({"podAffinity": [term(labels::HOSTNAME, "web")]});
    let spread = json!({"topologySpread": [spread(labels::HOSTNAME, "web", false)]});
    let pods =
        with_pods(&[("first", 1, spec_with(100, 256, follower)), ("web", 2, spec_with(100, 256, spread))]);
    let mut snapshot = labelled(pods, "first", "web");
    snapshot.node_pools = vec![pool("third", requiring(&[(labels::ZONE, "In", &ZONES[2..])]))];
    let (plan, _) = planned(&snapshot);
    let (again, _) = planned(&applied(&snapshot, &plan));
    assert_eq!(again.nodes, []);
}

#[test]
fn a_claim_may_come_up_in_any_of_its_zones() {
    let shy = json!({"podAntiAffinity": [term(labels::HOSTNAME, "shy"), term(labels::ZONE, "web")]});
    let mut snapshot = with_pods(&[("plain", 1, spec(100, 128))]);
    let (plan, _) = planned(&snapshot);
    snapshot = applied(&snapshot, &plan);
    snapshot.pods.extend(pods("shy", 3, spec_with(100, 128, shy)));
    let (plan, _) = planned(&snapshot);
    snapshot = applied(&snapshot, &plan);
    snapshot.pods.extend(pods("web", 1, spec(100, 128)));
    let _ = planned(&snapshot);
}

#[test]
fn pods_of_several_pools_share_a_node() {
    let tolerant = spec_with(100, 128, json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]}));
    let mut snapshot = cluster();
    snapshot.node_pools.push(pool("a", json!({"template": {"spec": {"taints": [taint("dedicated")]}}})));
    snapshot.node_pools.push(pool("b", json!({})));
    snapshot.pods = pods("tolerant", 1, tolerant);
    snapshot.pods.extend(pods("web", 3, spec(100, 128)));
    check(&snapshot, 4, 1);
    // A pool of a higher weight is asked first, and its pods do not leave it for a new node of
    // another.
    snapshot.node_pools[0].spec.weight = Some(10);
    snapshot.pods.truncate(1);
    let (plan, _) = planned(&snapshot);
    assert_eq!(plan.nodes[0].spec.node_pool, "a");
}

#[test]
fn the_first_machine_is_chosen_with_the_last_in_mind() {
    let mut snapshot = with_pods(&[("web", 14, spec(1_000, 128))]);
    let prices = [("c6a.large", 180), ("c6a.xlarge", 300), ("c6a.2xlarge", 750)];
    let types = snapshot.classes[0].instance_types.iter().filter_map(|kind| {
        let (_, millidollars) = prices.iter().find(|(name, _)| *name == kind.name)?;
        let mut kind = kind.clone();
        kind.offerings.retain(|offering| offering.capacity_type == CapacityType::OnDemand);
        kind.offerings
            .iter_mut()
            .for_each(|offering| offering.price = Price::from_nanos(millidollars * 1_000_000));
        Some(kind)
    });
    snapshot.classes[0].instance_types = Arc::new(types.collect());
    // Machines of 3 pods cost least for each when they are full, but five of them more than two of
    // 7 pods.
    check(&snapshot, 14, 2);
}
