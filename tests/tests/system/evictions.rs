//! Many evictions from an API server that is slow, busy, and loses answers: the budget holds at
//! every moment, the node ends empty, and what blocks is named.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outrigger_stack::{NodeAgentSettings, Stack};
use outrigger_tests::faults::{Fault, FaultProxy, Rule};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{
    NO_WINDOW, apply, claims_in, count_in_phase, count_unschedulable, instances, pods, start, tick, wait_for,
};
use serde_json::{Value, json};

const PODS: usize = 40;
/// What the budget lets go at a time.
const SPARE: usize = 4;
const LONGEST: Duration = Duration::from_secs(180);
const NODES: &str = "/api/v1/nodes";

fn evictions(after: usize, times: usize, fault: Fault) -> Rule {
    Rule { holds: vec!["POST ", "/eviction"], after, times, fault }
}

/// The API server at its worst: all is late, and evictions are refused for the rate, broken,
/// unanswered and doubled.
fn worst() -> Vec<Rule> {
    vec![
        evictions(
            0,
            3,
            Fault::Refused(429, "Retry-After: 1\r\n", "too many requests, please try again later"),
        ),
        evictions(0, 3, Fault::Refused(500, "", "etcdserver: leader changed")),
        evictions(0, 3, Fault::AnswerLost),
        evictions(0, 3, Fault::Repeated),
        Rule { holds: vec!["GET /api/v1/pods"], after: 2, times: 2, fault: Fault::CutAfterPercent(70) },
        Rule { holds: vec![" "], after: 0, times: 100_000, fault: Fault::Late(Duration::from_millis(40)) },
    ]
}

/// Pods that serve: running, and not about to end.
fn serving(stack: &Stack) -> usize {
    let serves =
        |pod: &&Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
    pods(stack).unwrap().iter().filter(serves).count()
}

fn on_node(stack: &Stack, node: &str) -> usize {
    pods(stack).unwrap().iter().filter(|pod| pod["spec"]["nodeName"] == node).count()
}

/// A budget that lets so many pods go at a time.
fn allow(stack: &Stack, spare: usize) {
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": PODS - spare, "selector": {"matchLabels": {"app": "web"}}},
    });
    apply(stack.kubernetes(), &budget).unwrap();
}

#[test]
fn a_busy_api_server_slows_a_drain_and_breaks_no_budget() {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", PODS, "100m", "64Mi", &json!({}))).unwrap();
    allow(&stack, SPARE);
    wait_for("unschedulable pods", PODS, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let proxy = FaultProxy::start(&stack).unwrap();
    let url = proxy.url();
    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let through = [("OUTRIGGER_API_SERVER", url.as_str()), ("OUTRIGGER_POLL_WINDOW_SECONDS", "5")];
    let lifecycle = stack.start_function("lifecycle", &through).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    let settle = || {
        tick(&stack, "provision")?;
        tick(&stack, "lifecycle")?;
        count_in_phase(&stack, "Running")
    };
    wait_for("running pods", PODS, LONGEST, settle).unwrap();
    let node = instances(&stack).unwrap().into_iter().max_by_key(|node| on_node(&stack, node)).unwrap();
    let to_leave = on_node(&stack, &node);
    assert!(to_leave > SPARE, "{to_leave} pods are to leave");

    allow(&stack, 0);
    stack.kubernetes().delete(&format!("{NODES}/{node}")).unwrap();
    let named = || {
        tick(&stack, "lifecycle")?;
        Ok(usize::from(names_what_blocks(&stack)))
    };
    wait_for("events that name a pod and its budget", 1, Duration::from_secs(60), named).unwrap();
    assert_eq!(on_node(&stack, &node), to_leave, "the budget has nothing to give");

    proxy.set(&worst());
    let began = Instant::now();
    allow(&stack, SPARE);
    let (least, over) = (AtomicUsize::new(PODS), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                least.fetch_min(serving(&stack), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let gone = || {
            tick(&stack, "provision")?;
            // Half a list ends a tick; the next one goes on.
            let _ = stack.invoke("lifecycle", &outrigger_stack::scheduled_event("lifecycle"));
            claims_in(&stack, "Gone")
        };
        let result = wait_for("claims gone", 1, LONGEST, gone);
        over.store(true, Ordering::Relaxed);
        result.unwrap();
    });
    let least = least.into_inner();
    eprintln!(
        "{to_leave} pods left in {:.0} s; never fewer than {least} served",
        began.elapsed().as_secs_f32()
    );
    assert!(least >= PODS - SPARE, "the budget was broken: only {least} of {PODS} served");
    assert!(!instances(&stack).unwrap().contains(&node));
    let seen = proxy.seen();
    let asked = seen.iter().filter(|seen| seen.line.contains("/eviction")).count();
    assert!(asked >= to_leave, "{asked} evictions for {to_leave} pods");
    assert!(
        seen.iter().filter(|seen| seen.struck && seen.line.contains("/eviction")).count() >= 12,
        "{asked}"
    );
    drop((provision, lifecycle, agent));
}

/// Whether an event names a pod and the budget which holds it.
fn names_what_blocks(stack: &Stack) -> bool {
    let events = stack.kubernetes().list("/api/v1/namespaces/default/events").unwrap();
    let messages = events
        .iter()
        .filter(|event| event["reason"] == "FailedDraining")
        .filter_map(|event| event["message"].as_str());
    messages.into_iter().any(|message| message.contains("budget web") && message.contains("default/web-"))
}
