//! Kubernetes objects with what schedulers look at, and nothing else.

use rand::rngs::Xoshiro256PlusPlus;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
pub(super) const HOST: &str = "kubernetes.io/hostname";
pub(super) const ARCH: &str = "kubernetes.io/arch";
pub(super) const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
pub(super) const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];
pub(super) const CREATED: &str = "2026-11-01T00:00:00Z";
/// The sizes of Karpenter's scheduling benchmark.
const CPU_MILLIS: [u32; 5] = [100, 250, 500, 1_000, 1_500];
const MEMORY_MEBIBYTES: [u32; 6] = [100, 256, 512, 1_024, 2_048, 4_096];

/// Draws and emits objects.
pub(super) struct Builder<'a> {
    random: Xoshiro256PlusPlus,
    emit: &'a mut dyn FnMut(Value),
    pods: usize,
}

impl<'a> Builder<'a> {
    pub(super) fn new(seed: u64, emit: &'a mut dyn FnMut(Value)) -> Self {
        Self { random: Xoshiro256PlusPlus::seed_from_u64(seed), emit, pods: 0 }
    }

    /// One of these, each as likely as the others.
    pub(super) fn pick<T: Copy + Default>(&mut self, choices: &[T]) -> T {
        choices.choose(&mut self.random).copied().unwrap_or_default()
    }

    /// True as often as `share` of 1 says.
    pub(super) fn chance(&mut self, share: f64) -> bool {
        self.random.random_bool(share)
    }

    /// A number from 0 to just below 1.
    pub(super) fn fraction(&mut self) -> f64 {
        self.random.random()
    }

    /// A whole number, both ends included.
    pub(super) fn between(&mut self, least: usize, most: usize) -> usize {
        self.random.random_range(least..=most)
    }

    /// Cpu and memory as Karpenter's benchmark draws them.
    pub(super) fn size(&mut self) -> Value {
        let (cpu, memory) = (self.pick(&CPU_MILLIS), self.pick(&MEMORY_MEBIBYTES));
        requests(cpu, memory)
    }

    /// How many pods were made so far.
    pub(super) fn pods(&self) -> usize {
        self.pods
    }

    pub(super) fn emit(&mut self, item: Value) {
        (self.emit)(item);
    }

    /// The one pool: general-purpose families of generation 3 and later, spot and on demand.
    pub(super) fn general_pool(&mut self) {
        self.pool(&json!([
            {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
            {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]},
            {"key": CAPACITY_TYPE, "operator": "In", "values": ["spot", "on-demand"]},
        ]));
    }

    pub(super) fn pool(&mut self, requirements: &Value) {
        let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
        self.emit(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {"nodeClassRef": class, "requirements": requirements}}},
        }));
    }

    /// A pod that the scheduler has found no node for. `rest` holds further fields of its spec.
    pub(super) fn waiting_pod(&mut self, labels: &Value, requests: &Value, rest: Value) {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        let pod = self.pod(labels, requests, rest, &json!({"phase": "Pending", "conditions": [condition]}));
        self.emit(pod);
    }

    /// A pod that runs on a node.
    pub(super) fn running_pod(&mut self, labels: &Value, requests: &Value, node: &str) {
        let pod = self.on_node(labels, requests, node);
        self.emit(pod);
    }

    /// The same, of a ReplicaSet, which makes another where the pod goes.
    pub(super) fn running_replica(&mut self, labels: &Value, requests: &Value, node: &str) {
        let mut pod = self.on_node(labels, requests, node);
        let app = &labels["app"];
        pod["metadata"]["ownerReferences"] = json!([
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}
        ]);
        self.emit(pod);
    }

    fn on_node(&mut self, labels: &Value, requests: &Value, node: &str) -> Value {
        let ready = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        self.pod(labels, requests, json!({"nodeName": node}), &ready)
    }

    fn pod(&mut self, labels: &Value, requests: &Value, mut rest: Value, status: &Value) -> Value {
        let number = self.pods;
        self.pods += 1;
        rest["containers"] = json!([container(requests)]);
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("pod-{number:06}"), "namespace": "default", "uid": format!("pod-{number:06}"),
                "labels": labels, "creationTimestamp": CREATED,
            },
            "spec": rest, "status": status,
        })
    }

    /// A daemonset that runs everywhere.
    pub(super) fn daemon_set(&mut self, name: &str, requests: &Value) {
        let labels = json!({"daemon": name});
        let container = container(requests);
        self.emit(json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet",
            "metadata": {"name": name, "namespace": "kube-system", "uid": format!("daemon-{name}")},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"tolerations": [{"operator": "Exists"}], "containers": [container]},
                },
            },
        }));
    }
}

/// The container of a pod that asks for so much.
pub(crate) fn container(requests: &Value) -> Value {
    json!({"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"requests": requests}})
}

/// What a container asks for.
pub(super) fn requests(cpu_millis: u32, memory_mebibytes: u32) -> Value {
    json!({"cpu": format!("{cpu_millis}m"), "memory": format!("{memory_mebibytes}Mi")})
}

/// A spread of at most one pod more here than there.
pub(super) fn spread(key: &str, when: &str, labels: &Value) -> Value {
    json!([{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": {"matchLabels": labels}}])
}

/// A pod affinity term.
pub(super) fn near(key: &str, labels: &Value) -> Value {
    json!({"topologyKey": key, "labelSelector": {"matchLabels": labels}})
}
