//! Nodes end as with Karpenter: `kubectl delete node` and `kubectl delete nodeclaim` drain them
//! under PodDisruptionBudgets.

use std::time::Duration;

use outrigger_stack::{NodeAgentSettings, Rates, Stack};
use outrigger_tests::objects::{daemon_set, deployment};
use outrigger_tests::world::{
    NO_WINDOW, apply, claims_in, count_in_phase, count_unschedulable, instances, ledger, start, tick,
    wait_for,
};
use serde_json::{Value, json};

const PODS: usize = 12;
/// Longer than a drain takes whose pods may go.
const DRAIN: Duration = Duration::from_secs(150);
const NODES: &str = "/api/v1/nodes";
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

fn budget(least: usize) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": "web"}}},
    })
}

/// Ticks until so many claims are in a state. An evicted pod needs a new node before the budget
/// lets the next one go.
fn tick_until(stack: &Stack, state: &str, count: usize) {
    let claims = || {
        tick(stack, "provision")?;
        tick(stack, "lifecycle")?;
        claims_in(stack, state)
    };
    wait_for(&format!("claims {state}"), count, DRAIN, claims).unwrap();
}

/// Ticks until every pod runs again.
fn settle(stack: &Stack) {
    let running = || {
        tick(stack, "provision")?;
        tick(stack, "lifecycle")?;
        // Each node that stays runs one pod of the daemonset.
        Ok(count_in_phase(stack, "Running")?.saturating_sub(stack.kubernetes().list(NODES)?.len()))
    };
    wait_for("running pods", PODS, DRAIN, running).unwrap();
}

fn names(stack: &Stack, path: &str) -> Vec<String> {
    let objects = stack.kubernetes().list(path).unwrap();
    let ours = objects.iter().filter(|object| object["metadata"]["finalizers"].is_array());
    ours.map(|object| object["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn deleted_nodes_and_claims_are_drained_under_budgets() {
    let stack = start().unwrap();
    let kubernetes = stack.kubernetes();
    apply(kubernetes, &daemon_set("agent", "50m", "64Mi")).unwrap();
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }]});
    apply(kubernetes, &deployment("web", PODS, "250m", "256Mi", &spread)).unwrap();
    apply(kubernetes, &budget(PODS - 1)).unwrap();
    wait_for("unschedulable pods", PODS, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let window = [("OUTRIGGER_POLL_WINDOW_SECONDS", "5")];
    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &window).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    let silent = ["provision", "lifecycle", "refresh"].map(str::to_owned).to_vec();
    let ticker = stack.ticker(Rates { silent, ..Rates::default() });
    settle(&stack);
    let before = names(&stack, NODES);
    assert!(before.len() >= 2, "{before:?}");

    kubernetes.delete(&format!("{NODES}/{}", before[0])).unwrap();
    tick_until(&stack, "Gone", 1);
    settle(&stack);
    assert!(!names(&stack, NODES).contains(&before[0]));
    assert!(!instances(&stack).unwrap().contains(&before[0]), "on kOps a node is named as its instance");
    evicted_in_turn(&stack);

    apply(kubernetes, &budget(PODS)).unwrap();
    let claim = names(&stack, CLAIMS)[0].clone();
    kubernetes.delete(&format!("{CLAIMS}/{claim}")).unwrap();
    tick_until(&stack, "Draining", 1);
    tick(&stack, "lifecycle").unwrap();
    assert_eq!(claims_in(&stack, "Draining").unwrap(), 1, "the budget has nothing to give");
    assert!(events(&stack, "FailedDraining").iter().any(|message| message.contains("budget web")));

    apply(kubernetes, &budget(PODS - 1)).unwrap();
    tick_until(&stack, "Gone", 2);
    settle(&stack);
    assert!(!names(&stack, CLAIMS).contains(&claim));
    assert_eq!(names(&stack, CLAIMS).len(), instances(&stack).unwrap().len());
    let open = ledger(&stack, "claim#").unwrap();
    let over = open.iter().filter(|item| item["state"]["S"] == "Gone");
    assert!(over.clone().all(|item| item["ttl"]["N"].is_string()), "what is over is cleared up by itself");
    assert_eq!(stack.refusals(), Vec::<String>::new());
    drop((provision, lifecycle, agent, ticker));
}

fn events(stack: &Stack, reason: &str) -> Vec<String> {
    let events = stack.kubernetes().list("/api/v1/namespaces/default/events").unwrap();
    let about = events.iter().filter(|event| event["reason"] == reason);
    about.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Several pods left the node, by eviction, and the claim says why.
fn evicted_in_turn(stack: &Stack) {
    let evicted = events(stack, "Evicted").len();
    assert!(evicted >= 2, "{evicted} pods were evicted");
    assert!(!events(stack, "Deleted").is_empty(), "the claim says why it ends");
}
