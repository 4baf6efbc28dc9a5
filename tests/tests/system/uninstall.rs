//! `outrigger uninstall` on a cluster with nodes: they are let go and run on, or drained and
//! terminated; nothing is left that waits for functions which are gone.

use std::time::Duration;

use outrigger_stack::{NodeAgent, NodeAgentSettings, Stack};
use outrigger_tests::cli::{Said, outrigger};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{
    NO_WINDOW, apply, count_in_phase, count_unschedulable, instances, start, tick, wait_for,
};
use serde_json::json;

const PODS: usize = 4;
const LONGEST: Duration = Duration::from_secs(120);
const NODES: &str = "/api/v1/nodes";
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";

/// A cluster whose pods run on nodes of ours.
fn running() -> (Stack, NodeAgent) {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", PODS, "250m", "256Mi", &json!({}))).unwrap();
    wait_for("unschedulable pods", PODS, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let single = [NO_WINDOW];
    let functions = ["provision", "lifecycle"].map(|name| stack.start_function(name, &single).unwrap());
    let agent = stack.node_agent(NodeAgentSettings::default());
    tick(&stack, "provision").unwrap();
    let running = || {
        tick(&stack, "lifecycle")?;
        count_in_phase(&stack, "Running")
    };
    wait_for("running pods", PODS, LONGEST, running).unwrap();
    drop(functions);
    (stack, agent)
}

fn uninstall(stack: &Stack, arguments: &[&str]) -> Said {
    let all: Vec<&str> = ["uninstall"].into_iter().chain(arguments.iter().copied()).collect();
    outrigger(&stack.state().endpoints.admin_kubeconfig, &all).unwrap()
}

/// How many Nodes and NodeClaims have a finalizer, and how many NodeClaims there are.
fn traces(stack: &Stack) -> (usize, usize) {
    let list = |path| stack.kubernetes().list(path).unwrap();
    let held = |path| list(path).iter().filter(|one| one["metadata"]["finalizers"].is_array()).count();
    (held(NODES) + held(CLAIMS), list(CLAIMS).len())
}

#[test]
fn nodes_are_let_go_and_run_on() {
    let (stack, agent) = running();
    let before = (instances(&stack).unwrap(), traces(&stack));
    let (nodes, claims) = (before.0.len(), before.1.1);
    assert_eq!((claims, before.1.0), (nodes, 2 * nodes), "each node and each claim has a finalizer");

    let said = uninstall(&stack, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.output.contains("--yes does it"), "{said:?}");
    assert_eq!((instances(&stack).unwrap(), traces(&stack)), before, "nothing is changed before --yes");

    let said = uninstall(&stack, &["--yes", "-o", "json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let output: serde_json::Value = serde_json::from_str(&said.output).unwrap();
    assert_eq!(
        (output["applied"].as_bool(), output["left"]["nodes"].as_array().map(Vec::len)),
        (Some(true), Some(0))
    );
    assert_eq!(traces(&stack), (0, 0), "{said:?}");
    assert_eq!(
        (instances(&stack).unwrap(), count_in_phase(&stack, "Running").unwrap()),
        (before.0.clone(), PODS)
    );

    // Nobody has to be there for a Node to go now.
    let node = format!("{NODES}/{}", before.0[0]);
    drop(agent);
    stack.kubernetes().delete(&node).unwrap();
    let there = || Ok(usize::from(stack.kubernetes().find(&node)?.is_some()));
    wait_for("node", 0, Duration::from_secs(60), there).unwrap();
    let said = uninstall(&stack, &[]);
    assert!(said.output.contains("nothing of Outrigger's is left"), "{said:?}");
}

#[test]
fn nodes_are_drained_and_terminated() {
    let (stack, agent) = running();
    let said = uninstall(&stack, &["--yes", "--drain"]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.errors.contains("NodePool") && said.errors.contains("kubectl delete nodepools"), "{said:?}");
    for pool in stack.kubernetes().list(POOLS).unwrap() {
        let name = pool["metadata"]["name"].as_str().unwrap();
        stack.kubernetes().delete(&format!("{POOLS}/{name}")).unwrap();
    }
    let lifecycle = stack.start_function("lifecycle", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "5")]).unwrap();
    let said = std::thread::scope(|scope| {
        let command = scope.spawn(|| uninstall(&stack, &["--yes", "--drain", "--wait", "2m"]));
        while !command.is_finished() {
            tick(&stack, "lifecycle").unwrap();
        }
        command.join().unwrap()
    });
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(traces(&stack), (0, 0), "{said:?}");
    assert_eq!(instances(&stack).unwrap(), Vec::<String>::new(), "{said:?}");
    drop((agent, lifecycle));
}
