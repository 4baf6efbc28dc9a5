//! Nodes that go, or whose NodePool went: what `outrigger consolidate` ends, why, and what the
//! others cost.

use serde_json::{Value, json};

use crate::consolidate;
use crate::objects::{node, owned_by, pool, spec, spec_with, waiting};

/// A node of the pool `general`, which has finished starting, on demand.
fn managed_node(name: &str) -> Value {
    let mut node = node(name);
    let labels = [("nodepool", "general"), ("capacity-type", "on-demand"), ("registered", "true")];
    for (key, value) in labels {
        node["metadata"]["labels"][format!("karpenter.sh/{key}")] = json!(value);
    }
    node
}

fn cordoned(mut node: Value) -> Value {
    node["spec"]["unschedulable"] = json!(true);
    node["spec"]["taints"] = json!([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]);
    node
}

/// A pod of a ReplicaSet that runs on a node.
fn running(app: &str, node: &str) -> Value {
    let mut pod = waiting(app, 0, &spec_with("1", "512Mi", &json!({"nodeName": node})));
    pod["metadata"]["ownerReferences"] = owned_by("ReplicaSet", app);
    pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    pod
}

/// The same pod, which ends already and may take six hours for it.
fn ending(app: &str, node: &str) -> Value {
    let mut pod = running(app, node);
    pod["metadata"]["deletionTimestamp"] = json!("2026-11-20T17:00:00Z");
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(21_600);
    pod
}

fn protected(mut pod: Value) -> Value {
    pod["metadata"]["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
    pod
}

/// A pool whose nodes may all go at once.
fn general() -> Value {
    let mut pool = pool("general", &json!([]));
    pool["spec"]["disruption"] = json!({"consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]});
    pool
}

/// The nodes that end as empty, and evict nobody.
#[track_caller]
fn ended_as_empty(consolidation: &Value) -> Vec<&str> {
    let commands = consolidation["commands"].as_array().map_or(&[][..], Vec::as_slice);
    for command in commands {
        assert_eq!(
            (&command["reason"], &command["evictions"]),
            (&json!("Empty"), &json!(0)),
            "{consolidation:#}"
        );
    }
    commands
        .iter()
        .filter_map(|command| command["delete"].as_array())
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// Why a node stays.
fn kept<'v>(consolidation: &'v Value, node: &str) -> &'v str {
    let mut nodes = consolidation["kept"].as_array().into_iter().flatten();
    nodes.find(|kept| kept["node"] == node).and_then(|kept| kept["reason"].as_str()).unwrap_or_default()
}

#[test]
fn an_empty_node_goes_though_somebody_cordoned_it() {
    let stays = protected(running("web", "i-a"));
    let consolidation = consolidate(&[general(), managed_node("i-a"), cordoned(managed_node("i-b")), stays]);
    assert_eq!(ended_as_empty(&consolidation), ["i-b"], "{consolidation:#}");
}

#[test]
fn a_cordoned_node_with_pods_stays() {
    let consolidation = consolidate(&[general(), cordoned(managed_node("i-b")), running("web", "i-b")]);
    assert_eq!(ended_as_empty(&consolidation), [""; 0], "{consolidation:#}");
    assert!(kept(&consolidation, "i-b").contains("cordoned"), "{consolidation:#}");
}

#[test]
fn pods_that_end_already_keep_no_node() {
    for pod in [ending("work", "i-b"), protected(ending("work", "i-b"))] {
        for node in [managed_node("i-b"), cordoned(managed_node("i-b"))] {
            let stays = protected(running("web", "i-a"));
            let consolidation = consolidate(&[general(), managed_node("i-a"), node, stays, pod.clone()]);
            assert_eq!(ended_as_empty(&consolidation), ["i-b"], "{consolidation:#}");
        }
    }
}

#[test]
fn what_a_budget_covers_and_ends_already_keeps_no_node() {
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "work", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "work"}}},
        "status": {"disruptionsAllowed": 0}});
    let stays = protected(running("web", "i-a"));
    let consolidation = consolidate(&[
        general(),
        managed_node("i-a"),
        managed_node("i-b"),
        stays,
        ending("work", "i-b"),
        budget,
    ]);
    assert_eq!(ended_as_empty(&consolidation), ["i-b"], "{consolidation:#}");
}

#[test]
fn a_node_whose_pool_is_gone_keeps_its_price() {
    let mut other = managed_node("i-b");
    other["metadata"]["labels"]["karpenter.sh/nodepool"] = json!("gone");
    let stays = protected(running("web", "i-a"));
    let cost = |objects: &[Value]| consolidate(objects)["costBefore"].as_f64().unwrap_or_default();
    let alone = cost(&[general(), managed_node("i-a"), stays.clone()]);
    let objects = [general(), managed_node("i-a"), other.clone(), stays];
    let consolidation = consolidate(&objects);
    assert!(kept(&consolidation, "i-b").contains("there is no NodePool gone"), "{consolidation:#}");
    assert!(alone > 0.05 && (cost(&objects) - 2.0 * alone).abs() < 1e-9, "{consolidation:#}");
    assert_eq!(consolidation["costBefore"], consolidation["costAfter"]);
    // No pool is left at all.
    assert!((cost(&[other]) - alone).abs() < 1e-9);
    assert!((cost(&[managed_node("i-a"), waiting("web", 0, &spec("1", "1Gi"))]) - alone).abs() < 1e-9);
}
