//! Karpenter's chaos: a rogue taints every new node, so that no pod can run on it. We do not buy
//! and buy.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outrigger_stack::{NodeAgentSettings, Stack};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{
    NO_WINDOW, apply, count_in_phase, count_unschedulable, instances, ledger, start, tick, wait_for,
};
use serde_json::{Value, json};

const PODS: usize = 10;
/// Karpenter's suite allows 35 nodes.
const MOST: usize = 35;
/// How many ticks the rogue is at it: an hour's worth.
const CHAOS: usize = 60;
const NODES: &str = "/api/v1/nodes";
const TAINT: &str = "example.com/rogue";

fn taints(node: &Value) -> Vec<Value> {
    node["spec"]["taints"].as_array().cloned().unwrap_or_default()
}

fn set_taints(stack: &Stack, node: &Value, taints: &[Value]) {
    let path = format!("{NODES}/{}", node["metadata"]["name"].as_str().unwrap_or_default());
    let version = &node["metadata"]["resourceVersion"];
    let change = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
    // Who comes too late looks again.
    drop(stack.kubernetes().merge(&path, &change));
}

fn is_ours(node: &Value) -> bool {
    node["metadata"]["labels"]["karpenter.sh/nodepool"].is_string()
}

/// Taints every node of ours, as soon as it is there.
fn be_rogue(stack: &Stack, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        for node in stack.kubernetes().list(NODES).unwrap() {
            let mut all = taints(&node);
            if is_ours(&node) && all.iter().all(|taint| taint["key"] != TAINT) {
                all.push(json!({"key": TAINT, "effect": "NoSchedule"}));
                set_taints(stack, &node, &all);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_rogue_that_taints_each_node_does_not_make_us_buy_and_buy() {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", PODS, "1", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", PODS, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let single = [NO_WINDOW];
    let provision = stack.start_function("provision", &single).unwrap();
    let lifecycle = stack.start_function("lifecycle", &single).unwrap();
    let agent =
        stack.node_agent(NodeAgentSettings { boot: Duration::from_secs(1), ..NodeAgentSettings::default() });
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| be_rogue(&stack, &over));
        for ticks in 1..=CHAOS {
            tick(&stack, "provision").unwrap();
            tick(&stack, "lifecycle").unwrap();
            let bought = ledger(&stack, "claim#").unwrap().len();
            assert!(bought <= MOST, "{bought} nodes after {ticks} ticks");
        }
        over.store(true, Ordering::Relaxed);
    });
    let bought = ledger(&stack, "claim#").unwrap().len();
    eprintln!("{bought} nodes were bought in {CHAOS} ticks");
    assert!(bought > 1, "the rogue has made us buy again, or it shows nothing");
    assert_eq!(count_in_phase(&stack, "Running").unwrap(), 0);

    // Once the rogue is gone, what was bought serves.
    for node in stack.kubernetes().list(NODES).unwrap().iter().filter(|node| is_ours(node)) {
        let rest: Vec<Value> = taints(node).into_iter().filter(|taint| taint["key"] != TAINT).collect();
        set_taints(&stack, node, &rest);
    }
    let running = || {
        tick(&stack, "lifecycle")?;
        count_in_phase(&stack, "Running")
    };
    wait_for("running pods", PODS, Duration::from_secs(60), running).unwrap();
    assert!(instances(&stack).unwrap().len() <= bought);
    drop((provision, lifecycle, agent));
}
