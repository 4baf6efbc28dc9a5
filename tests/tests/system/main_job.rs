//! 300 pods of twelve shapes on a cluster without nodes become Running, and nothing more is
//! launched. Each node runs kube-proxy, a static pod that nobody schedules, as in most kOps
//! clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_model::Quantity;
use outrigger_stack::{NodeAgentSettings, Rates, Stack};
use outrigger_tests::objects::{daemon_set, deployment};
use outrigger_tests::world::{
    LONG_WINDOW, apply, claims_in, count_in_phase, count_unschedulable, instances, ledger, pods, start,
    start_with_kube_proxy, tick, wait_for,
};
use serde_json::{Value, json};

/// Every pod that some node can be made for.
const PLACEABLE: usize = 299;

/// Twelve shapes, 300 pods.
fn workloads() -> Vec<Value> {
    let select = |key: &str, value: &str| json!({"nodeSelector": {key: value}});
    let arm = select("kubernetes.io/arch", "arm64");
    let spot = select("karpenter.sh/capacity-type", "spot");
    let on_demand = select("karpenter.sh/capacity-type", "on-demand");
    let zone = select("topology.kubernetes.io/zone", "us-east-1b");
    let batch = json!({
        "nodeSelector": {"example.com/workload": "batch"},
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoSchedule"}],
    });
    let either = json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["riscv64"]}]},
            {"matchExpressions": [{"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c"]}]},
        ],
    }}}});
    let with_init = json!({"initContainers": [{
        "name": "prepare",
        "image": "registry.k8s.io/pause:3.10",
        "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}},
    }]});
    let tolerating = json!({"tolerations": [{"key": "dedicated", "operator": "Exists"}]});
    vec![
        deployment("web", 80, "250m", "512Mi", &json!({})),
        deployment("api", 60, "500m", "1Gi", &json!({})),
        deployment("arm", 40, "500m", "1Gi", &arm),
        deployment("spot-only", 30, "1", "2Gi", &spot),
        deployment("on-demand-only", 20, "1", "4Gi", &on_demand),
        deployment("batch", 24, "2", "4Gi", &batch),
        deployment("in-one-zone", 15, "250m", "256Mi", &zone),
        deployment("big-memory", 3, "2", "100Gi", &json!({})),
        deployment("compute", 10, "3", "4Gi", &either),
        deployment("with-init", 9, "100m", "128Mi", &with_init),
        deployment("tolerating", 8, "100m", "2Gi", &tolerating),
        deployment("impossible", 1, "1000", "1Gi", &json!({})),
    ]
}

#[test]
fn three_hundred_pods_become_running_but_for_the_impossible_one() {
    let stack = start_with_kube_proxy().unwrap();
    let kubernetes = stack.kubernetes();
    apply(kubernetes, &daemon_set("agent", "50m", "64Mi")).unwrap();
    for workload in workloads() {
        apply(kubernetes, &workload).unwrap();
    }
    wait_for("unschedulable pods", 300, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();

    let provision = stack.start_function("provision", &[]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[LONG_WINDOW]).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    // Only doorbells: lifecycle is woken by provision's event, not by its schedule.
    let silent = ["disrupt", "provision", "lifecycle", "refresh"].map(str::to_owned).to_vec();
    let ticker = stack.ticker(Rates { silent, ..Rates::default() });

    let first = tick(&stack, "provision").unwrap();
    let launched = first["launched"].as_array().unwrap().len();
    assert!(launched > 3, "{first}");
    assert_eq!((first["pods"].as_u64(), first["unplaced"].as_u64()), (Some(300), Some(1)), "{first}");
    assert_eq!(instances(&stack).unwrap().len(), launched);

    let nodes = || Ok(kubernetes.list("/api/v1/nodes")?.len());
    wait_for("nodes", launched, Duration::from_secs(60), nodes).unwrap();
    settle(&stack, launched);

    let again = tick(&stack, "provision").unwrap();
    assert_eq!(again["launched"], json!([]), "{again}");
    assert_eq!(instances(&stack).unwrap().len(), launched);
    wait_for("initialised claims", launched, Duration::from_secs(60), || claims_in(&stack, "Initialized"))
        .unwrap();
    let mirrors = kubernetes.list("/apis/karpenter.sh/v1/nodeclaims").unwrap();
    assert_eq!(mirrors.len(), launched);

    assert_impossible_is_explained(&stack);
    // Each function as itself, with the environment and the rights that it is deployed with, before
    // a strict EC2.
    assert_eq!(stack.refusals(), Vec::<String>::new());
    drop((provision, lifecycle, agent, ticker));
}

/// Waits until every pod that was planned runs, where lifecycle has bound it.
fn settle(stack: &Stack, launched: usize) {
    // Each node runs one pod of the daemonset.
    let running = || Ok(count_in_phase(stack, "Running")? - launched);
    // Two other stacks share the processors with the eleven nodes of this one.
    let all = wait_for("running pods", PLACEABLE, Duration::from_secs(120), running);
    all.unwrap_or_else(|error| panic!("{error}\n{}", waiting(stack)));
}

/// The pods that do not run, each with the node that it is nominated to and what the scheduler says
/// of it.
fn waiting(stack: &Stack) -> String {
    let pods = pods(stack).unwrap();
    let waiting = pods.iter().filter(|pod| pod["status"]["phase"] != "Running");
    let line = |pod: &Value| {
        let (name, status) = (&pod["metadata"]["name"], &pod["status"]);
        format!("{name} {} {} {}", pod["spec"]["nodeName"], status["nominatedNodeName"], status["conditions"])
    };
    waiting.map(line).collect::<Vec<_>>().join("\n")
}

/// The pod that no type fits has an event and a report that name the constraint.
fn assert_impossible_is_explained(stack: &Stack) {
    let events = stack.kubernetes().list("/api/v1/namespaces/default/events").unwrap();
    let of_ours = |event: &&Value| {
        let pod = event["involvedObject"]["name"].as_str().unwrap_or_default();
        let message = event["message"].as_str().unwrap_or_default();
        pod.starts_with("impossible-") && message.starts_with("Outrigger")
    };
    let event =
        events.iter().find(of_ours).unwrap_or_else(|| panic!("no event of ours among {}", events.len()));
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("cpu") && message.contains("NodePool default"), "{message}");
    let report = ledger(stack, "report#provision").unwrap();
    assert_eq!(report.len(), 1);
}

/// Pods of half a processor fill a machine to the last thousandth, unless kube-proxy's 100m are
/// counted.
#[test]
fn full_nodes_have_room_for_kube_proxy() {
    let stack = start_with_kube_proxy().unwrap();
    let kubernetes = stack.kubernetes();
    apply(kubernetes, &deployment("web", 60, "500m", "512Mi", &json!({}))).unwrap();
    apply(kubernetes, &deployment("filler", 40, "100m", "64Mi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 100, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let provision = stack.start_function("provision", &[]).unwrap();
    let lifecycle = stack.start_function("lifecycle", &[LONG_WINDOW]).unwrap();
    let agent = stack.node_agent(NodeAgentSettings::default());
    let silent = ["disrupt", "provision", "lifecycle", "refresh"].map(str::to_owned).to_vec();
    let ticker = stack.ticker(Rates { silent, ..Rates::default() });

    let first = tick(&stack, "provision").unwrap();
    let launched = first["launched"].as_array().unwrap().len();
    let running = || count_in_phase(&stack, "Running");
    let all = wait_for("running pods", 100, Duration::from_secs(90), running);
    all.unwrap_or_else(|error| panic!("{error}\n{first}\n{}", waiting(&stack)));

    let free = free_millicpus(&stack);
    assert_eq!(free.len(), launched, "{free:?}");
    assert!(free.values().all(|free| *free >= 0), "{free:?}");
    assert!(free.values().any(|free| *free <= 100), "no node is full: {free:?}");
    let again = tick(&stack, "provision").unwrap();
    assert_eq!(again["launched"], json!([]), "{again}");
    drop((provision, lifecycle, agent, ticker));
}

/// What each node's pods leave of its processors, kube-proxy among them, in thousandths. Each node
/// must run it.
fn free_millicpus(stack: &Stack) -> BTreeMap<String, i64> {
    let millis = |quantity: &Value| quantity.as_str().unwrap().parse::<Quantity>().unwrap().milli_value();
    let nodes = stack.kubernetes().list("/api/v1/nodes").unwrap();
    let allocatable = |node: &Value| {
        let name = node["metadata"]["name"].as_str().unwrap().to_owned();
        (name, millis(&node["status"]["allocatable"]["cpu"]))
    };
    let mut free: BTreeMap<String, i64> = nodes.iter().map(allocatable).collect();
    let mut proxies = BTreeSet::new();
    for pod in stack.kubernetes().list("/api/v1/pods").unwrap() {
        let Some(node) = pod["spec"]["nodeName"].as_str() else { continue };
        if pod["metadata"]["labels"]["k8s-app"] == "kube-proxy" {
            proxies.insert(node.to_owned());
        }
        for container in pod["spec"]["containers"].as_array().unwrap() {
            *free.get_mut(node).unwrap() -= millis(&container["resources"]["requests"]["cpu"]);
        }
    }
    assert!(free.keys().eq(&proxies), "kube-proxy runs on {proxies:?}");
    free
}

#[test]
fn two_provision_functions_at_once_launch_no_extra_instance() {
    let stack = start().unwrap();
    apply(stack.kubernetes(), &deployment("web", 40, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 40, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let one = stack.start_function("provision", &[]).unwrap();
    let two = stack.start_function("provision", &[]).unwrap();
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let both = [0, 1].map(|_| scope.spawn(|| tick(&stack, "provision").unwrap()));
        both.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let launched: usize = answers.iter().map(|answer| answer["launched"].as_array().unwrap().len()).sum();
    assert!(launched > 0, "{answers:?}");
    assert_eq!(instances(&stack).unwrap().len(), launched, "{answers:?}");
    assert_eq!(claims_in(&stack, "Launched").unwrap(), launched);
    let again = tick(&stack, "provision").unwrap();
    assert_eq!(again["launched"], json!([]), "{again}");
    assert_eq!(instances(&stack).unwrap().len(), launched);
    drop((one, two));
}
