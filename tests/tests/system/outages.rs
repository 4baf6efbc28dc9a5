//! API server, EC2 or ledger down: a clear error, nothing changed, and the next tick recovers.

use std::time::Duration;

use outrigger_tests::objects::deployment;
use outrigger_tests::proxy::{Mode, Proxy};
use outrigger_tests::world::{
    apply, count_unschedulable, failing_tick, instances, ledger, proxied_api_server, start, tick, wait_for,
};
use serde_json::json;

/// Which server is down, and what the error must name.
fn down(variable: &str, named: &str) {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", 5, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 5, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let (proxy, value) = if variable == "OUTRIGGER_API_SERVER" {
        proxied_api_server(&stack).unwrap()
    } else {
        let proxy = Proxy::start(stack.state().endpoints.door.trim_start_matches("http://")).unwrap();
        let url = format!("http://127.0.0.1:{}", proxy.port());
        (proxy, url)
    };
    proxy.set(Mode::Down);
    let provision = stack.start_function("provision", &[(variable, &value)]).unwrap();
    let error = failing_tick(&stack, "provision").unwrap();
    assert!(error.contains(named), "{named} in {error}");
    assert_eq!(instances(&stack).unwrap(), Vec::<String>::new());
    assert!(ledger(&stack, "claim#").unwrap().is_empty());
    assert!(ledger(&stack, "intent#").unwrap().is_empty());

    proxy.set(Mode::Pass);
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!(answer["unplaced"], 0, "{answer}");
    assert_eq!(instances(&stack).unwrap().len(), answer["launched"].as_array().unwrap().len());
    drop(provision);
}

#[test]
fn the_api_server_is_down() {
    down("OUTRIGGER_API_SERVER", "API server");
}

#[test]
fn the_ledger_is_down() {
    down("AWS_ENDPOINT_URL_DYNAMODB", "ledger");
}

#[test]
fn ec2_is_down() {
    down("AWS_ENDPOINT_URL_EC2", "did not answer");
}
