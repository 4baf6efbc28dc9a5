//! What is read of objects that cannot be read whole: nothing that takes room, protects or
//! identifies is lost.

use k8s_openapi::api::{apps, core};
use outrigger_model::{DaemonSet, Invalid, Node, Pod, PodState};
use serde_json::{Value, json};

use super::{with, with_spec};
use crate::convert::{Interner, daemon_set, daemon_set_in_part, node, node_in_part, pod_in_part};
use crate::wire::read_value_in_part;

/// A pod that uses a toleration of a later Kubernetes, with these parts beside it.
fn of_tomorrow(parts: &Value) -> Pod {
    let mut object = json!({ "spec": {
        "containers": [{ "name": "main", "resources": { "requests": { "cpu": "1900m", "memory": "1Gi" } } }],
        "tolerations": [
            { "key": "a", "operator": "Exists" },
            { "key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule" },
        ],
    } });
    super::merge(&mut object, parts);
    with(&object).unwrap()
}

#[test]
fn a_pod_keeps_what_it_is_and_what_it_takes() {
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true }]);
    let pod = of_tomorrow(&json!({
        "metadata": { "ownerReferences": owner, "annotations": { "karpenter.sh/do-not-disrupt": "true" } },
        "spec": {
            "nodeName": "i-1",
            "priority": 7,
            "hostNetwork": true,
            "initContainers": [{ "name": "side", "restartPolicy": "Always", "ports": [{ "containerPort": 80 }] }],
            "volumes": [{ "name": "data", "persistentVolumeClaim": { "claimName": "data-0" } }],
        },
        "status": { "phase": "Running" },
    }));
    let problem = pod.degraded.as_ref().unwrap();
    let message = r#"Pod/shop/web-0: spec.tolerations[1].operator: found "Gt"; allowed: Equal or Exists"#;
    assert_eq!(problem.to_string(), message);
    assert_eq!(
        (pod.uid.as_str(), pod.id.to_string().as_str(), pod.labels["app"].as_str()),
        ("u-1", "shop/web-0", "web")
    );
    assert_eq!(
        (pod.node_name.as_deref(), pod.state, &*pod.owner_kind),
        (Some("i-1"), PodState::Bound, "ReplicaSet")
    );
    assert_eq!(pod.spec.requests.to_string(), "cpu 1900m, memory 1Gi, pods 1");
    assert_eq!((pod.spec.priority, pod.spec.host_ports.len(), pod.volume_claims.len()), (7, 1, 1));
    assert_eq!(pod.do_not_disrupt.unwrap().value, "true");
    assert_eq!(pod.spec.tolerations.len(), 1, "what can be read is kept, and the other bears nothing");
}

#[test]
fn a_drain_does_not_take_an_unread_toleration_for_one_of_its_taint() {
    let taint = json!({ "key": "karpenter.sh/disrupted", "operator": "Gt", "value": "1" });
    assert!(of_tomorrow(&json!({ "spec": { "tolerations": [taint] } })).is_drainable());
}

#[test]
fn labels_and_rules_that_are_sound_are_kept() {
    let away = json!({ "requiredDuringSchedulingIgnoredDuringExecution":
        [{ "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }] });
    let near = json!({ "requiredDuringSchedulingIgnoredDuringExecution":
        [{ "topologyKey": "zone", "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "Like" }] } }] });
    let pod = with(&json!({
        "metadata": { "labels": { "odd": "é" } },
        "spec": { "nodeSelector": { "disk": "ssd", "odd": "é" }, "affinity": { "podAffinity": near, "podAntiAffinity": away } },
    }))
    .unwrap();
    assert_eq!(pod.labels.keys().collect::<Vec<_>>(), ["app", "hash"]);
    assert_eq!(pod.spec.node_selector.keys().collect::<Vec<_>>(), ["disk"]);
    assert_eq!((pod.spec.pod_affinity.len(), pod.spec.pod_anti_affinity.len()), (0, 1));
    assert!(pod.degraded.unwrap().field.starts_with("metadata.labels[odd]"));
}

#[test]
fn an_amount_that_cannot_be_read_is_all_that_there_is() {
    let requests = json!({ "cpu": "1", "memory": "plenty" });
    let container = json!({ "name": "a", "resources": { "requests": requests },
        "ports": [{ "hostPort": 70_000 }, { "hostPort": 443 }] });
    let pod = with_spec(&json!({ "containers": [container] })).unwrap();
    assert_eq!(pod.spec.requests.to_string(), "cpu 1, memory 9223372036854775807, pods 1");
    assert_eq!(pod.spec.host_ports.len(), 1);
    assert_eq!(pod.degraded.unwrap().actual, "\"plenty\"");
}

#[test]
fn only_what_has_no_name_or_no_spec_is_refused() {
    for parts in [json!({ "metadata": { "name": "" } }), json!({ "spec": null })] {
        assert!(with(&parts).is_err(), "{parts}");
    }
    assert!(node(core::v1::Node::default()).is_err());
}

/// An object as a file may hold it, with values that do not fit their fields.
fn pod_of(object: &Value) -> Result<Pod, Invalid> {
    let read = read_value_in_part::<core::v1::Pod>("Pod", object);
    read.and_then(|part| pod_in_part(part, &mut Interner::default()))
}

#[test]
fn values_of_another_form_are_left_out_by_themselves() {
    let base = json!({ "metadata": { "name": "p", "namespace": "n" }, "spec": { "nodeName": "i-1", "containers": [
        { "name": "a", "resources": { "requests": { "cpu": "1" } } }] } });
    let with = |parts: &Value| {
        let mut object = base.clone();
        super::merge(&mut object, parts);
        pod_of(&object).unwrap()
    };
    let late =
        with(&json!({ "spec": { "tolerations": [{ "operator": "Exists", "tolerationSeconds": "soon" }] } }));
    assert_eq!(late.degraded.unwrap().field, "spec.tolerations[0].tolerationSeconds");
    assert_eq!(late.spec.requests.to_string(), "cpu 1, pods 1");
    let odd = with(
        &json!({ "spec": { "containers": [{ "name": "a", "resources": { "requests": { "cpu": [1] } } }] } }),
    );
    assert_eq!(odd.degraded.unwrap().field, "spec.containers[0].resources.requests.cpu");
    assert!(odd.spec.requests.to_string().starts_with("cpu 9223372036854775807,"), "{}", odd.spec.requests);
    let two = with(&json!({ "metadata": { "labels": ["a"] }, "status": { "conditions": "none" } }));
    assert_eq!((two.degraded.unwrap().field.as_str(), two.labels.len()), ("metadata.labels", 0));
    assert!(pod_of(&json!({ "metadata": { "name": 7 }, "spec": {} })).is_err(), "nobody knows which it is");
}

fn daemon_set_of(template_spec: &Value) -> DaemonSet {
    let object = json!({ "metadata": { "namespace": "kube-system", "name": "agent" },
        "spec": { "template": { "spec": template_spec } } });
    let read: apps::v1::DaemonSet = serde_json::from_value(object).unwrap();
    daemon_set(read, &mut Interner::default()).unwrap()
}

#[test]
fn room_is_kept_for_a_daemonset_wherever_it_may_come() {
    let container = json!({ "name": "a", "resources": { "requests": { "cpu": "100m", "memory": "much" } } });
    let set = daemon_set_of(&json!({
        "containers": [container],
        "tolerations": [{ "key": "sla", "operator": "Lt", "value": "3", "effect": "NoSchedule" }],
    }));
    assert_eq!(
        set.degraded.as_ref().unwrap().to_string(),
        "DaemonSet/kube-system/agent: spec.template.spec.containers[0].resources.requests.memory: found \"much\"; \
         allowed: a quantity such as 500m, 2 or 1.5Gi, from 0 to below 2^63"
    );
    assert_eq!(set.spec.requests.to_string(), "cpu 100m, pods 1");
    let taint = outrigger_model::Taint::new("sla", "2", outrigger_model::TaintEffect::NoSchedule);
    assert!(set.spec.tolerations.iter().any(|toleration| toleration.tolerates(&taint)));
    let object = json!({ "metadata": { "name": "agent" }, "spec": { "minReadySeconds": "few", "template": { "spec": { "containers": [] } } } });
    let part = read_value_in_part::<apps::v1::DaemonSet>("DaemonSet", &object).unwrap();
    let read = daemon_set_in_part(part, &mut Interner::default()).unwrap();
    assert_eq!(read.degraded.unwrap().field, "spec.minReadySeconds");
}

fn node_of(parts: &Value) -> Node {
    let mut object = json!({
        "metadata": { "name": "i-1", "labels": { "zone": "a" } },
        "spec": { "providerID": "aws:///a/i-1" },
        "status": { "allocatable": { "cpu": "4" }, "capacity": { "cpu": "4" } },
    });
    super::merge(&mut object, parts);
    node_in_part(read_value_in_part::<core::v1::Node>("Node", &object).unwrap()).unwrap()
}

#[test]
fn a_node_is_never_lost() {
    let taints =
        json!([{ "key": "a", "effect": "NoExecute" }, { "key": "b", "value": "c", "effect": "Maybe" }]);
    let odd = node_of(&json!({ "spec": { "taints": taints } }));
    assert_eq!(
        odd.degraded.unwrap().to_string(),
        r#"Node/i-1: spec.taints[1].effect: found "Maybe"; allowed: NoSchedule, PreferNoSchedule or NoExecute"#
    );
    assert_eq!((odd.taints.len(), odd.foreign_taints.len()), (1, 1));
    assert_eq!(
        serde_json::to_value(&odd.foreign_taints).unwrap(),
        json!([{ "key": "b", "value": "c", "effect": "Maybe" }]),
        "they are written back as they are"
    );
    let table = [
        (json!({ "metadata": { "labels": { "odd": "é" } } }), "metadata.labels[odd]"),
        (json!({ "status": { "allocatable": { "memory": "much" } } }), "status.allocatable.memory"),
        (json!({ "status": { "capacity": { "memory": [] } } }), "status.capacity.memory"),
        (
            json!({ "spec": { "taints": vec![json!({ "key": "a", "effect": "NoSchedule" }); 1_001] } }),
            "spec.taints",
        ),
    ];
    for (parts, field) in table {
        let read = node_of(&parts);
        assert_eq!(read.degraded.as_ref().unwrap().field, field);
        assert_eq!(
            (read.instance_id(), read.labels.get("zone").map(String::as_str)),
            (Some("i-1"), Some("a")),
            "{field}"
        );
        assert_eq!(read.allocatable.get("cpu").to_string(), "4", "{field}");
    }
}

#[test]
fn a_node_may_say_much_of_itself() {
    let labels: serde_json::Map<_, _> = (0..5_000).map(|n| (format!("feature-{n}"), json!("true"))).collect();
    let devices: serde_json::Map<_, _> =
        (0..500).map(|n| (format!("example.com/d{n}"), json!("1"))).collect();
    let read = node_of(&json!({ "metadata": { "labels": labels }, "status": { "allocatable": devices } }));
    assert_eq!((read.degraded, read.labels.len(), read.allocatable.iter().count()), (None, 5_001, 501));
}
