//! Nodes as they join, and what happens to them until pods may come: what Outrigger's lifecycle
//! does, and what a kubelet and a daemonset's controller would do.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use outrigger_bench::replay::{Scenario, daemon_pod};
use outrigger_model::{DaemonSet, ExistingPlacement, NominatedPod, PodRef, Snapshot, labels, taint};
use outrigger_planning::binding::{DEFAULT_SCHEDULER, UnboundPod, bindings};
use serde_json::{Value, json};

use crate::cluster::{Cluster, in_parallel};
use crate::planned::{NodeToJoin, Planned};

/// How planned pods come to their nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Those that may be are bound while the nodes are closed, the others nominated.
    Bound,
    /// All are nominated, then all nodes opened.
    Nominated,
    /// Nobody is told anything.
    Untold,
}

/// The zone in the EBS driver's own words.
const CSI_ZONE: &str = "topology.ebs.csi.aws.com/zone";
impl Opening {
    /// As an environment variable asks, for measurements.
    pub(crate) fn chosen() -> Self {
        match std::env::var("OUTRIGGER_REPLAY_OPENING").as_deref() {
            Ok("nominated") => Self::Nominated,
            Ok("untold") => Self::Untold,
            _ => Self::Bound,
        }
    }
}

/// Lets the planned nodes join behind the gate, places their pods, and opens them.
pub(crate) fn join(
    cluster: &Cluster,
    scenario: &Scenario,
    planned: &Planned,
    snapshot: &Snapshot,
    opening: Opening,
) -> Result<()> {
    register_new(cluster, scenario, &planned.nodes, snapshot)?;
    let strangers = if snapshot.generation == 1 { &scenario.strangers[..] } else { &[] };
    cluster.create(strangers).context("creating pods that nobody has planned for")?;
    let existing =
        planned.on_existing.iter().flat_map(|(node, pods)| pods.iter().map(move |pod| (pod, node)));
    match opening {
        Opening::Bound => {
            let others = bind(cluster, scenario, &planned.on_new())?;
            let others = others.iter().map(|left| (&left.pod.pod, &left.node));
            nominate(cluster, &others.chain(existing).collect::<Vec<_>>())?;
        }
        Opening::Nominated => {
            let new = planned.nodes.iter();
            let new = new.flat_map(|node| node.pods.iter().map(move |planned| (&planned.pod, &node.name)));
            nominate(cluster, &new.chain(existing).collect::<Vec<_>>())?;
        }
        Opening::Untold => {}
    }
    open(cluster, &planned.nodes)?;
    finish_starting(cluster, planned)
}

/// Lets nodes join and registers them behind the gate, with the pods of their daemonsets.
pub(crate) fn register_new(
    cluster: &Cluster,
    scenario: &Scenario,
    nodes: &[NodeToJoin],
    snapshot: &Snapshot,
) -> Result<()> {
    for node in nodes {
        cluster.create(&[gated(node)]).with_context(|| format!("joining {}", node.name))?;
    }
    let sets = scenario.daemon_sets();
    let daemons: Vec<Value> = nodes.iter().flat_map(|node| daemon_pods(node, snapshot, &sets)).collect();
    cluster.create(&daemons).context("creating the pods of daemonsets")?;
    register(cluster, nodes)
}

/// Binds the pods that may be bound as the API server shows the cluster now, as lifecycle does;
/// gives the others. Nobody else may bind a pod to a closed node.
pub(crate) fn bind(
    cluster: &Cluster,
    scenario: &Scenario,
    planned: &[ExistingPlacement],
) -> Result<Vec<UnboundPod>> {
    let list = scenario.list(cluster.read_back()?);
    let now = scenario.snapshot(&list, 0)?;
    let found = bindings(&now, planned, &BTreeSet::from([DEFAULT_SCHEDULER.to_owned()]));
    let pairs: Vec<(&NominatedPod, &str)> =
        found.bound.iter().flat_map(|on| on.pods.iter().map(|pod| (pod, on.target.name()))).collect();
    let closed: BTreeSet<&str> = planned.iter().map(|on| on.target.name()).collect();
    in_parallel(&pairs, |(planned, node)| bind_one(cluster, planned, node, &closed))?;
    Ok(found.unbound)
}

/// Binds a pod, unless kube-scheduler was first. Where other pods went, it may find room on an open
/// node.
fn bind_one(cluster: &Cluster, planned: &NominatedPod, node: &str, closed: &BTreeSet<&str>) -> Result<()> {
    let PodRef { namespace, name } = &planned.pod;
    let pod = format!("/api/v1/namespaces/{namespace}/pods/{name}");
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"namespace": namespace, "name": name, "uid": planned.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let answer = cluster.api().try_create(&format!("{pod}/binding"), &binding)?;
    if answer.status == 409 {
        let now = cluster.api().get(&pod)?;
        let node = now["spec"]["nodeName"].as_str();
        ensure!(node.is_some_and(|node| !closed.contains(node)), "{pod} was bound by another to {node:?}");
        return Ok(());
    }
    answer.ok(&format!("binding {pod} to {node}")).map(drop)
}

/// Points pods at their nodes.
fn nominate(cluster: &Cluster, goals: &[(&PodRef, &String)]) -> Result<()> {
    in_parallel(goals, |(pod, node)| {
        let path = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
        cluster.api().merge(&path, &json!({"status": {"nominatedNodeName": node}})).map(drop)
    })
}

/// Startup taints go, and nodes that had joined before become ready.
fn finish_starting(cluster: &Cluster, planned: &Planned) -> Result<()> {
    let starting: Vec<&NodeToJoin> =
        planned.nodes.iter().filter(|node| !node.startup_taints.is_empty()).collect();
    in_parallel(&starting, |node| {
        let change = json!({"spec": {"taints": node.taints}});
        cluster.api().merge(&format!("/api/v1/nodes/{}", node.name), &change).map(drop)
    })?;
    for name in planned.on_existing.keys() {
        let path = format!("/api/v1/nodes/{name}");
        let mut taints = cluster.api().get(&path)?["spec"]["taints"].take();
        if let Some(taints) = taints.as_array_mut() {
            taints.retain(|taint| taint["key"] != "node.kubernetes.io/not-ready");
        }
        let label = json!({labels::INITIALIZED: "true"});
        cluster.api().merge(&path, &json!({"metadata": {"labels": label}, "spec": {"taints": taints}}))?;
    }
    Ok(())
}

/// The node as its kubelet registers it: Ready, and closed to pods.
fn gated(node: &NodeToJoin) -> Value {
    let hostname = node.labels.iter().filter(|(key, _)| *key == labels::HOSTNAME);
    let zone = node.labels.get(labels::ZONE).map_or("", String::as_str);
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": hostname.collect::<std::collections::BTreeMap<_, _>>()},
        "spec": {
            "providerID": format!("aws:///{zone}/{}", node.name),
            "taints": [{"key": labels::UNREGISTERED_TAINT, "effect": "NoExecute"}],
        },
        "status": {
            "capacity": node.capacity,
            "allocatable": node.allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// Registers nodes: their labels and taints come, and the taint that keeps others away is where the
/// gate was.
fn register(cluster: &Cluster, nodes: &[NodeToJoin]) -> Result<()> {
    in_parallel(nodes, |node| {
        let placing = json!({"key": labels::PLACING_TAINT, "effect": "NoSchedule"});
        let own = node.taints.iter().map(|taint| json!(taint));
        let taints: Vec<Value> = std::iter::once(placing).chain(own).collect();
        let mut all_labels = node.labels.clone();
        // The node plugin of the EBS driver labels its node.
        all_labels.extend(node.labels.get(labels::ZONE).map(|zone| (CSI_ZONE.to_owned(), zone.clone())));
        all_labels.insert(labels::REGISTERED.to_owned(), "true".to_owned());
        let change = json!({"metadata": {"labels": all_labels}, "spec": {"taints": taints}});
        cluster.api().merge(&format!("/api/v1/nodes/{}", node.name), &change).map(drop)
    })
}

/// Opens nodes.
pub(crate) fn open(cluster: &Cluster, nodes: &[NodeToJoin]) -> Result<()> {
    in_parallel(nodes, |node| {
        let taints: Vec<_> = node.taints.iter().chain(&node.startup_taints).collect();
        let label = json!({labels::INITIALIZED: "true"});
        let change = json!({"metadata": {"labels": label}, "spec": {"taints": taints}});
        cluster.api().merge(&format!("/api/v1/nodes/{}", node.name), &change).map(drop)
    })
}

/// One bound pod for each daemonset that runs on the node.
fn daemon_pods(node: &NodeToJoin, snapshot: &Snapshot, daemon_sets: &[&Value]) -> Vec<Value> {
    let runs_here = |set: &DaemonSet| {
        let mut alternatives = set.spec.node_requirements().into_iter();
        alternatives.any(|wanted| wanted.match_labels(&node.labels).is_ok())
            && taint::first_untolerated(&node.taints, &set.spec.tolerations).is_none()
    };
    let running = snapshot.daemon_sets.iter().filter(|set| runs_here(set));
    let object = |set: &DaemonSet| {
        let is_it = |object: &&&Value| object["metadata"]["name"] == set.id.name.as_str();
        daemon_sets.iter().find(is_it).map(|object| daemon_pod(&node.name, object))
    };
    running.filter_map(object).collect()
}
