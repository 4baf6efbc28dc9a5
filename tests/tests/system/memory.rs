//! Functions stay within the memory that README and template.yaml promise.

use std::time::Duration;

use outrigger_stack::Stack;
use outrigger_tests::large_cluster::{
    PodSize, add_unschedulable, load, mean_size, own_node, peak_memory_mib,
};
use outrigger_tests::world::{NO_WINDOW, start, tick, wait_for};

const WAITING: usize = 5;

/// One tick in a process of its own. Returns how many nodes or pods it has looked at.
fn peak(stack: &Stack, function: &str) -> u64 {
    let process = stack.start_function(function, &[NO_WINDOW]).unwrap();
    let answer = tick(stack, function).unwrap();
    let peak = peak_memory_mib(&process).unwrap();
    eprintln!("{function}: {peak} MiB, {answer}");
    peak
}

/// Functions look at so many nodes with 30 pods each, within so much memory.
fn assert_look_within(nodes: usize, pods: PodSize, memory_mib: u64) {
    let stack = start().unwrap();
    own_node(&stack).unwrap();
    load(&stack, nodes, pods).unwrap();
    let count = || Ok(stack.kubernetes().list("/api/v1/nodes")?.len());
    wait_for("nodes", nodes + 1, Duration::from_secs(60), count).unwrap();
    let size = mean_size(stack.kubernetes(), "/api/v1/pods").unwrap();
    assert!(pods == PodSize::Small || size > 8_000, "pods are of {size} bytes, which real ones are not");
    for node in stack.kubernetes().list("/api/v1/nodes?labelSelector=karpenter.sh/nodepool").unwrap() {
        let path = format!("/api/v1/nodes/{}", node["metadata"]["name"].as_str().unwrap());
        stack.kubernetes().merge(&path, &serde_json::json!({"spec": {"unschedulable": true}})).unwrap();
    }
    add_unschedulable(stack.kubernetes(), WAITING).unwrap();
    for function in ["provision", "lifecycle", "disrupt"] {
        let peak = peak(&stack, function);
        assert!(peak < memory_mib, "{function} took {peak} MiB of {memory_mib}");
    }
}

/// What docs/parameters.md says of `MemorySize`.
#[test]
fn a_thousand_nodes_fit_into_256_mib() {
    assert_look_within(1_000, PodSize::Real, 256);
}

/// What docs/cost.md says of it. Pods are small, since a page of large ones takes as much here as
/// in the smaller cluster, and two processors would be busy with them for minutes.
#[test]
fn five_thousand_nodes_fit_into_512_mib() {
    assert_look_within(5_000, PodSize::Small, 512);
}
