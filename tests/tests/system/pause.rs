//! `outrigger pause` and `outrigger resume`: nothing is launched in between, and the pods that wait
//! are told.

use std::time::Duration;

use outrigger_stack::Stack;
use outrigger_tests::cli::{Said, outrigger_in};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{NO_WINDOW, apply, count_unschedulable, instances, start, tick, wait_for};
use serde_json::{Value, json};

const PODS: usize = 2;

fn outrigger(stack: &Stack, arguments: &[&str]) -> Said {
    let environment = stack.function_environment("provision", &[]);
    outrigger_in(&environment, &stack.state().endpoints.admin_kubeconfig, arguments).unwrap()
}

#[test]
fn nothing_is_launched_between_pause_and_resume() {
    let stack = start().unwrap();
    let _provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let said = outrigger(&stack, &["pause"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.errors.contains("no ledger of the cluster"), "a ledger is not begun by a person: {said:?}");
    tick(&stack, "provision").unwrap();

    let said = outrigger(&stack, &["pause", "--for", "1h", "--reason", "upgrade", "-o", "json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let output: Value = serde_json::from_str(&said.output).unwrap();
    assert_eq!(
        (&output["pause"]["reason"], &output["pause"]["what"]),
        (&json!("upgrade"), &json!("everything"))
    );
    assert!(output["pause"]["until"].is_string(), "{said:?}");
    let by = output["pause"]["by"].as_str().unwrap();
    assert!(by.starts_with("user/"), "AWS says who it is: {by}");

    apply(stack.kubernetes(), &deployment("web", PODS, "250m", "256Mi", &json!({}))).unwrap();
    wait_for("unschedulable pods", PODS, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let summary = tick(&stack, "provision").unwrap();
    assert_eq!((&summary["launched"], &summary["pause"]), (&json!([]), &output["pause"]));
    assert_eq!(instances(&stack).unwrap(), Vec::<String>::new());
    let events = stack.kubernetes().list("/api/v1/namespaces/default/events").unwrap();
    let message = format!("everything is paused by {by}");
    let tells = |event: &&Value| event["message"].as_str().is_some_and(|text| text.contains(&message));
    assert_eq!(events.iter().filter(tells).count(), PODS, "{events:?}");

    let said = outrigger(&stack, &["pause", "--show"]);
    assert!(
        said.code == 0 && said.output.contains(&message) && said.output.contains("(upgrade)"),
        "{said:?}"
    );
    let said = outrigger(&stack, &["resume"]);
    assert!(said.code == 0 && said.output.contains("resumed"), "{said:?}");
    let said = outrigger(&stack, &["pause", "--show"]);
    assert!(said.output.contains("nothing is paused"), "{said:?}");
    let summary = tick(&stack, "provision").unwrap();
    assert_eq!(summary["pause"], Value::Null);
    assert_ne!(instances(&stack).unwrap(), Vec::<String>::new(), "{summary}");
}
