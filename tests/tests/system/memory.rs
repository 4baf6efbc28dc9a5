//! Functions stay within the memory that README and template.yaml promise.

use std::time::Duration;

use outrigger_stack::Stack;
use outrigger_tests::large_cluster::{add_unschedulable, load, mean_size, own_node, peak_memory_mib};
use outrigger_tests::world::{NO_WINDOW, start, tick, wait_for};

const NODES: usize = 1_000;
const WAITING: usize = 5;
/// `MemorySize` of template.yaml, which is for clusters up to this one.
const MEMORY_MIB: u64 = 256;

/// One tick in a process of its own. Returns how many nodes or pods it has looked at.
fn peak(stack: &Stack, function: &str) -> u64 {
    let process = stack.start_function(function, &[NO_WINDOW]).unwrap();
    let answer = tick(stack, function).unwrap();
    let peak = peak_memory_mib(&process).unwrap();
    eprintln!("{function}: {peak} MiB, {answer}");
    peak
}

#[test]
fn functions_look_at_a_thousand_nodes_within_their_memory() {
    let stack = start().unwrap();
    own_node(&stack).unwrap();
    load(&stack, NODES).unwrap();
    let nodes = || Ok(stack.kubernetes().list("/api/v1/nodes")?.len());
    wait_for("nodes", NODES + 1, Duration::from_secs(60), nodes).unwrap();
    let size = mean_size(stack.kubernetes(), "/api/v1/pods").unwrap();
    assert!(size > 8_000, "pods are of {size} bytes, which real ones are not");
    for node in stack.kubernetes().list("/api/v1/nodes?labelSelector=karpenter.sh/nodepool").unwrap() {
        let path = format!("/api/v1/nodes/{}", node["metadata"]["name"].as_str().unwrap());
        stack.kubernetes().merge(&path, &serde_json::json!({"spec": {"unschedulable": true}})).unwrap();
    }
    add_unschedulable(stack.kubernetes(), WAITING).unwrap();
    for function in ["provision", "lifecycle", "disrupt"] {
        let peak = peak(&stack, function);
        assert!(peak < MEMORY_MIB, "{function} took {peak} MiB of {MEMORY_MIB}");
    }
}
