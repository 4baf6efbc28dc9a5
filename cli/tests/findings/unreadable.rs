//! Pods, nodes and daemonsets that cannot be read whole, as when they use what a later Kubernetes
//! knows: they count where they are, nothing is planned for them, and whoever asks is told.

use serde_json::{Value, json};

use crate::objects::{daemon_pod, daemon_set, node, one_of, owned_by, pool, spec, spec_with, waiting};
use crate::{consolidate, first_reason, first_types, nodes, plan, run};

const TYPE: &str = "node.kubernetes.io/instance-type";

fn m5_large() -> Value {
    pool("general", &json!([one_of(TYPE, &["m5.large"])]))
}

/// A spec with a toleration that Kubernetes 1.35 knows.
fn tomorrow(cpu: &str) -> Value {
    let toleration =
        json!({"key": "corp.example/sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"});
    spec_with(cpu, "1Gi", &json!({"tolerations": [toleration]}))
}

/// A pod of a ReplicaSet that runs on a node.
fn running(name: &str, on: &str, spec: &Value) -> Value {
    let mut pod = waiting(name, 0, spec);
    pod["spec"]["nodeName"] = on.into();
    pod["status"] = json!({"phase": "Running"});
    pod["metadata"]["ownerReferences"] = owned_by("ReplicaSet", name);
    pod
}

/// A node of the pool.
fn own_node(name: &str) -> Value {
    let mut node = node(name);
    node["metadata"]["labels"]["karpenter.sh/nodepool"] = "general".into();
    node["metadata"]["labels"]["karpenter.sh/capacity-type"] = "on-demand".into();
    node["metadata"]["labels"]["karpenter.sh/registered"] = "true".into();
    node
}

/// What is kept, and all that is decided.
fn kept(objects: &[Value]) -> (Vec<Value>, Value) {
    let consolidation = consolidate(objects);
    (consolidation["kept"].as_array().cloned().unwrap_or_default(), consolidation)
}

#[test]
fn a_pod_that_cannot_be_read_whole_takes_its_room() {
    let objects = [
        m5_large(),
        node("i-1"),
        running("busy", "i-1", &tomorrow("1900m")),
        waiting("w", 0, &spec("1", "1Gi")),
    ];
    let planned = plan(&objects);
    assert_eq!((nodes(&planned).len(), planned["placedExisting"].as_u64()), (1, Some(0)));
    let problem = &planned["unreadable"][0];
    assert_eq!(problem["object"], "Pod/default/busy-0");
    assert_eq!(problem["field"], "spec.tolerations[0].operator");
}

// Nobody knows how much it takes, so that nobody else gets what may be its own.
#[test]
fn a_pod_of_which_an_amount_cannot_be_read_takes_all_of_it() {
    let odd = spec("some", "1Gi");
    let objects = [m5_large(), node("i-1"), running("busy", "i-1", &odd), waiting("w", 0, &spec("1", "1Gi"))];
    assert_eq!(nodes(&plan(&objects)).len(), 1);
}

#[test]
fn its_node_is_not_empty() {
    let (kept, consolidation) =
        kept(&[m5_large(), own_node("i-1"), running("busy", "i-1", &tomorrow("100m"))]);
    assert_eq!(consolidation["commands"].as_array().map(Vec::len), Some(0));
    assert_eq!(kept[0]["code"], "Unreadable");
    let why = "Pod/default/busy-0 cannot be read whole: spec.tolerations[0].operator: found \"Gt\"; \
               allowed: Equal or Exists";
    assert_eq!(kept[0]["reason"], why);
}

// What lives and dies with a node keeps none.
#[test]
fn a_daemonset_pod_that_cannot_be_read_keeps_no_node() {
    let mut daemon = daemon_pod("agent", "i-1", "100m", 9);
    daemon["spec"]["tolerations"] = tomorrow("1")["tolerations"].clone();
    let (kept, consolidation) = kept(&[m5_large(), own_node("i-1"), daemon]);
    assert_eq!((kept.len(), &consolidation["commands"][0]["reason"]), (0, &"Empty".into()));
}

#[test]
fn a_waiting_pod_that_cannot_be_read_whole_has_no_place_and_says_why() {
    let objects = [m5_large(), waiting("odd", 0, &tomorrow("100m")), waiting("w", 0, &spec("100m", "1Gi"))];
    let planned = plan(&objects);
    assert_eq!(nodes(&planned)[0]["pods"], json!(["default/w-0"]), "it hides no other");
    assert_eq!(planned["unplaced"][0]["pod"], "default/odd-0");
    let why = "it cannot be read whole: spec.tolerations[0].operator: found \"Gt\"; \
               allowed: Equal or Exists";
    assert_eq!(first_reason(&planned), why);
    let output = run(&["plan", "-f", "-"], &objects);
    let (shown, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "a pod without a place, and no bad input");
    assert!(
        shown.contains(why) && stderr.contains("Pod/default/odd-0: spec.tolerations[0].operator"),
        "{shown}{stderr}"
    );
    let output = run(&["explain", "odd-0", "-f", "-"], &objects);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).contains(why));
}

// Whole or not at all.
#[test]
fn a_pod_group_waits_for_its_pod_that_cannot_be_read() {
    let member = |name: &str, spec: &Value| {
        let mut pod = waiting(name, 0, spec);
        pod["metadata"]["annotations"] = json!({"outrigger.dev/pod-group": "band"});
        pod
    };
    let planned = plan(&[m5_large(), member("odd", &tomorrow("100m")), member("w", &spec("100m", "1Gi"))]);
    assert_eq!((nodes(&planned).len(), planned["unplaced"].as_array().map(Vec::len)), (0, Some(2)));
}

#[test]
fn room_is_kept_for_a_daemonset_that_cannot_be_read_whole() {
    let any = pool("general", &json!([one_of("karpenter.k8s.aws/instance-family", &["m5"])]));
    let mut daemon = daemon_set("agent", "1");
    daemon["spec"]["template"]["spec"]["tolerations"] = tomorrow("1")["tolerations"].clone();
    let planned = plan(&[any, daemon, waiting("w", 0, &spec("1500m", "1Gi"))]);
    assert!(!first_types(&planned).contains(&"m5.large"), "{:?}", first_types(&planned));
    assert_eq!(planned["unreadable"][0]["object"], "DaemonSet/kube-system/agent");
}

#[test]
fn a_node_that_cannot_be_read_whole_is_counted_and_left_alone() {
    let mut odd = own_node("i-1");
    odd["spec"]["taints"] = json!([{"key": "a", "effect": "NoWay"}]);
    let planned = plan(&[m5_large(), odd.clone(), waiting("w", 0, &spec("1", "1Gi"))]);
    assert_eq!((nodes(&planned).len(), planned["placedExisting"].as_u64()), (1, Some(0)));
    assert_eq!(planned["unreadable"][0]["object"], "Node/i-1");
    let (kept, consolidation) = kept(&[m5_large(), odd, own_node("i-2")]);
    assert_eq!((kept[0]["node"].as_str(), kept[0]["code"].as_str()), (Some("i-1"), Some("Unreadable")));
    assert_eq!(consolidation["commands"][0]["delete"], json!(["i-2"]), "it keeps no other");
    assert!(consolidation["costAfter"].as_f64() > Some(0.0), "it is paid for");
}

#[test]
fn a_node_may_have_many_labels_and_devices() {
    let mut busy = node("i-1");
    for number in 0..2_000 {
        busy["metadata"]["labels"][format!("feature-{number}")] = "true".into();
        busy["status"]["allocatable"][format!("example.com/device-{number}")] = "1".into();
    }
    let planned = plan(&[m5_large(), busy, waiting("w", 0, &spec("1", "1Gi"))]);
    assert_eq!(planned["existing"][0]["node"], "i-1");
    assert_eq!(planned["unreadable"], json!([]));
}

// What people configure is bad input where it cannot be read; what a cluster holds is not.
#[test]
fn only_configuration_that_cannot_be_read_is_bad_input() {
    let table = [
        (
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": "b", "namespace": "n"},
            "spec": {"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}}),
            0,
        ),
        (
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"odd": "é"}}}),
            0,
        ),
        (
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"},
            "provisioner": "p", "volumeBindingMode": "Later"}),
            0,
        ),
        (
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n"},
            "spec": {"drivers": [{"name": "d", "nodeID": "i", "allocatable": {"count": -1}}]}}),
            0,
        ),
        (
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "namespace": "n"},
            "spec": {"renewTime": "lately"}}),
            0,
        ),
        (
            json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "odd"},
            "spec": {"weight": 0}}),
            2,
        ),
    ];
    for (odd, code) in table {
        let output =
            run(&["plan", "-f", "-"], &[m5_large(), waiting("w", 0, &spec("1", "1Gi")), odd.clone()]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{odd}: {stderr}");
        let kind = odd["kind"].as_str().unwrap_or_default();
        let word = if code == 0 { "not read whole:" } else { "refused:" };
        assert!(stderr.contains(word) && stderr.contains(kind), "{odd}: {stderr}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 new node"), "the others go on");
    }
}
