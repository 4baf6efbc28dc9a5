//! The API server answers late, in part, not at all or with errors: half a list is no list, what
//! may help is tried again, and what was planned is launched once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outrigger_stack::Stack;
use outrigger_tests::faults::{Fault, FaultProxy, Rule, Seen};
use outrigger_tests::objects::deployment;
use outrigger_tests::proxy::{Mode, Proxy};
use outrigger_tests::world::{
    NO_WINDOW, apply, claims_in, count_unschedulable, failing_tick, instances, ledger, start, tick, wait_for,
};
use serde_json::json;

/// So that five pods come in three pages.
const PAGE: usize = 2;
/// How often a call is sent that may be repeated.
const TRIES: usize = 3;

fn rule(holds: &[&'static str], after: usize, times: usize, fault: Fault) -> Rule {
    Rule { holds: holds.to_vec(), after, times, fault }
}

/// The two lists of pods of a tick: of those without a node, and of all, once one of them is
/// unschedulable.
const LISTS: [&str; 2] = ["fieldSelector=spec.nodeName", "fieldSelector=status.phase"];
const PODS: &str = "GET /api/v1/pods?limit=";

/// The first page of a list of pods.
fn first_page(list: &'static str) -> [&'static str; 2] {
    [PODS, list]
}

/// The later ones.
fn later_page(list: &'static str) -> [&'static str; 3] {
    [PODS, list, "continue="]
}

fn five_pods() -> Stack {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", 5, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 5, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    stack
}

/// The tick fails, says why, and has changed nothing.
fn fails(stack: &Stack, proxy: &FaultProxy, rules: &[Rule], named: &str) {
    proxy.set(rules);
    let error = failing_tick(stack, "provision").unwrap();
    assert!(error.contains(named), "{named} in {error}\n{rules:?}");
    assert!(proxy.seen().iter().any(|seen| seen.struck), "{rules:?} struck nothing");
    assert_eq!(instances(stack).unwrap(), Vec::<String>::new(), "{rules:?}");
    assert!(ledger(stack, "claim#").unwrap().is_empty(), "{rules:?}");
    assert!(ledger(stack, "intent#").unwrap().is_empty(), "{rules:?}");
}

/// The tick launches exactly what it planned for the five pods.
fn launches(stack: &Stack, what: &str) {
    let answer = tick(stack, "provision").unwrap();
    assert_eq!(
        (&answer["unplaced"], &answer["failed"], &answer["unknown"]),
        (&json!(0), &json!([]), &json!([])),
        "{what}: {answer}"
    );
    let launched = answer["launched"].as_array().unwrap().len();
    assert!(launched > 0, "{what}: {answer}");
    assert_eq!(instances(stack).unwrap().len(), launched, "{what}: {answer}");
    assert_eq!(claims_in(stack, "Launched").unwrap(), launched, "{what}: {answer}");
}

fn struck(seen: &[Seen]) -> Vec<&Seen> {
    seen.iter().filter(|seen| seen.struck).collect()
}

#[test]
fn a_list_that_is_not_whole_decides_nothing() {
    let stack = five_pods();
    let proxy = FaultProxy::start(&stack).unwrap();
    proxy.page_size(PAGE);
    let provision =
        stack.start_function("provision", &[("OUTRIGGER_API_SERVER", &proxy.url()), NO_WINDOW]).unwrap();
    let expired = Fault::Refused(410, "", "The provided continue parameter is too old");
    for list in LISTS {
        for percent in [0, 30, 60, 99] {
            let cut = Fault::CutAfterPercent(percent);
            fails(&stack, &proxy, &[rule(&first_page(list), 0, TRIES, cut)], "list pods");
        }
        for page in 0..2 {
            let broken = Fault::Refused(500, "", "etcd has no leader");
            fails(&stack, &proxy, &[rule(&later_page(list), page, TRIES, broken)], "etcd has no leader");
        }
        fails(&stack, &proxy, &[rule(&later_page(list), 0, TRIES, Fault::Unheard)], "list pods");
        for fault in [expired.clone(), Fault::OtherVersion] {
            fails(&stack, &proxy, &[rule(&later_page(list), 1, TRIES, fault)], "list pods");
        }
    }

    let twice = LISTS.map(|list| {
        let other_version = rule(&later_page(list), 2, 1, Fault::OtherVersion);
        [rule(&later_page(list), 1, 1, expired.clone()), other_version]
    });
    proxy.set(&twice.concat());
    launches(&stack, "a token expired in each list, and then its version was another");
    let seen = proxy.seen();
    let first = |seen: &&Seen| seen.line.contains(PODS) && !seen.line.contains("continue=");
    assert_eq!(seen.iter().filter(first).count(), 6, "both lists begin again twice: {seen:#?}");
    drop(provision);
}

#[test]
fn what_may_help_is_tried_again() {
    let stack = five_pods();
    let proxy = FaultProxy::start(&stack).unwrap();
    let provision =
        stack.start_function("provision", &[("OUTRIGGER_API_SERVER", &proxy.url()), NO_WINDOW]).unwrap();
    let patience = "Retry-After: 60\r\n";
    for list in LISTS {
        let fails = |times, fault, named| {
            fails(&stack, &proxy, &[rule(&first_page(list), 0, times, fault)], named);
        };
        fails(1, Fault::Refused(429, patience, "too busy"), "too busy");
        fails(TRIES, Fault::Refused(503, "", "not now"), "not now");
        fails(1, Fault::Refused(403, "", "no right"), "no right");
    }

    // Everything is late, some things are delivered twice, and three lists are refused in their own
    // ways.
    proxy.set(&[
        rule(&["GET /api/v1/nodes?"], 0, 1, Fault::Refused(429, "Retry-After: 2\r\n", "too busy")),
        rule(&["GET /api/v1/pods?"], 0, 2, Fault::Refused(500, "", "not now")),
        rule(&["GET /apis/apps/v1/daemonsets?"], 0, 1, Fault::AnswerLost),
        rule(&["GET "], 0, 100, Fault::Late(Duration::from_millis(150))),
        rule(&["POST "], 0, 100, Fault::Repeated),
        rule(&["PATCH "], 0, 100, Fault::Repeated),
    ]);
    launches(&stack, "late, refused and repeated");
    let seen = proxy.seen();
    let nodes: Vec<Instant> =
        seen.iter().filter(|seen| seen.line.contains("GET /api/v1/nodes?")).map(|seen| seen.at).collect();
    assert!(nodes[1] - nodes[0] >= Duration::from_secs(2), "the server's patience is heeded: {seen:#?}");
    assert!(struck(&seen).len() >= 5, "{seen:#?}");
    drop(provision);
}

#[test]
fn the_ledger_has_written_and_its_answer_is_lost() {
    let stack = five_pods();
    let door = &stack.state().endpoints.door;
    let proxy = Arc::new(Proxy::start(door.trim_start_matches("http://")).unwrap());
    let through = format!("http://127.0.0.1:{}", proxy.port());
    let provision =
        stack.start_function("provision", &[("AWS_ENDPOINT_URL_DYNAMODB", &through), NO_WINDOW]).unwrap();
    let lost = Arc::new(AtomicUsize::new(0));
    let then = {
        let (proxy, lost) = (Arc::clone(&proxy), Arc::clone(&lost));
        move || {
            lost.fetch_add(1, Ordering::Relaxed);
            proxy.set(Mode::Pass);
        }
    };
    proxy.set(Mode::LoseAnswer { text: "TransactWriteItems", then: Arc::new(then) });
    launches(&stack, "the answer to a transaction was lost");
    assert_eq!(lost.load(Ordering::Relaxed), 1);
    drop(provision);
}
