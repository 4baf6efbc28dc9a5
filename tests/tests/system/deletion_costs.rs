//! Which pods a ReplicaSet ends first: the real kube-controller-manager follows the deletion cost
//! that disrupt sets, so that nodes end without one eviction; and the right to set it is none to
//! change what pods run.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

use outrigger_stack::{Kubernetes, NodeAgentSettings, Rates, Stack};
use outrigger_tests::objects::{deployment, requirement};
use outrigger_tests::world::{
    apply, claims_in, count_in_phase, instances, ledger, pods, pools, start, tick, wait_for,
};
use serde_json::{Value, json};

const DEPLOYMENTS: usize = 20;
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const LONGEST: Duration = Duration::from_mins(6);
/// Between two rounds of ticks, so that the tests beside it get their share of the machine.
const PAUSE: Duration = Duration::from_secs(1);

/// A pool of machines with 4 processors, and functions that look once a tick.
fn small_machines() -> Stack {
    let stack = Stack::start(outrigger_stack::Options::default()).unwrap();
    let mut pool = pools()[0].clone();
    let requirements = pool["spec"]["template"]["spec"]["requirements"].as_array_mut().unwrap();
    requirements.push(requirement("karpenter.k8s.aws/instance-cpu", "In", &["4"]));
    pool["spec"]["disruption"] = json!({
        "consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    apply(stack.kubernetes(), &pool).unwrap();
    stack
}

fn scale(stack: &Stack, replicas: usize) {
    for at in 0..DEPLOYMENTS {
        let name = format!("web-{at}");
        apply(stack.kubernetes(), &deployment(&name, replicas, "450m", "256Mi", &json!({}))).unwrap();
    }
}

/// Ticks all functions until so many pods run, no node is empty and nothing is on its way.
fn settle(stack: &Stack, running: usize) {
    let began = Instant::now();
    let mut quiet = 0;
    while quiet < 3 {
        sleep(PAUSE);
        assert!(began.elapsed() < LONGEST, "{running} pods do not come to rest");
        for function in ["provision", "lifecycle", "disrupt"] {
            tick(stack, function).unwrap();
        }
        let pods = pods(stack).unwrap();
        let used: BTreeSet<&str> = pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect();
        let is_at_rest = count_in_phase(stack, "Running").unwrap() == running
            && pods.len() == running
            && ledger(stack, "command#").unwrap().is_empty()
            && instances(stack).unwrap().len() == used.len()
            && claims_in(stack, "Initialized").unwrap() == used.len();
        quiet = if is_at_rest { quiet + 1 } else { 0 };
    }
}

/// Deletion costs of the pods of each ReplicaSet, by uid.
type Costs = BTreeMap<String, BTreeMap<String, i32>>;

fn costs(stack: &Stack) -> Costs {
    let mut costs = Costs::new();
    for pod in pods(stack).unwrap() {
        let metadata = &pod["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let cost = metadata["annotations"][COST].as_str().map_or(0, |cost| cost.parse().unwrap());
        let of_owner = costs.entry(text(&metadata["ownerReferences"][0]["name"])).or_default();
        of_owner.insert(text(&metadata["uid"]), cost);
    }
    costs
}

/// Of each ReplicaSet no pod is there still whose deletion cost was lower than that of one that has
/// ended.
fn check_that_the_cheapest_ended(before: &Costs, after: &Costs) {
    for (owner, costs) in before {
        let stays = |uid: &String| after.get(owner).is_some_and(|after| after.contains_key(uid));
        let highest_ended = costs.iter().filter(|(uid, _)| !stays(uid)).map(|(_, cost)| *cost).max();
        let lowest_left = costs.iter().filter(|(uid, _)| stays(uid)).map(|(_, cost)| *cost).min();
        assert!(highest_ended <= lowest_left, "{owner}: {highest_ended:?} ended, {lowest_left:?} is left");
    }
}

/// How many claims tell such an event.
fn claims_that_tell(stack: &Stack, reason: &str) -> usize {
    let events = stack.kubernetes().list("/api/v1/namespaces/default/events").unwrap();
    let about = |event: &&Value| event["reason"] == reason && event["involvedObject"]["kind"] == "NodeClaim";
    events.iter().filter(about).count()
}

#[test]
fn twenty_deployments_go_up_and_down_and_nodes_end_without_one_eviction() {
    let stack = small_machines();
    let window = |seconds| [("OUTRIGGER_POLL_WINDOW_SECONDS", seconds)];
    let functions = [("provision", "0"), ("lifecycle", "3"), ("disrupt", "0")]
        .map(|(name, seconds)| stack.start_function(name, &window(seconds)).unwrap());
    let boot = Duration::from_secs(2);
    let agent = stack.node_agent(NodeAgentSettings { boot, ..NodeAgentSettings::default() });
    let silent = ["provision", "lifecycle", "disrupt", "refresh"].map(str::to_owned).to_vec();
    let ticker = stack.ticker(Rates { silent, ..Rates::default() });

    for replicas in [1, 2, 3] {
        scale(&stack, replicas);
        settle(&stack, replicas * DEPLOYMENTS);
    }
    let peak = instances(&stack).unwrap().len();
    let mut set_by_us = 0;
    for replicas in [2, 1] {
        let before = costs(&stack);
        set_by_us += before.values().flatten().filter(|(_, cost)| **cost < 0).count();
        scale(&stack, replicas);
        settle(&stack, replicas * DEPLOYMENTS);
        check_that_the_cheapest_ended(&before, &costs(&stack));
        eprintln!("{replicas} replicas: {} of {peak} nodes", instances(&stack).unwrap().len());
    }
    assert!(set_by_us > 0, "no pod had a deletion cost");
    let remaining = instances(&stack).unwrap().len();
    assert!(remaining + 2 <= peak, "{remaining} of {peak} nodes remain");
    assert_eq!(claims_that_tell(&stack, "Empty"), peak - remaining);
    assert_eq!(claims_that_tell(&stack, "Underutilized"), 0);
    let audit = std::fs::read_to_string(stack.directory().join("logs/audit.log")).unwrap();
    assert_eq!(audit.matches(r#""subresource":"eviction""#).count(), 0, "nobody was evicted");
    assert_eq!(stack.refusals(), Vec::<String>::new());
    drop((functions, agent, ticker));
}

/// A client that may do what a role lets it, and nothing else.
fn with_role(stack: &Stack, role: &str) -> Kubernetes {
    let kubernetes = stack.kubernetes();
    let namespace = "kube-system";
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ranker", "namespace": namespace},
    });
    apply(kubernetes, &account).unwrap();
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "ranker"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "ranker", "namespace": namespace}],
    });
    apply(kubernetes, &binding).unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/ranker/token");
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = kubernetes.create(&path, &request).unwrap();
    let authority = std::fs::read_to_string(stack.directory().join("pki/ca.crt")).unwrap();
    let token = answer["status"]["token"].as_str().unwrap();
    let client = Kubernetes::new(&stack.state().endpoints.kubernetes, token, &authority).unwrap();
    let right = json!({"verb": "patch", "resource": "pods", "subresource": "status", "namespace": "default"});
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": right},
    });
    // The API server learns of a binding a moment after it has stored it.
    wait_for("rights", 1, Duration::from_secs(60), || {
        let answer = client.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review)?;
        Ok(usize::from(answer["status"]["allowed"] == true))
    })
    .unwrap();
    client
}

#[test]
fn who_may_set_a_deletion_cost_may_not_change_what_a_pod_runs() {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", 1, "100m", "64Mi", &json!({}))).unwrap();
    wait_for("pods", 1, Duration::from_secs(60), || Ok(pods(&stack)?.len())).unwrap();
    let name = pods(&stack).unwrap()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/namespaces/default/pods/{name}");
    let ranker = with_role(&stack, "outrigger:rank");
    let change = json!({
        "metadata": {"annotations": {COST: "-7"}},
        "spec": {"containers": [{"name": "main", "image": "example.com/evil:1"}]},
    });
    let refused = ranker.merge(&path, &change).unwrap_err().to_string();
    assert!(refused.contains("403"), "{refused}");
    ranker.merge(&format!("{path}/status"), &change).unwrap();
    let pod = stack.kubernetes().get(&path).unwrap();
    assert_eq!(pod["metadata"]["annotations"][COST], "-7");
    assert_eq!(pod["spec"]["containers"][0]["image"], "registry.k8s.io/pause:3.10");
    assert!(ranker.get(&path).unwrap_err().to_string().contains("403"), "it may not even read pods");
}
