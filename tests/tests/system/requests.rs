//! What the Cluster port asks of a real API server: lists come from the store, what is changed has
//! the version that was read, and a pod that was made again under its name is another one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_engine::ports::{Binding, Cluster, ClusterError, Eviction, NodeChange, Scope};
use outrigger_kubernetes::KubernetesCluster;
use outrigger_model::{NominatedPod, Pod};
use outrigger_stack::Stack;
use outrigger_tests::faults::FaultProxy;
use outrigger_tests::objects::deployment;
use outrigger_tests::world::start;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

const PODS: &str = "/api/v1/namespaces/default/pods";
const POD: &str = "/api/v1/namespaces/default/pods/p";
const NODE: &str = "/api/v1/nodes/n";

/// The port as an administrator has it, through a proxy.
fn port(runtime: &Runtime, stack: &Stack, proxy: &FaultProxy) -> KubernetesCluster {
    let admin = std::fs::read_to_string(&stack.state().endpoints.admin_kubeconfig).unwrap();
    let kubeconfig = stack.directory().join("proxied.kubeconfig");
    std::fs::write(&kubeconfig, admin.replace(&stack.state().endpoints.kubernetes, &proxy.url())).unwrap();
    runtime.block_on(KubernetesCluster::from_kubeconfig(&[kubeconfig], None)).unwrap()
}

/// A pod of this name that no node has room for.
fn create_pod(stack: &Stack) -> Value {
    let mut pod = deployment("p", 1, "1", "1Gi", &json!({}))["spec"]["template"].clone();
    pod["metadata"]["name"] = json!("p");
    stack.kubernetes().create(PODS, &pod).unwrap()
}

/// The pod as the port lists it.
fn listed(runtime: &Runtime, port: &KubernetesCluster) -> Pod {
    let (state, _) = runtime.block_on(port.list(Scope::Everything)).unwrap();
    state.pods.into_values().find(|pod| pod.id.name == "p").unwrap()
}

/// The pod's successor is as it was made.
fn is_untouched(stack: &Stack, successor: &Value, after: &str) {
    let now = stack.kubernetes().find(POD).unwrap().unwrap_or_default();
    let identity = |pod: &Value| {
        let annotations = pod["metadata"]["annotations"].clone();
        let (status, spec) = (&pod["status"], &pod["spec"]);
        [
            &pod["metadata"]["uid"],
            &pod["metadata"]["deletionTimestamp"],
            &annotations,
            &spec["nodeName"],
            &status["nominatedNodeName"],
        ]
        .map(Clone::clone)
    };
    assert_eq!(identity(&now), identity(successor), "after {after}");
}

#[test]
fn objects_are_known_by_uid_and_version_and_lists_come_from_the_store() {
    let stack = start().unwrap();
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let proxy = FaultProxy::start(&stack).unwrap();
    let port = port(&runtime, &stack, &proxy);
    the_successor_of_a_pod_is_left_alone(&runtime, &port, &stack);
    a_change_has_the_version_that_was_read(&runtime, &port, &stack);
    lists_are_asked_of_the_store(&runtime, &port, &proxy);
}

fn the_successor_of_a_pod_is_left_alone(runtime: &Runtime, port: &KubernetesCluster, stack: &Stack) {
    create_pod(stack);
    let first = listed(runtime, port);
    stack.kubernetes().delete(POD).unwrap();
    assert_eq!(stack.kubernetes().find(POD).unwrap(), None);
    let successor = create_pod(stack);
    let planned = NominatedPod { pod: first.id.clone(), uid: first.uid.clone() };

    assert_eq!(runtime.block_on(port.evict(&first)).unwrap(), Eviction::Gone);
    is_untouched(stack, &successor, "an eviction");
    runtime.block_on(port.delete_pod(&first, Duration::from_secs(1))).unwrap();
    is_untouched(stack, &successor, "a deletion");
    assert_eq!(runtime.block_on(port.bind(&planned, "n")).unwrap(), Binding::Missed);
    is_untouched(stack, &successor, "a binding");
    runtime.block_on(port.nominate(&planned, "n")).unwrap();
    is_untouched(stack, &successor, "a nomination");
    runtime.block_on(port.set_deletion_cost(&first, Some(-7))).unwrap();
    is_untouched(stack, &successor, "a deletion cost");

    let second = listed(runtime, port);
    assert_eq!(json!(second.uid), successor["metadata"]["uid"]);
    assert_eq!(runtime.block_on(port.evict(&second)).unwrap(), Eviction::Accepted);
    assert_eq!(stack.kubernetes().find(POD).unwrap(), None, "who is meant does go");
}

fn a_change_has_the_version_that_was_read(runtime: &Runtime, port: &KubernetesCluster, stack: &Stack) {
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"team": "red"}}});
    stack.kubernetes().create("/api/v1/nodes", &node).unwrap();
    let change = || {
        let node = runtime.block_on(port.node("n")).unwrap().unwrap();
        NodeChange {
            name: node.name,
            resource_version: node.resource_version,
            labels: [("team".to_owned(), "ours".to_owned())].into(),
            gone_labels: BTreeSet::new(),
            annotations: BTreeMap::new(),
            finalizers: Vec::new(),
            taints: Vec::new(),
            foreign_taints: Vec::new(),
        }
    };
    let stale = change();
    stack.kubernetes().merge(NODE, &json!({"metadata": {"labels": {"team": "blue"}}})).unwrap();
    let refused = runtime.block_on(port.change_node(&stale)).unwrap_err();
    assert!(matches!(refused, ClusterError::Changed { .. }), "{refused}");
    let team = || stack.kubernetes().get(NODE).unwrap()["metadata"]["labels"]["team"].clone();
    assert_eq!(team(), "blue", "what somebody else wrote meanwhile stands");
    // KWOK writes to the node as well.
    while let Err(error) = runtime.block_on(port.change_node(&change())) {
        assert!(matches!(error, ClusterError::Changed { .. }), "{error}");
    }
    assert_eq!(team(), "ours");
}

/// A list that names a version may be answered out of a cache that is behind.
fn lists_are_asked_of_the_store(runtime: &Runtime, port: &KubernetesCluster, proxy: &FaultProxy) {
    proxy.set(&[]);
    runtime.block_on(async {
        for scope in [Scope::Unscheduled, Scope::Nodes, Scope::Everything] {
            port.list(scope).await.unwrap();
        }
        port.configuration().await.unwrap();
        port.volumes(&BTreeSet::new()).await.unwrap();
        port.namespaces().await.unwrap();
        port.nodes().await.unwrap();
        port.pods_on("n").await.unwrap();
        port.disruption_budgets().await.unwrap();
        port.attachments(&BTreeSet::from(["n".to_owned()])).await.unwrap();
        port.mirrors().await.unwrap();
        port.node_pool_uids().await.unwrap();
    });
    let seen = proxy.seen();
    let cached = seen.iter().filter(|seen| seen.line.to_lowercase().contains("resourceversion"));
    let cached: Vec<_> = cached.map(|seen| seen.line.as_str()).collect();
    assert!(seen.len() > 12 && cached.is_empty(), "of {} requests {cached:#?}", seen.len());
}
