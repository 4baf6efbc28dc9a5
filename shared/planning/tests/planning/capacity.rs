//! What there is and what may be launched, one small cluster after another, each with the guarantee
//! that it proves. The snapshot files show plan and report.

use std::cell::Cell;
use std::sync::Arc;

use outrigger_model::{
    CapacityType, ClaimState, Instance, LaunchTemplate, Node, PodState, Price, Quantity, Requirement,
    Requirements, Resources, Snapshot, Taint, TaintEffect, UnavailableOffering, labels,
};
use outrigger_planning::provision;
use outrigger_policy::Options;
use outrigger_referee as referee;
use serde_json::json;

use crate::fixtures::{
    ZONES, applied, bound, check_snapshot, cluster, daemon_set, machine, node, planned, pods, pool, rendered,
    requiring, selecting, spec, spec_with, taint, with_pods,
};

#[test]
fn weights() {
    let mut snapshot = with_pods(&[("web", 2, spec(500, 512))]);
    let mut heavy = pool("heavy", requiring(&[("karpenter.k8s.aws/instance-family", "In", &["r6a"])]));
    heavy.spec.weight = Some(50);
    snapshot.node_pools.push(heavy);
    check_snapshot(
        "weights",
        "The pool of the highest weight that can serve wins, though another is cheaper.",
        &snapshot,
    );
}

#[test]
fn burstable_types_are_bought_only_where_they_are_asked_for() {
    const FAMILY: &str = "karpenter.k8s.aws/instance-family";
    let mut kinds = vec![machine("m6a.large", "amd64", 2, 8, 86), machine("t3a.large", "amd64", 2, 8, 75)];
    for (kind, category) in kinds.iter_mut().zip(["m", labels::BURSTABLE]) {
        kind.labels.insert(labels::INSTANCE_CATEGORY.into(), category.into());
    }
    let bought = |patch: serde_json::Value, of_class: Requirements| {
        let mut snapshot = with_pods(&[("web", 1, spec(500, 512))]);
        snapshot.classes[0].instance_types = Arc::new(kinds.clone());
        snapshot.classes[0].class.requirements = of_class;
        snapshot.node_pools = vec![pool("default", patch)];
        let (plan, _) = planned(&snapshot);
        plan.nodes[0].instance_types.iter().map(|kind| kind.name.clone()).collect::<Vec<_>>()
    };
    let none = Requirements::new;
    assert_eq!(bought(json!({}), none()), ["m6a.large"]);
    assert_eq!(bought(requiring(&[(FAMILY, "NotIn", &["c6a"])]), none()), ["m6a.large"]);
    let both = ["t3a.large", "m6a.large"];
    assert_eq!(bought(requiring(&[(labels::INSTANCE_CATEGORY, "In", &["m", "t"])]), none()), both);
    assert_eq!(bought(requiring(&[(FAMILY, "In", &["m6a", "t3a"])]), none()), both);
    let listed = none().with(labels::INSTANCE_TYPE, Requirement::any_of(["t3a.large"]));
    assert_eq!(bought(json!({}), listed), ["t3a.large"], "the InstanceGroup lists it");
}

#[test]
fn planned_nodes_carry_the_hashes_by_which_they_drift() {
    let mut snapshot = with_pods(&[("web", 2, spec(500, 512))]);
    let hashes = |snapshot: &Snapshot| {
        let (plan, _) = provision(snapshot, &Options::default());
        let annotation = |key: &str| plan.nodes[0].spec.annotations.get(key).cloned();
        (annotation(labels::NODE_POOL_HASH), annotation(labels::NODE_CLASS_HASH))
    };
    let of_pool = Some(snapshot.node_pools[0].template_hash());
    assert_eq!(hashes(&snapshot), (of_pool.clone(), None), "the class only plans");
    let class = &mut snapshot.classes[0].class;
    class.launch = LaunchTemplate::Borrowed { name: "nodes.c".into(), version: "1".into() };
    let of_class = class.template_hash();
    assert!(of_class.is_some());
    assert_eq!(hashes(&snapshot), (of_pool, of_class));
}

#[test]
fn limits() {
    let mut snapshot = cluster();
    let large = requiring(&[("karpenter.k8s.aws/instance-size", "In", &["large"])]);
    for (name, weight, limit) in [("first", 3, json!({"cpu": "4"})), ("second", 2, json!({"nodes": "1"}))] {
        let mut limited = pool(name, large.clone());
        limited.spec.weight = Some(weight);
        limited.spec.limits = serde_json::from_value(limit).unwrap();
        snapshot.node_pools.push(limited);
    }
    snapshot.pods = pods("web", 8, spec(900, 512));
    check_snapshot(
        "limits",
        "A pool stops at its limits, nodes among them; the next one goes on; then the limit is the reason.",
        &snapshot,
    );
}

#[test]
fn limits_count_what_is_there() {
    let mut snapshot = cluster();
    let mut limited = pool("default", json!({}));
    limited.spec.limits = Some(Resources::new().with("cpu", Quantity::units(10)));
    snapshot.node_pools.push(limited);
    let mut full = node("i-full", "m6a.2xlarge");
    full.labels.insert(labels::NODE_POOL.into(), "default".into());
    full.labels.insert(labels::INITIALIZED.into(), "true".into());
    snapshot.nodes.push(full);
    snapshot.pods = bound("i-full", pods("old", 1, spec(7_900, 512)));
    snapshot.pods.extend(pods("web", 4, spec(900, 512)));
    check_snapshot(
        "limits_used",
        "Nodes of the pool count against its limits; only types that still fit are offered.",
        &snapshot,
    );
}

#[test]
fn existing_nodes() {
    let mut snapshot = with_pods(&[
        ("web", 4, spec(500, 512)),
        ("arm", 1, spec_with(500, 512, selecting(labels::ARCH, "arm64"))),
    ]);
    snapshot.daemon_sets.push(daemon_set("logs", spec(200, 128)));
    snapshot.nodes = vec![node("i-asg", "m6a.large")];
    let mut old = bound("i-asg", pods("old", 1, spec(300, 512)));
    old.extend(bound("i-asg", pods("gone", 1, spec(1_000, 512))));
    old[1].state = PodState::Finished;
    snapshot.pods.extend(old);
    check_snapshot(
        "existing_nodes",
        "Room that is there is used first, less running pods and the daemonset that will come.",
        &snapshot,
    );
}

#[test]
fn nodes_that_take_no_pods() {
    let mut snapshot = with_pods(&[("web", 1, spec(500, 512))]);
    let mut closed: Vec<Node> =
        ["i-sick", "i-cordoned", "i-leaving", "i-tainted"].map(|n| node(n, "m6a.large")).into();
    closed[0].ready = false;
    closed[1].unschedulable = true;
    closed[2].deleting = true;
    closed[3].taints.push(Taint::new("node-role.kubernetes.io/control-plane", "", TaintEffect::NoSchedule));
    snapshot.nodes = closed;
    check_snapshot("closed_nodes", "Sick, cordoned, leaving and tainted nodes take no pods.", &snapshot);
}

#[test]
fn young_nodes() {
    let mut snapshot = cluster();
    snapshot
        .node_pools
        .push(pool("default", json!({"template": {"spec": {"startupTaints": [taint("starting")]}}})));
    snapshot.pods = pods("web", 1, spec(500, 512));
    let mut young = node("i-young", "m6a.large");
    young.labels.insert(labels::NODE_POOL.into(), "default".into());
    young.ready = false;
    young.taints = ["node.kubernetes.io/not-ready", "starting", labels::UNREGISTERED_TAINT]
        .map(|key| Taint::new(key, "", TaintEffect::NoSchedule))
        .into();
    snapshot.nodes.push(young);
    check_snapshot(
        "young_nodes",
        "A node of ours that is starting takes pods; what goes away by itself does not keep them off.",
        &snapshot,
    );
    snapshot.nodes[0].labels.insert(labels::INITIALIZED.into(), "true".into());
    check_snapshot(
        "old_and_not_ready",
        "The same node, once initialised, takes none while it is not ready.",
        &snapshot,
    );
}

#[test]
fn claims_in_flight() {
    let first = with_pods(&[
        ("web", 3, spec(500, 512)),
        ("zonal", 1, spec_with(200, 512, selecting(labels::ZONE, ZONES[1]))),
    ]);
    let (plan, _) = planned(&first);
    let second = applied(&first, &plan);
    check_snapshot(
        "second_tick",
        "A second decision finds the pods' places on the claims and launches nothing.",
        &second,
    );

    let mut launched = second.clone();
    for (index, claim) in launched.claims.iter_mut().enumerate() {
        claim.status.state = ClaimState::Launched;
        claim.status.instance = Some(Instance {
            instance_type: claim.instance_types[0].clone(),
            zone: ZONES[1].into(),
            ..outrigger_model::fixtures::instance(&format!("i-{index:017}"))
        });
    }
    launched.pods.extend(pods("more", 2, spec(100, 128)));
    check_snapshot("launched", "A launched claim takes more pods while its machine has room.", &launched);

    let mut waiting = launched.clone();
    for pod in waiting.pods.iter_mut().filter(|pod| pod.id.name.starts_with("web")) {
        pod.state = PodState::Waiting;
    }
    waiting.pods.extend(pods("late", 1, spec(1_500, 128)));
    check_snapshot(
        "held",
        "The room of nominated pods that the scheduler has not judged yet is not given away.",
        &waiting,
    );

    let mut draining = second;
    draining.claims.iter_mut().for_each(|claim| claim.status.state = ClaimState::Draining);
    check_snapshot(
        "draining",
        "A claim that drains takes no pods, nor does a pod's nomination to it hold.",
        &draining,
    );
}

#[test]
fn joined_claims() {
    let first = with_pods(&[("web", 3, spec(500, 512))]);
    let (plan, _) = planned(&first);
    let mut joined = applied(&first, &plan);
    let claim = &mut joined.claims[0];
    claim.status.state = ClaimState::Registered;
    claim.status.node_name = Some("i-joined".into());
    let mut young = node("i-joined", &claim.instance_types[0]);
    young.labels.extend(claim.spec.labels.clone());
    young.allocatable = Resources::new();
    joined.nodes.push(young);
    for pod in &mut joined.pods {
        pod.nominated_node = Some("i-joined".into());
    }
    check_snapshot(
        "joined",
        "A claim and its node count once; what the young node does not show yet is taken from the claim.",
        &joined,
    );
}

#[test]
fn capacity_types() {
    check_snapshot(
        "capacity_types",
        "Pods that need on-demand do not drag the others there; those fill gaps at most.",
        &with_pods(&[
            ("steady", 3, spec_with(600, 1_024, selecting(labels::CAPACITY_TYPE, "on-demand"))),
            ("web", 12, spec(600, 1_024)),
        ]),
    );
    let mut dear = with_pods(&[("web", 2, spec(500, 512))]);
    let mut types = crate::fixtures::catalogue();
    for offering in types.iter_mut().flat_map(|t| &mut t.offerings) {
        if offering.capacity_type == CapacityType::Spot {
            offering.price = offering.price.percent(400);
        }
    }
    dear.classes[0].instance_types = types.into();
    check_snapshot("spot_is_dearer", "On-demand is chosen where spot costs more.", &dear);
}

#[test]
fn unavailable_offerings() {
    let mut snapshot = with_pods(&[("web", 2, spec(500, 512))]);
    let lacking = |instance_type: &str, zone: &str, until: &str| UnavailableOffering {
        instance_type: instance_type.into(),
        zone: zone.into(),
        capacity_type: CapacityType::Spot,
        until: until.parse().unwrap(),
        reason: "InsufficientInstanceCapacity".into(),
        failures: 1,
    };
    snapshot.unavailable = vec![
        lacking("c6a.large", "*", "2026-11-20T12:03:00Z"),
        lacking("*", ZONES[0], "2026-11-20T12:03:00Z"),
        lacking("m6g.large", ZONES[1], "2026-11-20T11:59:00Z"),
    ];
    check_snapshot(
        "unavailable",
        "What EC2 could not supply is left alone until its time is over.",
        &snapshot,
    );
}

#[test]
fn min_values() {
    let keeping = |count: u32| {
        json!({"template": {"spec": {"requirements": [
            {"key": "karpenter.k8s.aws/instance-family", "operator": "Exists", "minValues": count}]}}})
    };
    let mut snapshot = cluster();
    snapshot.node_pools.push(pool("default", keeping(4)));
    snapshot.pods = pods("web", 2, spec(500, 512));
    check_snapshot(
        "min_values",
        "As many families as the pool wants are offered, past the price margin if need be.",
        &snapshot,
    );
    snapshot.node_pools = vec![pool("default", keeping(6))];
    check_snapshot("min_values_unmet", "A pool that cannot keep its minValues launches nothing.", &snapshot);
}

#[test]
fn pools_that_cannot_launch() {
    let mut snapshot = cluster();
    snapshot.pods = pods("web", 1, spec(500, 512));
    check_snapshot("no_pools", "Without a pool the report says so.", &snapshot);
    let lost = json!({"template": {"spec": {"nodeClassRef": {"name": "lost"}}}});
    snapshot.node_pools =
        vec![pool("default", json!({})), pool("lost", lost), pool("static", json!({"replicas": 2}))];
    snapshot.classes[0].class.not_ready = Some("its image was not found".into());
    check_snapshot(
        "not_ready",
        "A pool whose class is missing or not ready refuses with that reason.",
        &snapshot,
    );
}

#[test]
fn node_cost_decides_between_many_and_few() {
    // On demand, where the cheapest type is what EC2 picks.
    let on_demand = selecting(labels::CAPACITY_TYPE, "on-demand");
    let snapshot = with_pods(&[("web", 24, spec_with(450, 900, on_demand))]);
    let count = |dollars: f64| {
        let options = Options { node_price: Price::from_dollars(dollars), ..Options::default() };
        let (plan, report) = provision(&snapshot, &options);
        assert_eq!(referee::check_with_report(&snapshot, &plan, &report), []);
        assert_eq!(plan.node_price(), plan.nodes.iter().map(|_| Price::from_dollars(dollars).unwrap()).sum());
        plan.nodes.len()
    };
    assert!(count(0.0) > count(0.5), "{} nodes are free and {} dear", count(0.0), count(0.5));
}

#[test]
fn a_decision_that_runs_out_of_time_is_valid() {
    let snapshot = with_pods(&[
        ("steady", 1, spec_with(1_500, 512, selecting(labels::CAPACITY_TYPE, "on-demand"))),
        ("large", 9, spec(7_000, 512)),
        ("huge", 1, spec(500_000, 512)),
    ]);
    let asked = Cell::new(0);
    let time_is_up = || asked.replace(asked.get() + 1) > 0;
    let (plan, report) = provision(&snapshot, &Options { time_is_up: &time_is_up, ..Options::default() });
    assert_eq!(referee::check_with_report(&snapshot, &plan, &report), []);
    insta::assert_snapshot!(
        "out_of_time",
        rendered(
            "What was decided in time stands; what was not reached is left out, not refused.",
            &plan,
            &report
        )
    );
}
