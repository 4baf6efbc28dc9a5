//! What the functions ask the API server for while nothing is to be decided, and that its lists
//! come compressed.

use std::thread;
use std::time::Duration;

use outrigger_stack::{NodeAgentSettings, Stack};
use outrigger_tests::faults::{FaultProxy, Seen};
use outrigger_tests::objects::deployment;
use outrigger_tests::proxy::Traffic;
use outrigger_tests::world::{
    NO_WINDOW, apply, claims_in, count_in_phase, count_unschedulable, proxied_api_server, start, tick,
    wait_for,
};
use serde_json::{Value, json};

const NODE_POOL: &str = "/apis/karpenter.sh/v1/nodepools/default";
const UNSCHEDULED: &str = "fieldSelector=spec.nodeName%3D%2Cstatus.phase";
const ALL_PODS: &str = "fieldSelector=status.phase";
const CLOSED: &str = "labelSelector=node.kubernetes.io%2Fexclude-from-external-load-balancers";

fn of<'s>(seen: &'s [Seen], path: &str) -> Vec<&'s str> {
    seen.iter().map(|seen| seen.line.as_str()).filter(|line| line.starts_with(path)).collect()
}

fn lists<'s>(seen: &'s [Seen], path: &str) -> Vec<&'s str> {
    of(seen, path).into_iter().filter(|line| !line.contains("watch=true")).collect()
}

/// Only pods without a node and nodes that are closed, each listed once and watched once.
fn assert_quiet(seen: &[Seen]) {
    let (pods, nodes) = (of(seen, "GET /api/v1/pods?"), of(seen, "GET /api/v1/nodes?"));
    assert_eq!((pods.len(), nodes.len()), (2, 2), "{seen:#?}");
    assert!(pods.iter().all(|line| line.contains(UNSCHEDULED)), "{pods:#?}");
    assert!(nodes.iter().all(|line| line.contains(CLOSED)), "{nodes:#?}");
    assert_eq!(of(seen, "GET /apis/apps/v1/daemonsets?"), Vec::<&str>::new());
}

fn provision(stack: &Stack, api_server: &str, window: &str) -> outrigger_stack::FunctionProcess {
    let environment = [("OUTRIGGER_API_SERVER", api_server), ("OUTRIGGER_POLL_WINDOW_SECONDS", window)];
    stack.start_function("provision", &environment).unwrap()
}

#[test]
fn a_quiet_window_asks_for_pods_without_a_node_and_a_decision_for_all() {
    let stack = start().unwrap();
    let proxy = FaultProxy::start(&stack).unwrap();
    let process = provision(&stack, &proxy.url(), "4");
    // Whether a ledger that is new has lost nodes, all nodes say, once.
    tick(&stack, "provision").unwrap();
    proxy.set(&[]);
    let quiet = tick(&stack, "provision").unwrap();
    assert_eq!(quiet["plans"], 0, "{quiet}");
    assert_quiet(&proxy.seen());
    let read = proxy.seen().into_iter().filter(|seen| seen.line.contains("limit="));
    assert!(read.clone().count() > 4 && read.clone().all(|seen| seen.takes_gzip), "{:#?}", proxy.seen());
    drop(process);

    // Pods come while a window is open: all is read once, however many batches there are.
    proxy.set(&[]);
    let process = provision(&stack, &proxy.url(), "25");
    let answer = thread::scope(|scope| {
        let tick = scope.spawn(|| tick(&stack, "provision"));
        for name in ["first", "second"] {
            thread::sleep(Duration::from_secs(4));
            apply(stack.kubernetes(), &deployment(name, 3, "500m", "1Gi", &json!({}))).unwrap();
        }
        tick.join().unwrap().unwrap()
    });
    assert!(answer["plans"].as_u64() >= Some(2) && answer["unplaced"] == 0, "{answer}");
    let seen = proxy.seen();
    let pods = lists(&seen, "GET /api/v1/pods?");
    let whole: Vec<_> = pods.iter().filter(|line| line.contains(ALL_PODS)).collect();
    assert_eq!((pods.len(), whole.len()), (2, 1), "{pods:#?}");
    assert_eq!(lists(&seen, "GET /apis/apps/v1/daemonsets?").len(), 1, "{seen:#?}");
    let nodes = lists(&seen, "GET /api/v1/nodes?");
    assert_eq!(nodes.len(), 2, "{nodes:#?}");
    drop(process);
}

#[test]
fn nodes_are_listed_for_a_sweep_and_watched_while_claims_wait() {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", 3, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 3, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let process = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let launched = tick(&stack, "provision").unwrap()["launched"].as_array().map_or(0, Vec::len);
    let proxy = FaultProxy::start(&stack).unwrap();
    let url = proxy.url();
    let through = [("OUTRIGGER_API_SERVER", url.as_str()), ("OUTRIGGER_POLL_WINDOW_SECONDS", "40")];
    let lifecycle = stack.start_function("lifecycle", &through).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    let answer = tick(&stack, "lifecycle").unwrap();
    assert_eq!(claims_in(&stack, "Initialized").unwrap(), launched, "{answer}");
    let seen = proxy.seen();
    let (nodes, pods) = (lists(&seen, "GET /api/v1/nodes?"), lists(&seen, "GET /api/v1/pods?limit"));
    let whole: Vec<_> = pods.iter().filter(|line| line.contains(ALL_PODS)).collect();
    // Once for the sweep, and once with all pods, when the first node is ready for its own.
    assert_eq!((nodes.len(), whole.len()), (2, 1), "{nodes:#?} {pods:#?}");
    drop((process, lifecycle, agent));
}

/// Whether a tick of disrupt was quiet, and which lists of pods it asked for.
fn disrupt(stack: &Stack, proxy: &FaultProxy) -> (bool, Vec<String>) {
    proxy.set(&[]);
    let answer = tick(stack, "disrupt").unwrap();
    let seen = proxy.seen();
    let lists = lists(&seen, "GET /api/v1/pods?").into_iter().map(str::to_owned).collect();
    (answer["isQuiet"] == true, lists)
}

#[test]
fn disrupt_reads_the_whole_cluster_only_once_something_has_changed() {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", 2, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 2, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "5")]).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    tick(&stack, "provision").unwrap();
    let ready = || {
        tick(&stack, "lifecycle")?;
        claims_in(&stack, "Initialized")
    };
    wait_for("ready nodes", 1, Duration::from_secs(120), ready).unwrap();
    wait_for("running pods", 2, Duration::from_secs(60), || count_in_phase(&stack, "Running")).unwrap();
    drop((provision, lifecycle, agent));
    // While a node is too young, which time alone ends, there is no quiet.
    let impatient = json!({"metadata": {"annotations": {"outrigger.dev/patience": "0"}}});
    stack.kubernetes().merge(NODE_POOL, &impatient).unwrap();
    let nodes = stack.kubernetes().list("/api/v1/nodes").unwrap();
    let node = format!("/api/v1/nodes/{}", nodes[0]["metadata"]["name"].as_str().unwrap());
    let stays = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    stack.kubernetes().merge(&node, &stays).unwrap();
    let proxy = FaultProxy::start(&stack).unwrap();
    let url = proxy.url();
    let process = stack.start_function("disrupt", &[("OUTRIGGER_API_SERVER", url.as_str())]).unwrap();

    let whole = |lists: &[String]| lists.iter().any(|line| line.contains("limit="));
    let (is_quiet, lists) = disrupt(&stack, &proxy);
    assert!(!is_quiet && whole(&lists), "{lists:#?}");
    for _ in 0..2 {
        let (is_quiet, lists) = disrupt(&stack, &proxy);
        assert!(is_quiet && lists.len() == 1 && lists[0].contains("includeObject=None"), "{lists:#?}");
    }
    // A pod goes, and another one comes.
    let pods = stack.kubernetes().list("/api/v1/namespaces/default/pods").unwrap();
    let pod = pods[0]["metadata"]["name"].as_str().unwrap();
    stack.kubernetes().delete(&format!("/api/v1/namespaces/default/pods/{pod}")).unwrap();
    wait_for("running pods", 2, Duration::from_secs(60), || count_in_phase(&stack, "Running")).unwrap();
    let (is_quiet, lists) = disrupt(&stack, &proxy);
    assert!(!is_quiet && whole(&lists), "{lists:#?}");
    // Somebody changes a NodePool, forbids that pods are evicted, and cordons a node.
    let weight = json!({"spec": {"weight": 7}});
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "web"}}}});
    let changes: [(&str, &dyn Fn()); 3] = [
        ("a NodePool", &|| stack.kubernetes().merge(NODE_POOL, &weight).map(drop).unwrap()),
        ("a budget", &|| apply(stack.kubernetes(), &budget).unwrap()),
        ("a node", &|| {
            stack.kubernetes().merge(&node, &json!({"spec": {"unschedulable": true}})).map(drop).unwrap();
        }),
    ];
    for (what, change) in changes {
        let is_quiet = || Ok(usize::from(disrupt(&stack, &proxy).0));
        wait_for("quiet", 1, Duration::from_secs(30), is_quiet).unwrap();
        change();
        assert!(!disrupt(&stack, &proxy).0, "{what} has changed");
    }
    drop(process);
}

/// 300 pods that wait for their gates to open, of 4 KB and more.
fn large_pods(stack: &Stack) -> usize {
    let variables: Vec<Value> = (0..40)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-many")}))
        .collect();
    let mut deployment =
        deployment("gated", 300, "10m", "16Mi", &json!({"schedulingGates": [{"name": "example.com/wait"}]}));
    deployment["spec"]["template"]["spec"]["containers"][0]["env"] = json!(variables);
    apply(stack.kubernetes(), &deployment).unwrap();
    let list = || stack.kubernetes().list("/api/v1/namespaces/default/pods");
    wait_for("pods", 300, Duration::from_secs(120), || Ok(list()?.len())).unwrap();
    list().unwrap().iter().map(|pod| pod.to_string().len()).sum()
}

#[test]
fn the_server_compresses_its_lists() {
    let stack = start().unwrap();
    let uncompressed = u64::try_from(large_pods(&stack)).unwrap();
    let (proxy, api_server) = proxied_api_server(&stack).unwrap();
    let process = provision(&stack, &api_server, "0");
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!(answer["plans"], 0, "{answer}");
    let Traffic { received, .. } = proxy.take_traffic();
    assert!(uncompressed > 1_000_000 && received < uncompressed / 5, "{received} of {uncompressed} bytes");
    drop(process);
}
