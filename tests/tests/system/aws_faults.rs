//! DynamoDB and EC2 answer late, in part, twice or with errors: nothing is decided on half an
//! answer, and what was launched is launched once and known.

use std::time::Duration;

use outrigger_stack::Stack;
use outrigger_tests::faults::{Fault, FaultProxy, Rule};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{
    NO_WINDOW, apply, claims_in, count_unschedulable, failing_tick, instances, ledger, start, tick, wait_for,
};
use serde_json::{Value, json};

const PODS: usize = 5;
/// More often than any call is tried.
const ALWAYS: usize = 100;

fn waiting_pods() -> Stack {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", PODS, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", PODS, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    stack
}

fn rule(holds: &'static str, after: usize, times: usize, fault: Fault) -> Rule {
    Rule { holds: vec!["POST / ", holds], after, times, fault }
}

/// A proxy before a service, with provision behind it.
fn behind(stack: &Stack, variable: &str) -> (FaultProxy, outrigger_stack::FunctionProcess) {
    let proxy = FaultProxy::before(&stack.state().endpoints.door).unwrap();
    let url = proxy.url();
    let provision = stack.start_function("provision", &[(variable, &url), NO_WINDOW]).unwrap();
    (proxy, provision)
}

/// The tick fails, names who failed, and nothing is launched.
fn fails(stack: &Stack, proxy: &FaultProxy, rules: &[Rule], named: &str) {
    proxy.set(rules);
    let error = failing_tick(stack, "provision").unwrap();
    assert!(error.contains(named), "{named} in {error}\n{rules:?}");
    assert!(proxy.seen().iter().any(|seen| seen.struck), "{rules:?} struck nothing");
    assert_eq!(instances(stack).unwrap(), Vec::<String>::new(), "{rules:?}");
}

/// As many claims as instances, all of them launched, and no launch is open.
pub(crate) fn is_whole(stack: &Stack, answer: &Value) {
    let running = instances(stack).unwrap().len();
    assert!(running > 0, "{answer}");
    assert_eq!(claims_in(stack, "Launched").unwrap(), running, "{answer}");
    let open: Vec<Value> = ledger(stack, "intent#").unwrap();
    let open =
        open.iter().filter(|one| !["Resolved", "Abandoned"].iter().any(|end| one["state"]["S"] == *end));
    assert_eq!(open.count(), 0, "{answer}");
}

#[test]
fn a_ledger_that_stammers_loses_and_doubles_nothing() {
    let stack = waiting_pods();
    let (proxy, provision) = behind(&stack, "AWS_ENDPOINT_URL_DYNAMODB");
    let refused = |status, code| Fault::Refused(status, "", code);
    let query = "DynamoDB_20120810.Query";
    let transaction = "DynamoDB_20120810.TransactWriteItems";
    for (action, fault) in [
        (query, refused(500, "InternalServerError")),
        (query, refused(400, "ProvisionedThroughputExceededException")),
        (query, Fault::CutAfterPercent(50)),
        (transaction, refused(500, "InternalServerError")),
        (transaction, refused(400, "ThrottlingException")),
        (transaction, Fault::Unheard),
    ] {
        fails(&stack, &proxy, &[rule(action, 0, ALWAYS, fault)], "ledger");
        assert!(ledger(&stack, "claim#").unwrap().is_empty());
        assert!(ledger(&stack, "intent#").unwrap().is_empty());
    }
    proxy.set(&[
        rule(transaction, 0, 1, Fault::Repeated),
        rule(transaction, 0, 1, Fault::AnswerLost),
        rule(query, 0, 1, refused(400, "ThrottlingException")),
        rule("PutItem", 0, 1, refused(500, "InternalServerError")),
        rule("UpdateItem", 0, 1, Fault::AnswerLost),
        rule("DynamoDB", 0, ALWAYS, Fault::Late(Duration::from_millis(50))),
    ]);
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!((&answer["failed"], &answer["unknown"]), (&json!([]), &json!([])), "{answer}");
    assert_eq!(instances(&stack).unwrap().len(), answer["launched"].as_array().unwrap().len(), "{answer}");
    is_whole(&stack, &answer);
    drop(provision);
}

#[test]
fn an_ec2_that_stammers_launches_once() {
    let stack = waiting_pods();
    let (proxy, provision) = behind(&stack, "AWS_ENDPOINT_URL_EC2");
    let unavailable = Fault::Refused(503, "", "Unavailable");
    fails(&stack, &proxy, &[rule("DescribeInstances", 0, ALWAYS, unavailable.clone())], "EC2 did not answer");
    // What a class needs cannot be read: its pods wait, and the function says so.
    for fault in [Fault::Refused(503, "", "RequestLimitExceeded"), Fault::CutAfterPercent(60), Fault::Unheard]
    {
        proxy.set(&[rule("DescribeSubnets", 0, ALWAYS, fault.clone())]);
        let answer = tick(&stack, "provision").unwrap();
        assert_eq!(
            (&answer["unplaced"], &answer["launched"]),
            (&json!(PODS), &json!([])),
            "{fault:?}: {answer}"
        );
        assert_eq!(instances(&stack).unwrap(), Vec::<String>::new(), "{fault:?}");
    }
    // EC2 has launched, and says so in half an answer.
    proxy.set(&[
        rule("CreateFleet", 0, 1, Fault::Refused(503, "", "RequestLimitExceeded")),
        rule("CreateFleet", 0, 1, Fault::CutAfterPercent(40)),
        rule("DescribeSubnets", 0, 2, unavailable),
        rule("", 0, ALWAYS, Fault::Late(Duration::from_millis(100))),
    ]);
    let answer = tick(&stack, "provision").unwrap();
    let [unknown, launched] = ["unknown", "launched"].map(|key| answer[key].as_array().unwrap().len());
    let claims = unknown + launched;
    assert!(unknown > 0, "the one whose answer was cut: {answer}");
    assert_eq!(claims, instances(&stack).unwrap().len(), "{answer}");
    let requests = proxy.seen().iter().filter(|seen| seen.line.contains("CreateFleet")).count();
    // One is refused for the rate and sent again; a request is for one node or more.
    assert!((2..=claims + 1).contains(&requests), "{requests} requests: {answer}");
    proxy.set(&[]);
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!(instances(&stack).unwrap().len(), claims, "{answer}");
    is_whole(&stack, &answer);
    drop(provision);
}
