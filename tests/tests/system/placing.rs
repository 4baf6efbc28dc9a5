//! Planned pods are bound to their nodes where that is allowed, and left to kube-scheduler where it
//! is not.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use outrigger_stack::{NodeAgentSettings, Stack};
use outrigger_tests::faults::{Fault, FaultProxy, Rule};
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{
    NO_WINDOW, apply, count_in_phase, count_unschedulable, instances, pods, start, tick, wait_for,
};
use serde_json::{Value, json};

const PODS: usize = 12;
const STRANGERS: usize = 2;
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const LONGEST: Duration = Duration::from_secs(60);

/// Pods come, nodes are bought for them, and all run. Gives what lifecycle's ticks said of binding:
/// how many pods it bound, how many it left, and whether it missed the right.
fn run_more(stack: &Stack, name: &str, before: usize) -> (u64, u64, bool) {
    apply(stack.kubernetes(), &deployment(name, PODS, "700m", "1Gi", &json!({}))).unwrap();
    let waiting = || Ok(count_unschedulable(stack)? + count_in_phase(stack, "Running")?);
    wait_for("judged pods", before + PODS, LONGEST, waiting).unwrap();
    tick(stack, "provision").unwrap();
    let (mut bound, mut left_to_scheduler, mut forbidden) = (0, 0, false);
    let running = || {
        let answer = tick(stack, "lifecycle")?;
        bound += answer["bound"].as_u64().unwrap_or_default();
        left_to_scheduler += answer["leftToScheduler"].as_u64().unwrap_or_default();
        forbidden |= answer["bindingForbidden"] == true;
        count_in_phase(stack, "Running")
    };
    wait_for("running pods", before + PODS, LONGEST, running).unwrap();
    (bound, left_to_scheduler, forbidden)
}

/// Pods of a deployment that an event of ours says were assigned.
fn count_assigned(stack: &Stack, name: &str) -> usize {
    let events = stack.kubernetes().list("/api/v1/namespaces/default/events").unwrap();
    let is_about = |event: &&Value| {
        let object = event["involvedObject"]["name"].as_str().unwrap_or_default();
        event["reason"] == "Scheduled"
            && event["reportingComponent"] == "outrigger"
            && object.starts_with(name)
    };
    events.iter().filter(is_about).count()
}

#[test]
fn pods_are_bound_where_that_is_allowed_and_left_to_the_scheduler_where_not() {
    let stack = start().unwrap();
    let mut binding = stack.kubernetes().get(&format!("{BINDINGS}/outrigger:place")).unwrap();
    stack.kubernetes().delete(&format!("{BINDINGS}/outrigger:place")).unwrap();
    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "10")]).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());

    let (bound, left_to_scheduler, forbidden) = run_more(&stack, "unbound", 0);
    assert_eq!((bound, forbidden), (0, true), "nothing can be bound without the right, and that is said");
    assert!(left_to_scheduler >= PODS as u64, "{left_to_scheduler} pods were left to kube-scheduler");
    assert_eq!(count_assigned(&stack, "unbound"), 0);

    binding["metadata"] = json!({"name": "outrigger:place"});
    apply(stack.kubernetes(), &binding).unwrap();
    let (bound, left_to_scheduler, forbidden) = run_more(&stack, "bound", PODS);
    // What had room on nodes that exist was kube-scheduler's to place.
    assert!(
        bound > 0 && left_to_scheduler == 0 && !forbidden,
        "{bound} bound, {left_to_scheduler} left, {forbidden}"
    );
    assert_eq!(count_assigned(&stack, "bound") as u64, bound, "each pod is told where it went");
    for node in stack.kubernetes().list("/api/v1/nodes").unwrap() {
        let taints = node["spec"]["taints"].to_string();
        assert!(!taints.contains("outrigger.dev/placing"), "{node}");
    }
    drop((provision, lifecycle, agent));
}

/// How many pods of a deployment run, and on how many nodes.
fn running(stack: &Stack, name: &str) -> (usize, usize) {
    let all = pods(stack).unwrap();
    let is_running =
        |pod: &&Value| pod["status"]["phase"] == "Running" && pod["metadata"]["labels"]["app"] == name;
    let on: Vec<String> =
        all.iter().filter(is_running).map(|pod| pod["spec"]["nodeName"].to_string()).collect();
    (on.len(), on.iter().collect::<BTreeSet<_>>().len())
}

/// Bindings are refused for the server's load, sent twice, late, and their answers are lost: each
/// pod is on one node, at most one binding in vain is left to kube-scheduler, and nothing further
/// is bought.
#[test]
fn a_server_that_stammers_gets_each_binding_once() {
    let stack = start().unwrap();
    let proxy = FaultProxy::start(&stack).unwrap();
    let url = proxy.url();
    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let through = [("OUTRIGGER_API_SERVER", url.as_str()), ("OUTRIGGER_POLL_WINDOW_SECONDS", "10")];
    let lifecycle = stack.start_function("lifecycle", &through).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    let strike = |times, fault| {
        let holds = vec!["POST ", "/binding"];
        Rule { holds, after: 0, times, fault }
    };
    // The last one stands for a server that has nothing but refusals for one pod.
    proxy.set(&[
        strike(2, Fault::Refused(429, "Retry-After: 1\r\n", "too many requests")),
        strike(2, Fault::Repeated),
        strike(2, Fault::AnswerLost),
        strike(2, Fault::Late(Duration::from_millis(1_500))),
        strike(1, Fault::Refused(409, "", "pod is already assigned to a node")),
        strike(1, Fault::Refused(500, "", "etcd has no leader")),
    ]);
    let (bound, left_to_scheduler, forbidden) = run_more(&stack, "web", 0);
    let struck = proxy.seen().iter().filter(|seen| seen.struck).count();
    assert_eq!(struck, 10, "{:#?}", proxy.seen());
    assert!(
        bound + 5 >= PODS as u64 && left_to_scheduler <= 1 && !forbidden,
        "{bound} bound, {left_to_scheduler} left"
    );
    assert_eq!(running(&stack, "web").0, PODS);
    assert_eq!(running(&stack, "web").1, instances(&stack).unwrap().len(), "no node is in vain");
    drop((provision, lifecycle, agent));
}

/// Ends what runs beside a test, also when that fails.
struct UntilDropped<'a>(&'a AtomicBool);

impl Drop for UntilDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Binds a pod of its own to each node that is closed, but to no more than [`STRANGERS`]: pods that
/// three nodes in a row did not help would be left alone for a while.
fn bind_strangers(stack: &Stack, over: &AtomicBool) {
    let mut met = BTreeSet::new();
    while !over.load(Ordering::Relaxed) {
        for node in stack.kubernetes().list("/api/v1/nodes").unwrap() {
            let name = node["metadata"]["name"].as_str().unwrap().to_owned();
            let is_closed = node["spec"]["taints"].to_string().contains("outrigger.dev/placing");
            if is_closed && met.len() < STRANGERS && met.insert(name.clone()) {
                let template = &deployment("stranger", 1, "1", "512Mi", &json!({}))["spec"]["template"];
                let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]});
                pod["metadata"] = json!({"name": format!("stranger-{name}"), "labels": {"app": "stranger"}});
                pod["spec"]["nodeName"] = json!(name);
                stack.kubernetes().create("/api/v1/namespaces/default/pods", &pod).unwrap();
            }
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Says of the first pod of a deployment that is bound to a new node that its kubelet had no room
/// for it, where there is one.
fn refuse_one(stack: &Stack, name: &str, old_nodes: &BTreeSet<String>) -> bool {
    let all = pods(stack).unwrap();
    let is_bound = |pod: &&Value| {
        let node = pod["spec"]["nodeName"].as_str();
        pod["metadata"]["labels"]["app"] == name && node.is_some_and(|node| !old_nodes.contains(node))
    };
    let Some(pod) = all.iter().find(is_bound) else { return false };
    let words = "Node didn't have enough resource: cpu, requested: 700, used: 1900, capacity: 1930";
    let status = json!({"status": {"phase": "Failed", "reason": "OutOfcpu", "message": words}});
    let path =
        format!("/api/v1/namespaces/default/pods/{}/status", pod["metadata"]["name"].as_str().unwrap());
    let is_failed = || {
        let same = |other: &&Value| other["metadata"]["uid"] == pod["metadata"]["uid"];
        let now = pods(stack).unwrap();
        now.iter().find(same).is_some_and(|pod| pod["status"]["phase"] == "Failed")
    };
    // Whoever plays the other kubelets may have been about to say that the pod runs.
    let mut calm = 0;
    while calm < 5 {
        stack.kubernetes().merge(&path, &status).unwrap();
        thread::sleep(Duration::from_millis(100));
        calm = if is_failed() { calm + 1 } else { 0 };
    }
    true
}

/// One tick of lifecycle; what it says of refused pods.
fn look(stack: &Stack) -> Result<Vec<String>> {
    let answer = tick(stack, "lifecycle")?;
    Ok(answer["refused"].as_array().into_iter().flatten().map(ToString::to_string).collect())
}

/// Ticks of both functions until so many pods of a deployment run, with something done between
/// them; what lifecycle said of refused pods.
fn settle(stack: &Stack, name: &str, mut between: impl FnMut()) -> BTreeSet<String> {
    let mut refused = BTreeSet::new();
    let settled = || {
        tick(stack, "provision")?;
        refused.extend(look(stack)?);
        between();
        Ok(running(stack, name).0)
    };
    wait_for("running pods", PODS, 2 * LONGEST, settled).unwrap();
    refused
}

#[test]
fn strangers_and_kubelets_that_refuse_cost_a_plan_and_no_more() {
    let stack = start().unwrap();
    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[NO_WINDOW]).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    let over = AtomicBool::new(false);

    apply(stack.kubernetes(), &deployment("first", PODS, "700m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", PODS, LONGEST, || count_unschedulable(&stack)).unwrap();
    thread::scope(|scope| {
        let _until = UntilDropped(&over);
        scope.spawn(|| bind_strangers(&stack, &over));
        settle(&stack, "first", || {});
    });
    assert!(running(&stack, "stranger").0 > 0, "no stranger came");
    let all = pods(&stack).unwrap();
    let refused = all.iter().filter(|pod| pod["status"]["phase"] == "Failed").count();
    assert_eq!(refused, 0, "nothing is bound that does not fit beside a stranger");

    let old_nodes: BTreeSet<String> = instances(&stack).unwrap().into_iter().collect();
    apply(stack.kubernetes(), &deployment("second", PODS, "700m", "1Gi", &json!({}))).unwrap();
    let mut has_refused = false;
    let refuse = || has_refused = has_refused || refuse_one(&stack, "second", &old_nodes);
    let mut refused = settle(&stack, "second", refuse);
    // What takes the refused pod's place may run before lifecycle has looked again.
    wait_for("refusals that are told", 1, LONGEST, || {
        refused.extend(look(&stack)?);
        Ok(refused.len())
    })
    .unwrap();
    let all = pods(&stack).unwrap();
    let refused: Vec<&Value> = all.iter().filter(|pod| pod["status"]["phase"] == "Failed").collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused.len(), 1, "{refused:?}");
    let events = stack.kubernetes().list("/api/v1/namespaces/default/events").unwrap();
    let about = &refused[0]["metadata"]["name"];
    let is_about =
        |event: &&Value| event["reason"] == "NotAdmitted" && event["involvedObject"]["name"] == *about;
    assert_eq!(events.iter().filter(is_about).count(), 1);
    drop((provision, lifecycle, agent));
}
