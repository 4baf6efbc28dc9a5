//! Where pods stand, whose they are, and what a file may leave out.

use k8s_openapi::api::core::v1 as wire;
use outrigger_model::{PodState, Readiness};
use serde_json::{Value, json};

use super::with;
use crate::convert::{Interner, pod};

#[track_caller]
fn stands(parts: &Value, expected: PodState) {
    assert_eq!(with(parts).unwrap().state, expected, "{parts}");
}

#[test]
fn states() {
    let judged = |reason: &str| {
        json!({
            "phase": "Pending",
            "conditions": [{ "type": "PodScheduled", "status": "False", "reason": reason }],
        })
    };
    stands(&json!({}), PodState::Waiting);
    stands(&json!({ "status": { "phase": "Pending" } }), PodState::Waiting);
    stands(&json!({ "status": judged("Unschedulable") }), PodState::Unschedulable);
    stands(&json!({ "status": judged("SchedulingGated") }), PodState::Waiting);
    let gated =
        json!({ "spec": { "schedulingGates": [{ "name": "wait" }] }, "status": judged("Unschedulable") });
    stands(&gated, PodState::Gated);
    stands(&json!({ "spec": { "nodeName": "n" }, "status": { "phase": "Running" } }), PodState::Bound);
    stands(&json!({ "spec": { "nodeName": "n" }, "status": judged("Unschedulable") }), PodState::Bound);
    stands(&json!({ "spec": { "nodeName": "" } }), PodState::Waiting);
    for phase in ["Succeeded", "Failed"] {
        let finished = json!({
            "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" },
            "spec": { "nodeName": "n" },
            "status": { "phase": phase },
        });
        stands(&finished, PodState::Finished);
    }
    let failed = |reason: &str, message: &str| {
        let status = json!({ "phase": "Failed", "reason": reason, "message": message });
        json!({ "spec": { "nodeName": "n" }, "status": status })
    };
    stands(&failed("OutOfcpu", "Node didn't have enough resource: cpu"), PodState::Refused);
    stands(&failed("NodeAffinity", "Pod was rejected: Predicate NodeAffinity failed"), PodState::Refused);
    stands(&failed("Evicted", "The node was low on resource: memory."), PodState::Finished);
    let deleting = json!({
        "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "nodeName": "n" },
        "status": { "phase": "Running" },
    });
    stands(&deleting, PodState::Terminating);
}

#[test]
fn other_schedulers_pods_count_as_well() {
    let parts = json!({
        "spec": { "schedulerName": "volcano" },
        "status": { "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] },
    });
    assert!(with(&parts).unwrap().is_provisionable());
}

#[test]
fn deletion_costs() {
    let cost_of = |annotations: Value| {
        let cost = with(&json!({ "metadata": { "annotations": annotations } })).unwrap().deletion_cost?;
        Some((cost.cost, cost.is_ours()))
    };
    let key = "controller.kubernetes.io/pod-deletion-cost";
    assert_eq!(cost_of(json!({})), None);
    assert_eq!(cost_of(json!({ key: "-7" })), Some((-7, false)));
    assert_eq!(cost_of(json!({ key: "-7", "outrigger.dev/deletion-cost": "-7" })), Some((-7, true)));
    assert_eq!(cost_of(json!({ key: "-8", "outrigger.dev/deletion-cost": "-7" })), Some((-8, false)));
}

#[test]
fn owners() {
    let kind_of = |owners: Value, annotations: Value| {
        let parts = json!({ "metadata": { "ownerReferences": owners, "annotations": annotations } });
        with(&parts).unwrap().owner_kind.to_string()
    };
    let owner = |kind: &str, controller: bool| json!({ "apiVersion": "v1", "kind": kind, "name": "x", "uid": "y", "controller": controller });
    assert_eq!(kind_of(json!([]), json!({})), "");
    assert_eq!(
        kind_of(json!([owner("ConfigMap", false), owner("ReplicaSet", true)]), json!({})),
        "ReplicaSet"
    );
    assert_eq!(kind_of(json!([owner("ConfigMap", false)]), json!({})), "");
    assert_eq!(kind_of(json!([owner("Foo", true), owner("DaemonSet", false)]), json!({})), "DaemonSet");
    assert_eq!(kind_of(json!([owner("Node", true)]), json!({})), "Node");
    assert_eq!(kind_of(json!([]), json!({ "kubernetes.io/config.mirror": "hash" })), "Node");
}

#[test]
fn a_daemonset_is_known_by_name() {
    let owned_by = |kind: &str| {
        let owner =
            json!({ "apiVersion": "apps/v1", "kind": kind, "name": "logs", "uid": "y", "controller": true });
        let parts = json!({ "metadata": { "namespace": "kube-system", "ownerReferences": [owner] } });
        with(&parts).unwrap().daemon_set.map(|set| set.to_string())
    };
    assert_eq!(owned_by("DaemonSet").as_deref(), Some("kube-system/logs"));
    assert_eq!(owned_by("ReplicaSet"), None);
}

#[test]
fn what_a_file_leaves_out_is_filled_in() {
    let read = |object: Value| {
        let wire: wire::Pod = serde_json::from_value(object).unwrap();
        pod(wire, &mut Interner::default())
    };
    let bare = read(json!({ "metadata": { "name": "a" }, "spec": { "containers": [] } })).unwrap();
    assert_eq!((bare.id.to_string().as_str(), bare.uid.as_str()), ("default/a", "default/a"));
    assert_eq!(bare.created_at, jiff::Timestamp::UNIX_EPOCH);
    let nameless = read(json!({ "spec": { "containers": [] } })).unwrap_err();
    assert_eq!(nameless.to_string(), "Pod/default/: metadata.name: found nothing; allowed: a name");
    let specless = read(json!({ "metadata": { "name": "a" } })).unwrap_err();
    assert_eq!(specless.to_string(), "Pod/default/a: spec: found nothing; allowed: a pod's spec");
}

#[test]
fn nominations_are_read() {
    let pod = with(&json!({ "status": { "nominatedNodeName": "n" } })).unwrap();
    assert_eq!(pod.nominated_node.as_deref(), Some("n"));
}

#[test]
fn equal_pods_share_what_they_have_in_common() {
    let mut interner = Interner::default();
    let mut read = |name: &str, cpu: &str| {
        let object = json!({
            "metadata": { "name": name, "labels": { "app": "web" } },
            "spec": { "containers": [{ "name": "a", "resources": { "requests": { "cpu": cpu } } }] },
        });
        pod(serde_json::from_value(object).unwrap(), &mut interner).unwrap()
    };
    let (a, b, c) = (read("a", "1"), read("b", "1000m"), read("c", "2"));
    assert!(std::sync::Arc::ptr_eq(&a.spec, &b.spec) && std::sync::Arc::ptr_eq(&a.labels, &c.labels));
    assert_ne!(a.spec, c.spec);
    drop((a, b));
    interner.forget_unused();
    assert_eq!(std::sync::Arc::strong_count(&c.spec), 2);
}

#[test]
fn whether_a_pod_on_a_node_serves_is_read_as_the_eviction_api_reads_it() {
    let ready = |status: &str| json!([{ "type": "Ready", "status": status }]);
    let table = [
        (json!({ "phase": "Running", "conditions": ready("True") }), Readiness::Ready),
        (json!({ "phase": "Running", "conditions": ready("False") }), Readiness::NotReady),
        (json!({ "phase": "Running", "conditions": ready("Unknown") }), Readiness::NotReady),
        (json!({ "phase": "Pending", "conditions": ready("False") }), Readiness::NotRunning),
        (json!({ "phase": "Pending" }), Readiness::NotRunning),
        (json!({ "phase": "Running" }), Readiness::Ready),
        (json!({}), Readiness::Ready),
    ];
    for (status, expected) in table {
        let on_node = with(&json!({ "spec": { "nodeName": "n" }, "status": status })).unwrap();
        assert_eq!(on_node.readiness, expected, "{status}");
        let waiting = with(&json!({ "status": status })).unwrap();
        assert_eq!(waiting.readiness, Readiness::Ready, "{status}");
    }
}
