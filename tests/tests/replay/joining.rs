//! Nodes as they join, and what happens to them until pods may come: what Outrigger's lifecycle does, and what a kubelet
//! and a daemonset's controller would do.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use outrigger_model::{DaemonSet, PodRef, Snapshot, labels, taint};
use serde_json::{Value, json};

use crate::cluster::{Cluster, in_parallel};
use crate::planned::{NodeToJoin, Planned};

/// How the nodes of a plan are opened, and their pods nominated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// All pods are nominated, then all nodes opened at once; nominations that the scheduler cleared in between, since it
    /// tried a pod too early, are made again.
    Together,
    /// One node after another, the pods of each nominated just before it.
    NodeByNode,
    /// Nobody is nominated.
    WithoutNomination,
}

/// The zone in the EBS driver's own words.
const CSI_ZONE: &str = "topology.ebs.csi.aws.com/zone";
/// How often nominations are made again before the nodes are opened, and after. More would keep a storm alive: a
/// cleared nomination wakes other pods, which are tried and lose theirs.
const MENDING_MAX: usize = 5;
/// How long the scheduler is given between two looks.
const MENDING_PAUSE: Duration = Duration::from_millis(100);

impl Opening {
    /// As an environment variable asks, for measurements.
    pub(crate) fn chosen() -> Self {
        match std::env::var("OUTRIGGER_REPLAY_OPENING").as_deref() {
            Ok("node-by-node") => Self::NodeByNode,
            Ok("without-nomination") => Self::WithoutNomination,
            _ => Self::Together,
        }
    }
}

/// Lets the planned nodes join behind the gate, then opens them.
pub(crate) fn join(
    cluster: &Cluster,
    planned: &Planned,
    snapshot: &Snapshot,
    daemon_sets: &[&Value],
    opening: Opening,
) -> Result<()> {
    for node in &planned.nodes {
        cluster.create(&[gated(node)]).with_context(|| format!("joining {}", node.name))?;
    }
    let daemons: Vec<Value> =
        planned.nodes.iter().flat_map(|node| daemon_pods(node, snapshot, daemon_sets)).collect();
    cluster.create(&daemons).context("creating the pods of daemonsets")?;
    match opening {
        Opening::Together => {
            nominate(cluster, planned)?;
            open(cluster, &planned.nodes)?;
            nominate(cluster, planned)?;
        }
        Opening::NodeByNode => {
            for node in &planned.nodes {
                node.pods.iter().try_for_each(|pod| nominate_one(cluster, pod, &node.name))?;
                open(cluster, std::slice::from_ref(node))?;
            }
        }
        Opening::WithoutNomination => open(cluster, &planned.nodes)?,
    }
    finish_starting(cluster, planned)
}

/// Points every planned pod at its node, and those again whose nomination was cleared meanwhile.
fn nominate(cluster: &Cluster, planned: &Planned) -> Result<()> {
    let on_new = planned.nodes.iter().map(|node| (&node.name, &node.pods));
    let all = on_new.chain(&planned.on_existing);
    let goals: Vec<(&PodRef, &String)> =
        all.flat_map(|(node, pods)| pods.iter().map(move |pod| (pod, node))).collect();
    for attempt in 0..MENDING_MAX {
        let lost: Vec<_> = {
            let state = cluster.pods.lock();
            let waits = |pod: &PodRef, node: &String| {
                state
                    .all
                    .get(pod)
                    .is_some_and(|seen| seen.node.is_none() && seen.nominated.as_ref() != Some(node))
            };
            goals.iter().filter(|(pod, node)| waits(pod, node)).copied().collect()
        };
        if lost.is_empty() && attempt > 0 {
            break;
        }
        in_parallel(&lost, |(pod, node)| nominate_one(cluster, pod, node))?;
        thread::sleep(MENDING_PAUSE);
    }
    Ok(())
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

/// Registers nodes: their labels and taints come, the gate goes.
fn open(cluster: &Cluster, nodes: &[NodeToJoin]) -> Result<()> {
    in_parallel(nodes, |node| {
        let taints: Vec<_> = node.taints.iter().chain(&node.startup_taints).collect();
        let mut all = node.labels.clone();
        // The node plugin of the EBS driver labels its node.
        all.extend(node.labels.get(labels::ZONE).map(|zone| (CSI_ZONE.to_owned(), zone.clone())));
        all.insert(labels::REGISTERED.to_owned(), "true".to_owned());
        all.insert(labels::INITIALIZED.to_owned(), "true".to_owned());
        let change = json!({"metadata": {"labels": all}, "spec": {"taints": taints}});
        cluster.api().merge(&format!("/api/v1/nodes/{}", node.name), &change).map(drop)
    })
}

fn nominate_one(cluster: &Cluster, pod: &PodRef, node: &str) -> Result<()> {
    let path = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
    cluster.api().merge(&path, &json!({"status": {"nominatedNodeName": node}})).map(drop)
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
        daemon_sets.iter().find(is_it).map(|object| daemon_pod(node, set, object))
    };
    running.filter_map(object).collect()
}

fn daemon_pod(node: &NodeToJoin, set: &DaemonSet, object: &Value) -> Value {
    let template = &object["spec"]["template"];
    let mut spec = template["spec"].clone();
    spec["nodeName"] = json!(node.name);
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{}-{}", set.id.name, node.name),
            "namespace": set.id.namespace,
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "name": set.id.name,
                "uid": set.id.name,
                "controller": true,
            }],
        },
        "spec": spec,
    })
}
