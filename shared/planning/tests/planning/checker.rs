//! The plan checker finds what is wrong: a good plan, broken in one way at a time.

use outrigger_model::{
    CapacityType, ExistingPlacement, Node, Plan, Quantity, Resources, Snapshot, Taint, TaintEffect, Target,
    labels,
};
use outrigger_planning::check;
use serde_json::json;

use crate::fixtures::{
    applied, cluster, daemon_set, node, planned, pods, pool, selecting, spec, spec_with, taint,
};

/// A batch pool with a limit, two kinds of tolerant pods that fill two nodes, and a free node that they may not use.
fn good() -> (Snapshot, Plan) {
    let mut snapshot = cluster();
    snapshot.node_pools.push(pool(
        "batch",
        json!({"limits": {"cpu": "32"}, "template": {"spec": {"taints": [taint("batch")]}}}),
    ));
    let with = |mut patch: serde_json::Value| {
        patch["tolerations"] = json!([{"key": "batch", "operator": "Exists"}]);
        spec_with(1_700, 512, patch)
    };
    snapshot.pods = pods("arm", 1, with(selecting(labels::ARCH, "arm64")));
    snapshot.pods.extend(pods("amd", 1, with(selecting(labels::ARCH, "amd64"))));
    let mut free: Node = node("i-free", "m6a.large");
    free.taints.push(Taint::new("other", "", TaintEffect::NoSchedule));
    snapshot.nodes.push(free);
    let (plan, _) = planned(&snapshot);
    assert_eq!(plan.nodes.len(), 2);
    (snapshot, plan)
}

#[test]
fn each_fault_is_found() {
    type Fault = fn(&mut Snapshot, &mut Plan);
    let table: [(&str, Fault); 17] = [
        ("found 2 times", |_, plan| {
            let pod = plan.nodes[0].pods[0].clone();
            plan.nodes[1].pods.push(pod);
        }),
        ("wait for a node", |_, plan| plan.nodes[0].pods[0].uid = "another".into()),
        ("against kubernetes.io/arch arm64", |_, plan| plan.nodes.swap_pods()),
        ("cpu 2050m is asked", |snapshot, _| {
            snapshot.daemon_sets.push(daemon_set("logs", {
                let mut logs = spec(350, 1);
                logs.tolerations = snapshot.pods[0].spec.tolerations.clone();
                logs
            }));
        }),
        ("does not tolerate batch", |snapshot, _| {
            let mut strict = (*snapshot.pods[0].spec).clone();
            strict.tolerations.clear();
            snapshot.pods[0].spec = strict.into();
        }),
        ("lacks a taint", |_, plan| plan.nodes[0].taints.clear()),
        ("cannot be had", |_, plan| plan.nodes[0].zones.clear()),
        ("cannot be had", |_, plan| plan.nodes[0].capacity_type = CapacityType::OnDemand),
        ("class is not ready", |snapshot, _| snapshot.classes[0].class.not_ready = Some("gone".into())),
        ("does not offer", |_, plan| plan.nodes[0].instance_types[0].name = "x1.huge".into()),
        ("order of price", |_, plan| plan.nodes[0].instance_types.reverse()),
        ("used twice", |_, plan| plan.nodes[1].claim = plan.nodes[0].claim.clone()),
        ("reserves less", |_, plan| plan.nodes[0].reserved = Resources::new()),
        ("promises more", |_, plan| plan.nodes[0].allocatable.set("cpu", Quantity::units(99))),
        ("allowed: 1", |snapshot, _| {
            snapshot.node_pools[0].spec.limits = Some(Resources::new().with("nodes", Quantity::units(1)));
        }),
        ("does not tolerate other", |_, plan| {
            let pods = std::mem::take(&mut plan.nodes[0].pods);
            plan.existing.push(ExistingPlacement { target: Target::Node("i-free".into()), pods });
        }),
        ("no such claim", |_, plan| {
            let pods = std::mem::take(&mut plan.nodes[0].pods);
            plan.existing.push(ExistingPlacement { target: Target::Claim("lost".into()), pods });
        }),
    ];
    for (expected, fault) in table {
        let (mut snapshot, mut plan) = good();
        assert_eq!(check::check(&snapshot, &plan), []);
        fault(&mut snapshot, &mut plan);
        let found: Vec<String> = check::check(&snapshot, &plan).iter().map(ToString::to_string).collect();
        assert!(found.iter().any(|text| text.contains(expected)), "{expected}: {found:#?}");
    }
}

/// Exchanges the pods of two nodes.
trait SwapPods {
    fn swap_pods(&mut self);
}

impl SwapPods for Vec<outrigger_model::PlannedNode> {
    fn swap_pods(&mut self) {
        let (first, rest) = self.split_at_mut(1);
        std::mem::swap(&mut first[0].pods, &mut rest[0].pods);
    }
}

#[test]
fn a_claim_in_flight_must_hold_its_pods_as_every_type() {
    let (snapshot, plan) = good();
    let mut second = applied(&snapshot, &plan);
    let (again, _) = planned(&second);
    assert_eq!(again.existing.len(), 2);
    for (claim, other) in second.claims.iter_mut().zip(["c6a.large", "m6g.large"]) {
        assert!(!claim.instance_types.iter().any(|name| name == other));
        claim.instance_types.push(other.into());
    }
    let found: Vec<String> = check::check(&second, &again).iter().map(ToString::to_string).collect();
    assert!(found.len() == 2 && found.iter().all(|text| text.contains("kubernetes.io/arch")), "{found:#?}");
}

#[test]
fn a_pod_that_nobody_speaks_of_is_found() {
    let (mut snapshot, plan) = good();
    let (_, mut report) = planned(&snapshot);
    snapshot.pods.extend(pods("late", 1, spec(1, 1)));
    let found = check::check_with_report(&snapshot, &plan, &report);
    assert_eq!(
        found[0].to_string(),
        "pod default/late-0: found 0 times in the plan and its report; allowed: once"
    );
    report.pods.remove(0);
    assert_eq!(check::check_with_report(&snapshot, &plan, &report).len(), 2);
}
