//! Nodes of which a few have room for the pods of all: those few stay, and nothing is bought.

use serde_json::{Value, json};

use crate::consolidate;
use crate::objects::{node, one_of, owned_by, pool, spec_with};

const FAMILY: &str = "karpenter.k8s.aws/instance-family";

/// A pool of one family on demand, whose budget allows so many nodes at once.
fn web(family: &str, at_once: &str) -> Value {
    let capacity_type = one_of("karpenter.sh/capacity-type", &["on-demand"]);
    let mut pool = pool("web", &json!([capacity_type, one_of(FAMILY, &[family])]));
    pool["spec"]["disruption"] = json!({"consolidateAfter": "1m", "budgets": [{"nodes": at_once}]});
    pool
}

/// A node `m5.large` of that pool, with a pod of a Deployment that asks for so much.
fn carrying(number: usize, cpu: &str, memory: &str) -> [Value; 2] {
    let (node_name, pod) = (format!("i-{number:017x}"), format!("web-{number}"));
    let labels = json!({"karpenter.sh/nodepool": "web", "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/registered": "true"});
    let mut node = node(&node_name);
    if let Some(of_node) = node["metadata"]["labels"].as_object_mut() {
        of_node.extend(labels.as_object().cloned().unwrap_or_default());
    }
    let owner = owned_by("ReplicaSet", "web");
    let running = json!({"apiVersion": "v1", "kind": "Pod",
        "spec": spec_with(cpu, memory, &json!({"nodeName": node_name})),
        "metadata": {"name": pod, "namespace": "default", "uid": pod, "labels": {"app": "web"},
            "creationTimestamp": "2026-11-20T08:30:00Z", "ownerReferences": owner},
        "status": {"phase": "Running", "startTime": "2026-11-20T08:30:00Z",
            "conditions": [{"type": "Ready", "status": "True"}]}});
    [node, running]
}

/// How many nodes go, how many pods move, and how many nodes are bought.
fn outcome(consolidation: &Value) -> (usize, u64, usize) {
    let commands = consolidation["commands"].as_array().map_or(&[][..], Vec::as_slice);
    let count =
        |field: &str| commands.iter().filter_map(|command| command[field].as_array()).map(Vec::len).sum();
    let evictions = commands.iter().filter_map(|command| command["evictions"].as_u64()).sum();
    (count("delete"), evictions, count("replaceWith"))
}

// karpenter#2388, aws/karpenter#8536: each pair was replaced by a node of its type.
#[test]
fn two_nodes_of_a_type_become_one_of_them() {
    let nodes = (1..=2).flat_map(|number| carrying(number, "250m", "512Mi"));
    let consolidation = consolidate(&[vec![web("m5", "100%")], nodes.collect()].concat());
    assert_eq!(outcome(&consolidation), (1, 1, 0), "{consolidation:#}");
    assert_eq!(consolidation["kept"][0]["reason"], "pods of nodes that go move to it", "{consolidation:#}");
}

// aws/karpenter#3577: seven pods fit a node.
#[test]
fn of_twenty_nodes_with_a_pod_each_three_stay() {
    for at_once in ["100%", "10%", "1"] {
        let nodes = (1..=20).flat_map(|number| carrying(number, "250m", "512Mi"));
        let consolidation = consolidate(&[vec![web("m5", at_once)], nodes.collect()].concat());
        assert_eq!(outcome(&consolidation), (17, 17, 0), "{at_once}: {consolidation:#}");
    }
}
