//! Planned pods are bound to their nodes where that is allowed, and left to kube-scheduler where it is not.

use std::time::Duration;

use outrigger_stack::{NodeAgentSettings, Stack};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{apply, count_in_phase, count_unschedulable, start, tick, wait_for};
use serde_json::{Value, json};

const PODS: usize = 12;
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const LONGEST: Duration = Duration::from_secs(60);

/// Pods come, nodes are bought for them, and all run. Gives what lifecycle's ticks said of binding: how many
/// pods it bound, how many it left, and whether it missed the right.
fn run_more(stack: &Stack, name: &str, before: usize) -> (u64, u64, bool) {
    apply(stack.kubernetes(), &deployment(name, PODS, "700m", "1Gi", &json!({}))).unwrap();
    let waiting = || Ok(count_unschedulable(stack)? + count_in_phase(stack, "Running")?);
    wait_for("judged pods", before + PODS, LONGEST, waiting).unwrap();
    tick(stack, "provision").unwrap();
    let (mut bound, mut left, mut forbidden) = (0, 0, false);
    let running = || {
        let answer = tick(stack, "lifecycle")?;
        bound += answer["bound"].as_u64().unwrap_or_default();
        left += answer["leftToScheduler"].as_u64().unwrap_or_default();
        forbidden |= answer["bindingForbidden"] == true;
        count_in_phase(stack, "Running")
    };
    wait_for("running pods", before + PODS, LONGEST, running).unwrap();
    (bound, left, forbidden)
}

/// Pods of a deployment that an event of ours says were assigned.
fn told(stack: &Stack, name: &str) -> usize {
    let events = stack.kubernetes().list("/api/v1/namespaces/default/events").unwrap();
    let is_told = |event: &&Value| {
        let object = event["involvedObject"]["name"].as_str().unwrap_or_default();
        event["reason"] == "Scheduled"
            && event["reportingComponent"] == "outrigger"
            && object.starts_with(name)
    };
    events.iter().filter(is_told).count()
}

#[test]
fn pods_are_bound_where_that_is_allowed_and_left_to_the_scheduler_where_not() {
    let stack = start().unwrap();
    let mut binding = stack.kubernetes().get(&format!("{BINDINGS}/outrigger:place")).unwrap();
    stack.kubernetes().delete(&format!("{BINDINGS}/outrigger:place")).unwrap();
    let provision = stack.start_function("provision", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "0")]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "10")]).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());

    let (bound, left, forbidden) = run_more(&stack, "unbound", 0);
    assert_eq!((bound, forbidden), (0, true), "nothing can be bound without the right, and that is said");
    assert!(left >= PODS as u64, "{left} pods were left to kube-scheduler");
    assert_eq!(told(&stack, "unbound"), 0);

    binding["metadata"] = json!({"name": "outrigger:place"});
    apply(stack.kubernetes(), &binding).unwrap();
    let (bound, left, forbidden) = run_more(&stack, "bound", PODS);
    // What had room on nodes that exist was kube-scheduler's to place.
    assert!(bound > 0 && left == 0 && !forbidden, "{bound} bound, {left} left, {forbidden}");
    assert_eq!(told(&stack, "bound") as u64, bound, "each pod is told where it went");
    for node in stack.kubernetes().list("/api/v1/nodes").unwrap() {
        let taints = node["spec"]["taints"].to_string();
        assert!(!taints.contains("outrigger.dev/placing"), "{node}");
    }
    drop((provision, lifecycle, agent));
}
