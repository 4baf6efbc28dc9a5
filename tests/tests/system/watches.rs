//! A watch that breaks off in the middle of an event, and one that says everything twice: in one
//! tick all pods that come are seen, each counts once, and nothing is bought twice.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use outrigger_stack::{InvocationResult, Stack, scheduled_event};
use outrigger_tests::faults::{Fault, FaultProxy, Rule, Seen};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{apply, instances, ledger, start, wait_for};
use serde_json::{Value, json};

/// Long enough for three decisions.
const WINDOW: &str = "25";
const LONGEST: Duration = Duration::from_secs(60);
/// The watch of all pods, which begins once the first of them is unschedulable.
const WATCH: [&str; 3] = ["GET /api/v1/pods?", "watch=true", "fieldSelector=status.phase"];
const LIST: [&str; 3] = ["GET /api/v1/pods?", "limit=500", "fieldSelector=status.phase"];

/// The uids of the pods that claims were bought for.
fn nominated(stack: &Stack) -> Vec<String> {
    let claims = ledger(stack, "claim#").unwrap();
    let bodies = claims.iter().map(|item| item["body"]["S"].as_str().unwrap());
    let pods = bodies.flat_map(|body| {
        let claim: Value = serde_json::from_str(body).unwrap();
        claim["nominated"].as_array().cloned().unwrap_or_default()
    });
    pods.map(|pod| pod["uid"].as_str().unwrap().to_owned()).collect()
}

/// Pods come, and claims name them and all before them.
fn come(stack: &Stack, name: &str, replicas: usize, all: usize) {
    apply(stack.kubernetes(), &deployment(name, replicas, "500m", "512Mi", &json!({}))).unwrap();
    wait_for("nominated pods", all, LONGEST, || Ok(nominated(stack).len())).unwrap();
}

#[test]
fn what_comes_while_a_watch_breaks_off_or_repeats_itself_is_seen_once() {
    let stack = start().unwrap();
    let proxy = FaultProxy::start(&stack).unwrap();
    let window =
        [("OUTRIGGER_API_SERVER", proxy.url()), ("OUTRIGGER_POLL_WINDOW_SECONDS", WINDOW.to_owned())];
    let window = window.each_ref().map(|(name, value)| (*name, value.as_str()));
    let provision = stack.start_function("provision", &window).unwrap();
    let holds = WATCH.to_vec();
    proxy.set(&[
        Rule { holds: holds.clone(), after: 0, times: 1, fault: Fault::CutAfterEvents(3) },
        Rule { holds, after: 0, times: 100, fault: Fault::Repeated },
    ]);
    let answer = thread::scope(|scope| {
        let tick = scope.spawn(|| stack.invoke("provision", &scheduled_event("provision")));
        come(&stack, "first", 3, 3);
        come(&stack, "second", 5, 8);
        come(&stack, "third", 4, 12);
        tick.join().unwrap()
    });
    let InvocationResult::Answer(answer) = answer else { panic!("provision ended with {answer:?}") };
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((&answer["unplaced"], &answer["failed"]), (&json!(0), &json!([])), "{answer}");
    let launched = answer["launched"].as_array().unwrap().len();
    assert_eq!(instances(&stack).unwrap().len(), launched, "{answer}");
    let pods = nominated(&stack);
    assert_eq!((pods.iter().collect::<BTreeSet<_>>().len(), pods.len()), (12, 12), "each pod once");
    let seen = proxy.seen();
    let are = |parts: [&str; 3]| -> Vec<&Seen> {
        seen.iter().filter(|seen| parts.iter().all(|part| seen.line.contains(part))).collect()
    };
    assert_eq!(are(LIST).len(), 2, "it is listed again after the break: {seen:#?}");
    assert_eq!(
        are(WATCH).iter().filter(|seen| seen.struck).count(),
        2,
        "one was cut, one repeats: {seen:#?}"
    );
    drop(provision);
}
