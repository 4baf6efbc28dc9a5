//! A policy of the cluster refuses our changes: its words are told, nothing is lost, and work goes
//! on when it is lifted.

use std::time::Duration;

use outrigger_stack::{NodeAgentSettings, Stack};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{
    NO_WINDOW, apply, claims_in, count_in_phase, count_unschedulable, instances, start, tick, wait_for,
};
use serde_json::{Value, json};

const WORDS: &str = "change freeze until Monday";
const POLICY: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/freeze";
const PODS: usize = 4;

/// Refuses what lifecycle would do to Nodes and NodeClaims, as an admission webhook does.
fn freeze(stack: &Stack) {
    let rule = |group: &str, resource: &str| {
        json!({
            "apiGroups": [group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"],
            "resources": [resource, format!("{resource}/status")],
        })
    };
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "freeze"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule("", "nodes"), rule("karpenter.sh", "nodeclaims")]},
            "matchConditions": [{"name": "ours", "expression": "request.userInfo.username == 'lifecycle'"}],
            "validations": [{"expression": "false", "message": WORDS}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "freeze"}, "spec": {"policyName": "freeze", "validationActions": ["Deny"]},
    });
    apply(stack.kubernetes(), &policy).unwrap();
    apply(stack.kubernetes(), &binding).unwrap();
}

fn gated(stack: &Stack) -> usize {
    let nodes = stack.kubernetes().list("/api/v1/nodes").unwrap();
    let has_gate = |node: &&Value| {
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|taint| taint["key"] == "karpenter.sh/unregistered")
    };
    nodes.iter().filter(has_gate).count()
}

#[test]
fn a_refused_change_is_told_and_made_later() {
    let stack = start().unwrap();
    freeze(&stack);
    apply(stack.kubernetes(), &deployment("web", PODS, "250m", "256Mi", &json!({}))).unwrap();
    wait_for("unschedulable pods", PODS, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let single = [NO_WINDOW];
    let provision = stack.start_function("provision", &single).unwrap();
    let lifecycle = stack.start_function("lifecycle", &single).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    tick(&stack, "provision").unwrap();
    let launched = instances(&stack).unwrap().len();
    assert!(launched > 0, "a policy on nodes and claims is no reason not to launch");
    wait_for("gated nodes", launched, Duration::from_secs(60), || Ok(gated(&stack))).unwrap();

    // Who changes a node at the same moment makes lifecycle wait for its next tick.
    let refusals = || Ok(usize::from(tick(&stack, "lifecycle")?["waiting"].to_string().contains(WORDS)));
    wait_for("the policy's words", 1, Duration::from_secs(60), refusals).unwrap();
    assert_eq!((gated(&stack), claims_in(&stack, "Launched").unwrap()), (launched, launched));
    tick(&stack, "provision").unwrap();
    assert_eq!(instances(&stack).unwrap().len(), launched, "the claims that wait still count");

    stack.kubernetes().delete(POLICY).unwrap();
    let initialized = || {
        tick(&stack, "lifecycle")?;
        claims_in(&stack, "Initialized")
    };
    wait_for("initialized claims", launched, Duration::from_secs(60), initialized).unwrap();
    let running = || count_in_phase(&stack, "Running");
    wait_for("running pods", PODS, Duration::from_secs(60), running).unwrap();
    drop((provision, lifecycle, agent));
}
