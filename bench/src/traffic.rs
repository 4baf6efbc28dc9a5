//! What the functions read of a cluster of 1,000 nodes and 30,000 pods in a quiet minute, and for a
//! decision: bytes on the wire between each of them and the API server, those of TLS among them.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use outrigger_stack::{NodeAgentSettings, Stack};
use outrigger_tests::objects::deployment;
use outrigger_tests::proxy::Traffic;
use outrigger_tests::world::{
    apply, claims_in, count_unschedulable, proxied_api_server, start, tick, wait_for,
};
use serde_json::json;

use crate::large_cluster::{NODES, PODS, add_unschedulable, load, mean_size, peak_memory};

/// How many pods the decision is about.
const WAITING: usize = 5;

/// Measures and prints.
pub(crate) fn run() -> Result<()> {
    let stack = start()?;
    own_node(&stack)?;
    load(&stack)?;
    let kubernetes = stack.kubernetes();
    let (node, pod) = (mean_size(kubernetes, "/api/v1/nodes")?, mean_size(kubernetes, "/api/v1/pods")?);
    println!(
        "{NODES} nodes of {:.1} KB and {PODS} pods of {:.1} KB: {:.0} MB uncompressed",
        kilobytes(node),
        kilobytes(pod),
        kilobytes(node * NODES + pod * PODS) / 1_000.0
    );
    measure(&stack, "provision", "55", "a quiet minute")?;
    measure(&stack, "lifecycle", "55", "a quiet minute, with its sweep")?;
    measure(&stack, "lifecycle", "55", "the same, no sweep due")?;
    age(&stack)?;
    measure(&stack, "disrupt", "55", "a look at all nodes")?;
    measure(&stack, "disrupt", "55", "a quiet minute")?;
    // Only a new node has room for those that come.
    for node in kubernetes.list("/api/v1/nodes?labelSelector=karpenter.sh/nodepool")? {
        let path = format!("/api/v1/nodes/{}", node["metadata"]["name"].as_str().unwrap_or_default());
        kubernetes.merge(&path, &json!({"spec": {"unschedulable": true}}))?;
    }
    add_unschedulable(kubernetes, WAITING)?;
    measure(&stack, "provision", "0", "a decision about 5 pods")?;
    measure(&stack, "provision", "55", "a minute in which 5 pods find no node")
}

/// One node of ours, without which lifecycle and disrupt have nothing to look at.
fn own_node(stack: &Stack) -> Result<()> {
    apply(stack.kubernetes(), &deployment("own", 1, "500m", "1Gi", &json!({})))?;
    wait_for("unschedulable pods", 1, Duration::from_secs(60), || count_unschedulable(stack))?;
    let window = [("OUTRIGGER_POLL_WINDOW_SECONDS", "20")];
    let _agent = stack.node_agent(NodeAgentSettings::default());
    let _provision = stack.start_function("provision", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "0")])?;
    let _lifecycle = stack.start_function("lifecycle", &window)?;
    tick(stack, "provision")?;
    let began = Instant::now();
    while claims_in(stack, "Initialized")? == 0 {
        ensure!(began.elapsed() < Duration::from_secs(120), "its node is not ready");
        tick(stack, "lifecycle")?;
    }
    Ok(())
}

/// Makes the only node of ours one that time does not change any more, as most nodes are: disrupt
/// looks each minute at nodes that are too young.
fn age(stack: &Stack) -> Result<()> {
    let kubernetes = stack.kubernetes();
    let annotated = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    kubernetes.merge("/apis/karpenter.sh/v1/nodepools/default", &annotated("outrigger.dev/patience", "0"))?;
    for node in kubernetes.list("/api/v1/nodes?labelSelector=karpenter.sh/nodepool")? {
        let path = format!("/api/v1/nodes/{}", node["metadata"]["name"].as_str().unwrap_or_default());
        kubernetes.merge(&path, &annotated("karpenter.sh/do-not-disrupt", "true"))?;
    }
    Ok(())
}

/// One tick of a function in a process of its own.
fn measure(stack: &Stack, function: &str, window: &str, what: &str) -> Result<()> {
    let (proxy, api_server) = proxied_api_server(stack)?;
    let environment =
        [("OUTRIGGER_API_SERVER", api_server.as_str()), ("OUTRIGGER_POLL_WINDOW_SECONDS", window)];
    let process = stack.start_function(function, &environment)?;
    let began = Instant::now();
    tick(stack, function)?;
    let Traffic { sent, received } = proxy.take_traffic();
    println!(
        "{function}, {what}: {:.1} KB received, {:.1} KB sent, {:.1} s, peak memory {}",
        kilobytes(usize::try_from(received)?),
        kilobytes(usize::try_from(sent)?),
        began.elapsed().as_secs_f64(),
        peak_memory(&process)?
    );
    Ok(())
}

fn kilobytes(bytes: usize) -> f64 {
    bytes as f64 / 1_000.0
}
