//! What pools and their settings decide: limits, weights, fixed sizes, prices, headroom,
//! priorities, groups.

use outrigger_model::{CapacityType, Offering, Price, Reservation, Snapshot};
use outrigger_tests::objects::requirement;
use serde_json::{Value, json};
use std::sync::Arc;

use super::objects::{default_pool, node, on, pods, pool, with};
use super::scenario::Scenario;

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        limits(),
        limit_of_nodes(),
        weights(),
        static_pool(),
        price_overlay(),
        capacity_overlay(),
        buffer(),
        reserved(),
        priorities(),
        groups(),
        running_nodes(),
        starting_node(),
    ]
}

fn limits() -> Scenario {
    let small = pool("small", &[], &json!({"limits": {"cpu": "12", "memory": "64Gi"}, "weight": 50}));
    Scenario::new("limits", vec![small, default_pool()], pods("web", 60, "500m", "1Gi", &json!({})))
}

fn limit_of_nodes() -> Scenario {
    let few = pool("few", &[], &json!({"limits": {"nodes": "1"}, "weight": 50}));
    let mut pending = pods("web", 40, "500m", "1Gi", &json!({}));
    pending.extend(pods("wide", 4, "6", "8Gi", &json!({})));
    Scenario::new("limit of nodes", vec![few, default_pool()], pending)
}

fn weights() -> Scenario {
    let family = |name: &str| requirement("karpenter.k8s.aws/instance-family", "In", &[name]);
    let first = pool("first", &[family("m7i")], &json!({"weight": 90}));
    let second = pool("second", &[family("c7i")], &json!({"weight": 10}));
    let mut pending = pods("web", 40, "600m", "1Gi", &json!({}));
    pending.extend(pods(
        "compute",
        15,
        "900m",
        "1Gi",
        &json!({"nodeSelector": {"karpenter.k8s.aws/instance-category": "c"}}),
    ));
    Scenario::new("weights", vec![first, second], pending)
}

fn static_pool() -> Scenario {
    let one_type = requirement("node.kubernetes.io/instance-type", "In", &["m5.large"]);
    let fixed = pool("fixed", &[one_type], &json!({"replicas": 3}));
    Scenario::new("static pool", vec![fixed, default_pool()], pods("web", 40, "600m", "1Gi", &json!({})))
}

fn overlay(name: &str, requirement: &Value, spec: &Value) -> Value {
    let mut overlay = json!({
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"weight": 10, "requirements": [requirement]},
    });
    super::objects::merge(&mut overlay["spec"], spec);
    overlay
}

fn price_overlay() -> Scenario {
    let family = requirement("karpenter.k8s.aws/instance-family", "In", &["m6i"]);
    let cheap = overlay("cheap", &family, &json!({"priceAdjustment": "-60%"}));
    Scenario::new("price overlay", vec![default_pool(), cheap], pods("web", 40, "600m", "2Gi", &json!({})))
}

fn capacity_overlay() -> Scenario {
    let family = requirement("karpenter.k8s.aws/instance-family", "In", &["m6i"]);
    let cards = overlay("cards", &family, &json!({"capacity": {"example.com/card": "4"}}));
    let container = json!({
        "name": "main",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi", "example.com/card": "1"},
            "limits": {"example.com/card": "1"},
        },
    });
    let mut pending = pods("card", 12, "500m", "1Gi", &json!({"containers": [container]}));
    pending.extend(pods("free", 20, "500m", "1Gi", &json!({})));
    Scenario::new("capacity overlay", vec![default_pool(), cards], pending)
}

fn buffer() -> Scenario {
    let template = json!({
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "burst", "namespace": "default"},
        "template": {"metadata": {"labels": {"app": "burst"}}, "spec": pods("burst", 1, "1", "2Gi", &json!({}))[0]["spec"]},
    });
    let buffer = json!({
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": "burst", "namespace": "default"},
        "spec": {"podTemplateRef": {"name": "burst"}, "replicas": 8},
    });
    Scenario::new(
        "buffer",
        vec![default_pool(), template, buffer],
        pods("web", 40, "600m", "1Gi", &json!({})),
    )
}

/// Three m5.2xlarge in zone b are paid for already.
fn reserved() -> Scenario {
    let kinds = requirement("karpenter.sh/capacity-type", "In", &["reserved", "spot", "on-demand"]);
    let any = pool("default", &[kinds], &json!({}));
    let scenario = Scenario::new("reservation", vec![any], pods("web", 60, "600m", "2Gi", &json!({})));
    Scenario { adjust: add_reservation, ..scenario }
}

fn add_reservation(snapshot: &mut Snapshot) {
    // Each node that has joined on the reservation has taken one of its instances.
    let taken = snapshot.nodes.iter().filter(|node| {
        node.labels.get(outrigger_model::labels::CAPACITY_TYPE).is_some_and(|kind| kind == "reserved")
    });
    let count = 3_u32.saturating_sub(u32::try_from(taken.count()).unwrap_or(u32::MAX));
    let reservation = Reservation { id: "cr-0123456789abcdef0".into(), count, total: None };
    for class in &mut snapshot.classes {
        let kinds = Arc::make_mut(&mut class.instance_types);
        for kind in kinds.iter_mut().filter(|kind| kind.name == "m5.2xlarge") {
            kind.offerings.push(Offering {
                zone: "us-east-1b".into(),
                capacity_type: CapacityType::Reserved,
                price: Price::ZERO,
                available: count > 0,
                reservation: Some(reservation.clone()),
                interruption: None,
            });
        }
    }
}

pub(super) fn priority_class(name: &str, value: i32) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    })
}

/// The limit has room for the important ones only.
fn priorities() -> Scenario {
    let limited = pool("default", &[], &json!({"limits": {"cpu": "16"}}));
    let ranked = |class: &str, value: i32| json!({"priorityClassName": class, "priority": value});
    let mut pending = pods("minor", 40, "900m", "1Gi", &ranked("minor", 10));
    pending.extend(pods("major", 12, "1", "1Gi", &ranked("major", 1000)));
    let objects = vec![limited, priority_class("minor", 10), priority_class("major", 1000)];
    Scenario { optional: "minor", ..Scenario::new("priorities under a limit", objects, pending) }
}

/// One group fits, the other can never be whole: not one pod of it is placed.
fn groups() -> Scenario {
    let grouped = |name: &str, count: usize, spec: &Value| {
        let annotation = json!({"metadata": {"annotations": {"outrigger.dev/pod-group": name}}});
        with(pods(name, count, "900m", "1Gi", spec), &annotation)
    };
    let mut pending = grouped("ranks", 16, &json!({}));
    let mut broken = grouped("broken", 10, &json!({}));
    broken[3]["spec"]["nodeSelector"] = json!({"nowhere": "at-all"});
    pending.extend(broken);
    pending.extend(pods("free", 20, "500m", "1Gi", &json!({})));
    Scenario { optional: "broken", ..Scenario::new("pod groups", vec![default_pool()], pending) }
}

fn running_nodes() -> Scenario {
    let mut objects = vec![default_pool()];
    for (index, zone) in ["us-east-1a", "us-east-1b", "us-east-1c"].into_iter().enumerate() {
        let name = format!("old-{index}");
        objects.push(node(&name, zone));
        objects.extend(on(&name, pods(&format!("run-{index}"), 4, "1300m", "3Gi", &json!({}))));
    }
    let mut pending = pods("web", 50, "500m", "1Gi", &json!({}));
    pending.extend(pods("wide", 5, "3", "4Gi", &json!({})));
    Scenario::new("running nodes", objects, pending)
}

/// A node has joined and is not ready yet: what it has room for needs no new node.
fn starting_node() -> Scenario {
    let mut starting = node("young", "us-east-1a");
    if let Some(labels) = starting["metadata"]["labels"].as_object_mut() {
        labels.remove("karpenter.sh/initialized");
    }
    starting["spec"]["taints"] = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
    let mut pending = pods("web", 30, "500m", "1Gi", &json!({}));
    pending.extend(pods("wide", 3, "2", "4Gi", &json!({})));
    Scenario::new("starting node", vec![default_pool(), starting], pending)
}
