//! `outrigger doctor`: what the functions see of all that they need, and what to do about what is
//! wrong.

use std::collections::BTreeMap;

use outrigger_stack::{FunctionProcess, Stack};
use outrigger_tests::cli::{Said, outrigger_in};
use outrigger_tests::world::{NO_WINDOW, apply, pools, start, tick};
use serde_json::{Value, json};

const FUNCTIONS: [&str; 5] = ["provision", "lifecycle", "disrupt", "interrupt", "refresh"];

/// Runs the command as somebody who may invoke functions.
fn doctor(stack: &Stack, more: &[&str]) -> Said {
    let variables = stack.function_environment("provision", &[]);
    let cluster = variables["OUTRIGGER_CLUSTER"].clone();
    let lambda = [
        ("AWS_ENDPOINT_URL_LAMBDA", stack.runtime().url()),
        ("AWS_ACCESS_KEY_ID", "somebody".into()),
        ("AWS_SECRET_ACCESS_KEY", "somebody".into()),
        ("AWS_REGION", "us-east-1".into()),
        ("OUTRIGGER_CLUSTER", cluster),
    ];
    let environment: BTreeMap<String, String> =
        lambda.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let arguments = [&["doctor"], more].concat();
    outrigger_in(&environment, &stack.state().endpoints.admin_kubeconfig, &arguments).unwrap()
}

/// What is not well, as `function: subject`, with detail and remedy.
fn bad(said: &Said) -> BTreeMap<String, (String, String)> {
    let answers: Value = serde_json::from_str(&said.output).unwrap_or_else(|_| panic!("{said:?}"));
    let mut bad = BTreeMap::new();
    for asked in answers["functions"].as_array().unwrap() {
        let findings = asked["findings"].as_array().unwrap();
        for finding in findings.iter().filter(|finding| finding["health"] == "bad") {
            let text = |field: &str| finding[field].as_str().unwrap().to_owned();
            let name = format!("{}: {}", asked["function"].as_str().unwrap(), text("subject"));
            bad.insert(name, (text("detail"), text("remedy")));
        }
    }
    bad
}

fn names(said: &Said) -> Vec<String> {
    bad(said).into_keys().collect()
}

fn start_all(stack: &Stack, more: &[(&str, &str)]) -> Vec<FunctionProcess> {
    let environment = [&[NO_WINDOW], more].concat();
    FUNCTIONS.map(|function| stack.start_function(function, &environment).unwrap()).into()
}

#[test]
fn what_is_well_is_said_and_what_is_not_comes_with_what_to_do() {
    let stack = start().unwrap();
    let _functions = start_all(&stack, &[]);
    tick(&stack, "provision").unwrap();
    let said = doctor(&stack, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.output.contains("Each function can do its work."), "{said:?}");
    assert!(!said.output.contains('\u{1b}'), "no colour but on a terminal");
    let said = doctor(&stack, &["-o", "json"]);
    assert_eq!((said.code, names(&said)), (0, vec![]), "{said:?}");

    let binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/outrigger:show";
    stack.kubernetes().delete(binding).unwrap();
    let mut refused = pools()[0].clone();
    refused["metadata"]["name"] = json!("refused");
    refused["spec"]["template"]["spec"]["nodeClassRef"]["name"] = json!("nobody");
    apply(stack.kubernetes(), &refused).unwrap();
    let said = doctor(&stack, &["-o", "json"]);
    assert_eq!(said.code, 1, "{said:?}");
    let found = bad(&said);
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "disrupt: InstanceGroup/nobody",
            "provision: InstanceGroup/nobody",
            "provision: rights in the cluster"
        ],
        "{said:?}"
    );
    let (detail, remedy) = &found["provision: rights in the cluster"];
    assert!(detail.contains("patch nodepools/status.karpenter.sh"), "{detail}");
    assert!(remedy.contains("`kubectl apply -f infra/kubernetes`"), "{remedy}");
    let text = doctor(&stack, &[]).output;
    assert!(text.contains("3 things keep functions from their work."), "{text}");
}

#[test]
fn a_server_that_cannot_be_reached_is_told_by_what_keeps_one_from_it() {
    let stack = start().unwrap();
    let table = [
        ("https://127.0.0.1:9", "nothing listens there"),
        ("https://api.nowhere.invalid", "has no address where the function is"),
    ];
    for (server, remedy) in table {
        let _functions = start_all(&stack, &[("OUTRIGGER_API_SERVER", server)]);
        let said = doctor(&stack, &["-o", "json"]);
        assert_eq!(said.code, 1, "{said:?}");
        let found = bad(&said);
        let expected =
            ["disrupt", "interrupt", "lifecycle", "provision"].map(|name| format!("{name}: API server"));
        assert_eq!(found.keys().cloned().collect::<Vec<_>>(), expected, "{said:?}");
        assert!(found.values().all(|(_, text)| text.contains(remedy)), "{found:?}");
    }
    // The CA of somebody else.
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let _functions = start_all(&stack, &[("OUTRIGGER_API_CA", &other.cert.pem())]);
    let found = bad(&doctor(&stack, &["-o", "json", "--function", "provision"]));
    assert!(found["provision: API server"].1.contains("ApiServerCa"), "{found:?}");
}

#[test]
fn a_cluster_that_nobody_serves_is_told() {
    let stack = start().unwrap();
    let said = doctor(&stack, &["--cluster", "other.example.com"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.errors.contains("no function in us-east-1 that serves a cluster of this name"), "{said:?}");
}
