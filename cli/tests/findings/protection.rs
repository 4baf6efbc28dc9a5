//! Nodes that stay for a pod, a budget or an annotation, and those that need not.

use serde_json::{Value, json};

use crate::objects::{one_of, owned_by, pool, spec_with};
use crate::{consolidate, run, text};

/// A pool whose nodes may all go at once, and two half-empty nodes of it.
fn cluster() -> Vec<Value> {
    let mut web = pool("web", &json!([one_of("karpenter.sh/capacity-type", &["on-demand"])]));
    web["spec"]["disruption"] = json!({"consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]});
    vec![web, node("i-1"), node("i-2")]
}

/// A node `m6a.large` of the pool.
fn node(name: &str) -> Value {
    let mut node = crate::objects::node(name);
    let labels = &mut node["metadata"]["labels"];
    labels["node.kubernetes.io/instance-type"] = "m6a.large".into();
    labels["karpenter.sh/nodepool"] = "web".into();
    labels["karpenter.sh/capacity-type"] = "on-demand".into();
    node
}

/// A small pod on a node, which runs and is ready, with these fields over it.
fn pod(name: &str, node: &str, patch: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": name},
            "creationTimestamp": "2026-11-20T09:00:00Z",
            "ownerReferences": owned_by("ReplicaSet", name)},
        "spec": spec_with("250m", "512Mi", &json!({"nodeName": node})),
        "status": {"phase": "Running", "startTime": "2026-11-20T09:00:00Z",
            "conditions": [{"type": "Ready", "status": "True"}]}});
    merge(&mut pod, patch);
    pod
}

fn merge(object: &mut Value, patch: &Value) {
    let (Value::Object(fields), Value::Object(changes)) = (&mut *object, patch) else {
        *object = patch.clone();
        return;
    };
    for (name, change) in changes {
        merge(fields.entry(name.clone()).or_insert(Value::Null), change);
    }
}

/// The annotation with this value.
fn wish(value: &str) -> Value {
    json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}})
}

/// A pod that keeps the first node, so that only the second one is in question.
fn keeper() -> Value {
    pod("keeper", "i-1", &wish("true"))
}

/// What would be ended of the cluster with these objects beside it, and what is told of the
/// objects.
#[track_caller]
fn consolidate_beside_keeper(objects: &[Value]) -> (Value, String) {
    let objects = [cluster(), vec![keeper()], objects.to_vec()].concat();
    let output = run(&["consolidate", "-f", "-", "-o", "json"], &objects);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    (serde_json::from_slice(&output.stdout).expect("it prints JSON"), stderr)
}

/// The nodes that would be ended.
#[track_caller]
fn ended(objects: &[Value]) -> Vec<String> {
    let consolidation = consolidate_beside_keeper(objects).0;
    let commands = consolidation["commands"].as_array().into_iter().flatten();
    let nodes = commands.flat_map(|command| command["delete"].as_array().into_iter().flatten());
    nodes.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Why the second node stays, and what is told of the objects.
#[track_caller]
fn kept(objects: &[Value]) -> (String, String) {
    let (consolidation, stderr) = consolidate_beside_keeper(objects);
    let mut kept = consolidation["kept"].as_array().into_iter().flatten();
    let reason = kept.find(|kept| kept["node"] == "i-2").and_then(|kept| kept["reason"].as_str());
    (reason.unwrap_or("it does not stay").to_owned(), stderr)
}

/// A budget over the pods of an app.
fn budget(app: &str, spec: &Value, status: &Value) -> Value {
    let mut spec = spec.clone();
    spec["selector"] = json!({"matchLabels": {"app": app}});
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec, "status": status,
        "metadata": {"name": app, "namespace": "default"}})
}

fn status(healthy: u32, desired: u32) -> Value {
    let allowed = healthy.saturating_sub(desired);
    json!({"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": 1})
}

const NOT_READY: &str = r#"{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}"#;

fn not_ready() -> Value {
    serde_json::from_str(NOT_READY).expect("it is JSON")
}

// A pod that never gets ready held its node for ever, although its budget lets such pods go.
#[test]
fn pods_that_are_not_ready_go_where_their_budget_says_so() {
    let crashing = pod("api", "i-2", &not_ready());
    let always = json!({"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
    assert_eq!(ended(&[crashing.clone(), budget("api", &always, &status(0, 0))]), ["i-2"]);
    let never = json!({"maxUnavailable": 0, "unhealthyPodEvictionPolicy": "AlwaysAllow"});
    assert_eq!(ended(&[crashing.clone(), budget("api", &never, &status(0, 1))]), ["i-2"]);
    let usual = json!({"minAvailable": 1});
    assert_eq!(ended(&[crashing.clone(), budget("api", &usual, &status(1, 1))]), ["i-2"]);
    let (why, _) = kept(&[crashing.clone(), budget("api", &usual, &status(0, 1))]);
    assert_eq!(why, "the budget default/api lets the pod default/api not go just now");
    let ready = pod("api", "i-2", &json!({}));
    let (why, _) = kept(&[ready, budget("api", &always, &status(1, 1))]);
    assert_eq!(why, "the budget default/api lets the pod default/api not go just now");
    let later = json!({"minAvailable": 1, "unhealthyPodEvictionPolicy": "Sometimes"});
    let (why, _) = kept(&[crashing, budget("api", &later, &status(1, 1))]);
    assert!(why.contains("found \"Sometimes\"; allowed: IfHealthyBudget or AlwaysAllow"), "{why}");
}

#[test]
fn pods_that_do_not_run_need_no_budget() {
    let starting = pod("api", "i-2", &json!({"status": {"phase": "Pending"}}));
    let none = json!({"maxUnavailable": 0});
    assert_eq!(ended(&[starting, budget("api", &none, &status(0, 1))]), ["i-2"]);
}

// Such pods were passed over, since no drain evicts them, and their nodes were ended under them.
#[test]
fn pods_that_no_drain_evicts_keep_their_node_where_they_ask_to_be_left_alone() {
    let everything = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
    let with_owner = |kind: &str| {
        let owner =
            json!({"apiVersion": "v1", "kind": kind, "name": "i-2", "uid": "i-2", "controller": true});
        json!({"metadata": {"ownerReferences": [owner], "annotations": {"kubernetes.io/config.mirror": "x"}}})
    };
    for patch in [everything, with_owner("Node"), with_owner("DaemonSet")] {
        let mut runner = pod("runner", "i-2", &patch);
        assert_eq!(ended(&[runner.clone()]), ["i-2"], "{patch}");
        merge(&mut runner, &wish("true"));
        let (why, _) = kept(&[runner.clone()]);
        assert_eq!(why, "the pod default/runner asks not to be disrupted", "{patch}");
        merge(&mut runner, &json!({"status": {"phase": "Succeeded"}}));
        assert_eq!(ended(&[runner]), ["i-2"], "{patch}: it has ended");
    }
}

#[test]
fn a_wish_that_cannot_be_read_counts_and_is_told_of() {
    for value in ["yes", "1d", " True", ""] {
        let (why, _) = kept(&[pod("runner", "i-2", &wish(value))]);
        let expected = format!(
            "the pod default/runner asks not to be disrupted (karpenter.sh/do-not-disrupt: {value:?} counts as true; \
             allowed: true, false, or a duration as 90m or 1h30m)"
        );
        assert_eq!(why, expected);
    }
    assert_eq!(ended(&[pod("runner", "i-2", &wish("false"))]), ["i-2"]);
    assert_eq!(ended(&[pod("runner", "i-2", &wish("1m"))]), ["i-2"], "its minute is long over");
}

// The annotation on a NodeClaim was read nowhere.
#[test]
fn a_node_stays_where_it_or_its_node_claim_asks_for_it() {
    let claim = |value: &str, status: Value| {
        let mut claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "web-1"},
            "status": status});
        merge(&mut claim, &wish(value));
        claim
    };
    let second = || json!({"providerID": "aws:///us-east-1a/i-2"});
    let moves = || pod("api", "i-2", &json!({}));
    assert_eq!(kept(&[moves(), claim("true", second())]).0, "its NodeClaim asks not to be disrupted");
    let named = json!({"nodeName": "i-2"});
    assert_eq!(kept(&[moves(), claim("true", named)]).0, "its NodeClaim asks not to be disrupted");
    let (why, _) = kept(&[moves(), claim("on", second())]);
    assert!(
        why.ends_with("(karpenter.sh/do-not-disrupt: \"on\" counts as true; allowed: true or false)"),
        "{why}"
    );
    assert_eq!(ended(&[moves(), claim("false", second())]), ["i-2"]);
    let mut objects = [cluster(), vec![keeper(), moves()]].concat();
    merge(&mut objects[2], &wish("10m"));
    let consolidation = consolidate(&objects);
    let why = consolidation["kept"][1]["reason"].as_str().unwrap_or_default();
    let expected = "it asks not to be disrupted (karpenter.sh/do-not-disrupt: \"10m\" counts as true; allowed: true or \
                    false)";
    assert_eq!(why, expected);
}

#[test]
fn a_budget_that_cannot_be_read_keeps_the_pods_that_it_may_cover() {
    let (api, of_other) = (pod("api", "i-2", &json!({})), json!({"minAvailable": "ten"}));
    let (why, stderr) = kept(&[api.clone(), budget("api", &json!({"minAvailable": "ten"}), &status(1, 0))]);
    let expected = "the budget default/api, which may cover the pod default/api, cannot be read: spec.minAvailable: \
                    found \"ten\"; allowed: a number from 0 on, or a percentage from 0% to 100%";
    assert_eq!(why, expected);
    assert!(
        stderr.contains("not read whole: -: PodDisruptionBudget/default/api: spec.minAvailable"),
        "{stderr}"
    );
    assert_eq!(ended(&[api.clone(), budget("other", &of_other, &status(1, 0))]), ["i-2"], "it covers others");
    let mut odd = budget("api", &json!({"maxUnavailable": 1}), &status(1, 0));
    odd["spec"]["selector"] = json!({"matchExpressions": [{"key": "app", "operator": "Near"}]});
    assert!(kept(&[api.clone(), odd]).0.contains("operator: found \"Near\""));
    let mut old = budget("api", &json!({"maxUnavailable": 1}), &status(1, 0));
    old["apiVersion"] = "policy/v1beta1".into();
    assert!(kept(&[api, old]).0.contains("apiVersion: found \"policy/v1beta1\"; allowed: policy/v1"));
}

// Whoever gives a node up loses such a pod for good, which nobody was told.
#[test]
fn pods_that_nothing_makes_anew_are_named_before_they_are_lost() {
    let mut bare = pod("once", "i-2", &json!({}));
    bare["metadata"]["ownerReferences"] = json!([]);
    let objects = [cluster(), vec![keeper(), bare, pod("api", "i-2", &json!({}))]].concat();
    let consolidation = consolidate(&objects);
    assert_eq!(consolidation["commands"][0]["delete"], json!(["i-2"]));
    assert_eq!(
        (&consolidation["commands"][0]["lost"], &consolidation["commands"][0]["evictions"]),
        (&json!(["default/once"]), &json!(2))
    );
    let consolidated = text(&["consolidate", "-f", "-"], &objects);
    assert!(
        consolidated.contains("1 ends 1 pod that nothing makes anew, lost for good: default/once"),
        "{consolidated}"
    );
    let explained = text(&["explain", "-f", "-", "i-2"], &objects);
    assert!(
        explained.contains("This ends 1 pod that nothing makes anew, lost for good: default/once"),
        "{explained}"
    );
}
