//! A NodePool is deleted: the cluster's garbage collector deletes the NodeClaims that belong to it,
//! and their nodes are drained and ended; with `--cascade=orphan` they stay.

use std::time::Duration;

use outrigger_stack::{NodeAgent, NodeAgentSettings, Stack};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{
    NO_WINDOW, apply, claims_in, count_in_phase, count_unschedulable, instances, start, tick, wait_for,
};
use serde_json::{Value, json};

const PODS: usize = 4;
/// The garbage collector looks for new kinds of objects every half a minute.
const LONGEST: Duration = Duration::from_secs(150);
const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
const POOL: &str = "/apis/karpenter.sh/v1/nodepools/default";

/// A cluster whose pods run on nodes of the pool `default`, and may be on nodes of the pool `arm`
/// too.
fn running() -> (Stack, NodeAgent) {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", PODS, "250m", "256Mi", &json!({}))).unwrap();
    wait_for("unschedulable pods", PODS, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    (stack, agent)
}

/// Ticks both functions until all pods run.
fn settle(stack: &Stack) {
    let running = || {
        tick(stack, "provision")?;
        tick(stack, "lifecycle")?;
        count_in_phase(stack, "Running")
    };
    wait_for("running pods", PODS, LONGEST, running).unwrap();
}

fn claims(stack: &Stack) -> Vec<Value> {
    stack.kubernetes().list(CLAIMS).unwrap()
}

/// Waits until the garbage collector follows NodeClaims: it deletes one whose NodePool has gone. It
/// orphans only what it follows.
fn await_garbage_collector(stack: &Stack) {
    const PROBE: &str = "/apis/karpenter.sh/v1/nodepools/probe";
    let kubernetes = stack.kubernetes();
    let object = |kind: &str, owners: &Value, spec: &Value| {
        let metadata = json!({"name": "probe", "ownerReferences": owners});
        json!({"apiVersion": "karpenter.sh/v1", "kind": kind, "metadata": metadata, "spec": spec})
    };
    apply(kubernetes, &object("NodePool", &json!([]), &kubernetes.get(POOL).unwrap()["spec"])).unwrap();
    let uid = kubernetes.get(PROBE).unwrap()["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "probe", "uid": uid}]);
    apply(kubernetes, &object("NodeClaim", &owner, &claims(stack)[0]["spec"])).unwrap();
    kubernetes.delete(PROBE).unwrap();
    let there = || Ok(claims(stack).iter().filter(|claim| claim["metadata"]["name"] == "probe").count());
    wait_for("probes", 0, LONGEST, there).unwrap();
}

/// How many NodeClaims belong to the NodePool of this uid, as Karpenter's do.
fn owned_by(stack: &Stack, uid: &Value) -> usize {
    let owner = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": uid, "blockOwnerDeletion": true,
    });
    claims(stack).iter().filter(|claim| claim["metadata"]["ownerReferences"] == json!([owner])).count()
}

fn of_pool(stack: &Stack, pool: &str) -> usize {
    let label = |claim: &Value| claim["metadata"]["labels"]["karpenter.sh/nodepool"].clone();
    claims(stack).iter().filter(|claim| label(claim) == pool).count()
}

#[test]
fn a_deleted_pool_drains_and_ends_its_nodes() {
    let (stack, agent) = running();
    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "5")]).unwrap();
    settle(&stack);
    let uid = stack.kubernetes().get(POOL).unwrap()["metadata"]["uid"].clone();
    let (nodes, before) = (claims(&stack).len(), instances(&stack).unwrap());
    assert_eq!((owned_by(&stack, &uid), of_pool(&stack, "default")), (nodes, nodes));

    stack.kubernetes().delete(POOL).unwrap();
    let gone = || {
        tick(&stack, "provision")?;
        tick(&stack, "lifecycle")?;
        claims_in(&stack, "Gone")
    };
    wait_for("claims that are over", nodes, LONGEST, gone).unwrap();
    settle(&stack);
    assert_eq!(of_pool(&stack, "default"), 0);
    assert!(instances(&stack).unwrap().iter().all(|id| !before.contains(id)), "{before:?}");
    assert_eq!(stack.refusals(), Vec::<String>::new());
    drop((provision, lifecycle, agent));
}

#[test]
fn an_orphaned_node_stays_and_belongs_to_the_next_pool_of_its_name() {
    let (stack, agent) = running();
    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "5")]).unwrap();
    settle(&stack);
    let kubernetes = stack.kubernetes();
    let (nodes, before, pool) =
        (claims(&stack).len(), instances(&stack).unwrap(), kubernetes.get(POOL).unwrap());
    await_garbage_collector(&stack);
    kubernetes.delete(&format!("{POOL}?propagationPolicy=Orphan")).unwrap();
    let there = || Ok(usize::from(kubernetes.find(POOL)?.is_some()));
    wait_for("NodePool", 0, LONGEST, there).unwrap();
    let without_owner = |claim: &&Value| claim["metadata"]["ownerReferences"].is_null();
    for _ in 0..3 {
        tick(&stack, "lifecycle").unwrap();
        assert_eq!(claims(&stack).iter().filter(without_owner).count(), nodes);
    }

    let spec = &pool["spec"];
    let again = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": spec});
    apply(kubernetes, &again).unwrap();
    let uid = kubernetes.get(POOL).unwrap()["metadata"]["uid"].clone();
    tick(&stack, "lifecycle").unwrap();
    assert_eq!(owned_by(&stack, &uid), nodes);
    assert_eq!((instances(&stack).unwrap(), count_in_phase(&stack, "Running").unwrap()), (before, PODS));
    assert_eq!(stack.refusals(), Vec::<String>::new());
    drop((provision, lifecycle, agent));
}
