//! A scenario: what is there, which pods come, and how many of them can have no place.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use anyhow::{Result, bail};
use jiff::Timestamp;
use outrigger_kubernetes::Dump;
use outrigger_model::{ClassOffer, InstanceType, NodeClass, NodeClassRef, NodePool, PodRef, Snapshot};
use serde_json::{Value, json};

use super::objects::with;

/// What is there, and which pods come.
#[derive(Clone)]
pub struct Scenario {
    /// Its name in the table.
    pub name: String,
    /// What is there before the pods: pools, daemonsets, nodes, running pods, volumes.
    pub objects: Vec<Value>,
    /// The pods that come.
    pub pods: Vec<Value>,
    /// Pods that come while nodes join and that nobody has planned for.
    pub strangers: Vec<Value>,
    /// The beginning of the names of those that may be left without a node; empty when none may.
    pub optional: &'static str,
    /// What a snapshot of it has that is not read from objects, such as reservations.
    pub adjust: fn(&mut Snapshot),
}

impl Scenario {
    /// One in which every pod has a place. Every cluster of kOps has a node of the control plane.
    pub fn new(name: &str, mut objects: Vec<Value>, pods: Vec<Value>) -> Self {
        objects.push(control_plane());
        Self { name: name.to_owned(), objects, pods, strangers: Vec::new(), optional: "", adjust: |_| {} }
    }

    /// Whether a pod may be left without a node.
    pub fn may_be_left(&self, pod: &PodRef) -> bool {
        !self.optional.is_empty() && pod.name.starts_with(self.optional)
    }

    /// The daemonsets.
    pub fn daemon_sets(&self) -> Vec<&Value> {
        self.objects.iter().filter(|object| object["kind"] == "DaemonSet").collect()
    }

    /// All that is known to a planner: what the API server holds, and those objects of the scenario
    /// that it does not.
    pub fn list(&self, mut from_server: Vec<Value>) -> Value {
        let only_ours = ["NodePool", "DaemonSet", "NodeOverlay", "CapacityBuffer", "PodTemplate"];
        let ours = self.objects.iter().filter(|object| only_ours.iter().any(|kind| object["kind"] == *kind));
        from_server.extend(ours.cloned());
        json!({"apiVersion": "v1", "kind": "List", "items": from_server})
    }

    /// What a decision may use that no server has seen: kube-scheduler has given up each pod.
    pub fn unschedulable(&self) -> Result<Snapshot> {
        let given_up = json!({"status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
        ]}});
        let pods = with(self.pods.clone(), &given_up);
        let items = [self.objects.clone(), pods].concat();
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let snapshot = self.snapshot(&objects, 1)?;
        Ok(Snapshot { taken_at: Timestamp::UNIX_EPOCH, ..snapshot })
    }

    /// What a decision may use.
    pub fn snapshot(&self, list: &Value, generation: u64) -> Result<Snapshot> {
        let dump = Dump::parse(&[("the API server", &list.to_string())])?;
        if let Some(invalid) = dump.invalid.first() {
            bail!("{}: an object is not accepted: {invalid}", self.name);
        }
        let references: BTreeSet<_> = dump.node_pools.iter().map(NodePool::node_class).collect();
        let offer = |reference: &NodeClassRef| {
            Ok(ClassOffer {
                class: NodeClass::for_planning(reference.clone()),
                instance_types: instance_types()?,
            })
        };
        let classes = references.into_iter().map(offer).collect::<Result<_>>()?;
        let mut snapshot =
            Snapshot { generation, taken_at: Timestamp::now(), ..dump.into_snapshot("replay", classes) };
        (self.adjust)(&mut snapshot);
        Ok(snapshot)
    }
}

fn control_plane() -> Value {
    let room = json!({"cpu": "2", "memory": "7800Mi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "control-plane", "labels": {
            "kubernetes.io/hostname": "control-plane",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node-role.kubernetes.io/control-plane": "",
            "topology.kubernetes.io/region": "us-east-1",
            "topology.kubernetes.io/zone": "us-east-1a",
        }},
        "spec": {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// What can be bought: the embedded catalogue.
pub(super) fn instance_types() -> Result<Arc<Vec<InstanceType>>> {
    static TYPES: OnceLock<Arc<Vec<InstanceType>>> = OnceLock::new();
    if let Some(types) = TYPES.get() {
        return Ok(Arc::clone(types));
    }
    let types = Arc::new(crate::catalogue::embedded()?);
    Ok(Arc::clone(TYPES.get_or_init(|| types)))
}
