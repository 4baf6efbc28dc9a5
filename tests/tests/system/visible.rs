//! What people see of the objects that they wrote: conditions and events of what is refused, and
//! that it has been mended; numbers of nodes and resources; and whose a pool is while a Karpenter
//! lives.

use std::time::Duration;

use outrigger_stack::{CLUSTER, Kubernetes, Options, Stack};
use outrigger_tests::objects::{deployment, node_pool, requirement};
use outrigger_tests::world::{NO_WINDOW, apply, count_unschedulable, instances, tick, wait_for};
use serde_json::{Value, json};

const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
const CLASSES: &str = "/apis/karpenter.k8s.aws/v1/ec2nodeclasses";
const OVERLAYS: &str = "/apis/karpenter.sh/v1alpha1/nodeoverlays";
const BUFFERS: &str = "/apis/autoscaling.x-k8s.io/v1beta1/namespaces/default/capacitybuffers";

fn on_demand() -> Value {
    json!([
        requirement("karpenter.sh/capacity-type", "In", &["on-demand"]),
        requirement("kubernetes.io/arch", "In", &["amd64"]),
    ])
}

/// A pool of an EC2NodeClass.
fn pool_of(name: &str, class: &str) -> Value {
    let mut pool = node_pool(name, class, &on_demand());
    pool["spec"]["template"]["spec"]["nodeClassRef"] =
        json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class});
    pool
}

/// A class whose subnets are those with this tag of the cluster's.
fn class(name: &str, cluster: &str) -> Value {
    json!({
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {
            "amiFamily": "Custom",
            "amiSelectorTerms": [{"name": "*"}],
            "subnetSelectorTerms": [{"tags": {"KubernetesCluster": cluster}}],
            "securityGroupSelectorTerms": [{"tags": {"Name": format!("nodes.{CLUSTER}")}}],
            "instanceProfile": format!("nodes.{CLUSTER}"),
            "tags": {"KubernetesCluster": CLUSTER},
            "userData": "#!/bin/bash\n",
        },
    })
}

/// A condition of an object, as `True`, or as `False Reason: message`.
fn condition(stack: &Stack, path: &str, kind: &str) -> String {
    let object = stack.kubernetes().get(path).unwrap();
    let all = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let Some(found) = all.iter().find(|one| one["type"] == kind) else { return "none".into() };
    assert_eq!(found["observedGeneration"], object["metadata"]["generation"], "{object}");
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    if text("status") == "True" {
        return "True".into();
    }
    format!("{} {}: {}", text("status"), text("reason"), text("message"))
}

/// How often each event about an object was seen, by its reason and message.
fn events(stack: &Stack, kind: &str, name: &str) -> Vec<(String, u64)> {
    let all = stack.kubernetes().list("/api/v1/namespaces/default/events").unwrap();
    let of_it = all
        .iter()
        .filter(|event| event["involvedObject"]["kind"] == kind && event["involvedObject"]["name"] == name);
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    let mut shown: Vec<_> = of_it
        .map(|event| {
            let said = format!("{}: {}", text(event, "reason"), text(event, "message"));
            (said, event["count"].as_u64().unwrap_or(0))
        })
        .collect();
    shown.sort();
    shown
}

/// A pool with one key and effect in both lists of taints, which the API server cannot see.
fn broken_pool() -> Value {
    let mut broken = node_pool("broken", "nodes", &on_demand());
    let taint = json!([{"key": "team", "value": "red", "effect": "NoSchedule"}]);
    broken["spec"]["template"]["spec"]["taints"] = taint.clone();
    broken["spec"]["template"]["spec"]["startupTaints"] = taint;
    broken
}

fn overlay(price: &str) -> Value {
    let requirements = json!([requirement("node.kubernetes.io/instance-type", "In", &["m5.large"])]);
    json!({
        "apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "dear"},
        "spec": {"requirements": requirements, "price": price},
    })
}

fn says(stack: &Stack, path: &str, kind: &str, expected: &str) {
    let found = condition(stack, path, kind);
    assert!(found.starts_with(expected), "{path} {kind}: {found}");
}

/// Objects of each kind that are refused, each for a reason of its own, and a pool that is not.
fn apply_refused(kubernetes: &Kubernetes) {
    for object in [
        node_pool("sound", "nodes", &on_demand()),
        broken_pool(),
        pool_of("lost", "lost"),
        class("empty", "nobody.example.com"),
        pool_of("empty", "empty"),
        overlay("2000000"),
        json!({
            "apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
            "metadata": {"name": "spare", "namespace": "default"},
            "spec": {"podTemplateRef": {"name": "spare"}, "replicas": 0},
        }),
    ] {
        apply(kubernetes, &object).unwrap();
    }
}

fn apply_mended(kubernetes: &Kubernetes) {
    for object in [
        node_pool("broken", "nodes", &on_demand()),
        class("lost", CLUSTER),
        class("empty", CLUSTER),
        overlay("0.25"),
        json!({
            "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "spare", "namespace": "default"},
            "template": {"spec": {"containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}},
            ]}},
        }),
    ] {
        apply(kubernetes, &object).unwrap();
    }
}

const NO_SUBNET: &str = "spec.subnetSelectorTerms select no subnet";

fn assert_refusals_are_shown(stack: &Stack) {
    says(stack, &format!("{POOLS}/sound"), "Ready", "True");
    let complaint = "False ValidationFailed: spec.template.spec.startupTaints[0]";
    says(stack, &format!("{POOLS}/broken"), "ValidationSucceeded", complaint);
    says(stack, &format!("{POOLS}/broken"), "NodeClassReady", "True");
    says(stack, &format!("{POOLS}/broken"), "Ready", "False UnhealthyDependents: ValidationSucceeded=False");
    let no_class = "False NodeClassNotFound: there is no EC2NodeClass/lost";
    says(stack, &format!("{POOLS}/lost"), "NodeClassReady", no_class);
    says(stack, &format!("{CLASSES}/empty"), "SubnetsReady", &format!("False SubnetsNotFound: {NO_SUBNET}"));
    says(stack, &format!("{CLASSES}/empty"), "SecurityGroupsReady", "True");
    says(stack, &format!("{CLASSES}/empty"), "Ready", "False UnhealthyDependents: SubnetsReady=False");
    let not_ready = format!("False NodeClassNotReady: EC2NodeClass/empty: {NO_SUBNET}");
    says(stack, &format!("{POOLS}/empty"), "NodeClassReady", &not_ready);
    says(
        stack,
        &format!("{OVERLAYS}/dear"),
        "ValidationSucceeded",
        "False ValidationFailed: spec.price: found \"2000000\"",
    );
    says(
        stack,
        &format!("{BUFFERS}/spare"),
        "ReadyForProvisioning",
        "False ValidationFailed: spec.podTemplateRef",
    );
}

/// Two ticks have seen it, and people hear of it once.
fn assert_refusals_are_told_once(stack: &Stack) {
    assert_eq!(events(stack, "NodePool", "sound"), []);
    assert_eq!(
        events(stack, "NodePool", "lost"),
        [("NodeClassNotFound: there is no EC2NodeClass/lost".into(), 1)]
    );
    assert_eq!(events(stack, "EC2NodeClass", "empty"), [(format!("SubnetsNotFound: {NO_SUBNET}"), 1)]);
    for (kind, name) in [("NodePool", "broken"), ("NodeOverlay", "dear"), ("CapacityBuffer", "spare")] {
        let shown = events(stack, kind, name);
        assert!(
            shown.len() == 1 && shown[0].1 == 1 && shown[0].0.starts_with("ValidationFailed: spec."),
            "{shown:?}"
        );
    }
}

#[test]
fn what_is_refused_says_so_until_it_is_mended() {
    let stack = Stack::start(Options::default()).unwrap();
    let kubernetes = stack.kubernetes();
    apply_refused(kubernetes);
    let _provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    tick(&stack, "provision").unwrap();
    tick(&stack, "provision").unwrap();
    assert_refusals_are_shown(&stack);
    assert_refusals_are_told_once(&stack);

    let written = kubernetes.get(&format!("{POOLS}/sound")).unwrap()["metadata"]["resourceVersion"].clone();
    apply_mended(kubernetes);
    // A class is looked up again after a minute.
    std::thread::sleep(Duration::from_secs(61));
    tick(&stack, "provision").unwrap();
    for path in ["broken", "lost", "empty", "sound"].map(|name| format!("{POOLS}/{name}")) {
        says(&stack, &path, "Ready", "True");
    }
    for path in ["lost", "empty"].map(|name| format!("{CLASSES}/{name}")) {
        says(&stack, &path, "Ready", "True");
    }
    says(&stack, &format!("{OVERLAYS}/dear"), "Ready", "True");
    says(&stack, &format!("{BUFFERS}/spare"), "ReadyForProvisioning", "True");
    let mended = events(&stack, "NodePool", "lost");
    assert!(mended.iter().any(|(said, _)| said.starts_with("Ready: ")), "{mended:?}");
    let now = kubernetes.get(&format!("{POOLS}/sound")).unwrap()["metadata"]["resourceVersion"].clone();
    assert_eq!(now, written, "what has not changed is not written");
}

#[test]
fn a_pool_shows_its_nodes_and_what_they_have() {
    let stack = Stack::start(Options::default()).unwrap();
    apply(stack.kubernetes(), &node_pool("default", "nodes", &on_demand())).unwrap();
    apply(stack.kubernetes(), &deployment("web", 3, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 3, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let _provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    tick(&stack, "provision").unwrap();
    let nodes = instances(&stack).unwrap().len();
    let pool = stack.kubernetes().get(&format!("{POOLS}/default")).unwrap();
    assert_eq!(pool["status"]["nodes"], json!(nodes), "{pool}");
    let shown = &pool["status"]["resources"];
    assert_eq!(shown["nodes"], json!(nodes.to_string()), "{pool}");
    let cores: f64 = shown["cpu"].as_str().and_then(|cores| cores.parse().ok()).unwrap();
    assert!(cores >= 1.5 && shown["memory"].is_string() && shown["pods"] != json!("0"), "{pool}");
}

#[test]
fn a_pool_that_a_live_karpenter_has_is_left_alone() {
    let stack = Stack::start(Options::default()).unwrap();
    let kubernetes = stack.kubernetes();
    let lease = |renewed: jiff::Timestamp| {
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "karpenter-leader-election", "namespace": "kube-system"},
            "spec": {
                "holderIdentity": "karpenter-7", "leaseDurationSeconds": 3_600,
                "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string(),
            },
        })
    };
    apply(kubernetes, &lease(jiff::Timestamp::now())).unwrap();
    apply(kubernetes, &class("own", CLUSTER)).unwrap();
    apply(kubernetes, &pool_of("own", "own")).unwrap();
    apply(kubernetes, &deployment("web", 1, "500m", "1Gi", &json!({}))).unwrap();
    wait_for("unschedulable pods", 1, Duration::from_secs(60), || count_unschedulable(&stack)).unwrap();
    let _provision = stack.start_function("provision", &[NO_WINDOW]).unwrap();
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!((answer["unplaced"].as_u64(), instances(&stack).unwrap().len()), (Some(1), 0), "{answer}");
    let path = format!("{POOLS}/own");
    assert_eq!(condition(&stack, &path, "Ready"), "none", "its status is Karpenter's to write");
    let all = kubernetes.list("/api/v1/namespaces/default/events").unwrap();
    let why = "it is Karpenter's: its lease karpenter-leader-election in kube-system is held by karpenter-7";
    let tells = |event: &&Value| event["message"].as_str().is_some_and(|text| text.contains(why));
    assert!(all.iter().any(|event| tells(&event)), "{all:?}");

    apply(kubernetes, &lease(jiff::Timestamp::now() - jiff::SignedDuration::from_hours(2))).unwrap();
    let answer = tick(&stack, "provision").unwrap();
    assert_eq!((answer["unplaced"].as_u64(), instances(&stack).unwrap().len()), (Some(0), 1), "{answer}");
    assert_eq!(condition(&stack, &path, "Ready"), "True");
}
