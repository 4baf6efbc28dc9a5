//! A random cluster: pools, daemonsets, nodes with running pods, and workloads that wait.

use std::sync::{Arc, LazyLock};

use outrigger_model::{InstanceType, labels};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::pieces::{
    ARCH, CAPACITY_TYPE, HOST, ZONE, ZONES, pool_limits, pool_requirements, pool_taints, rarely,
};
use super::pods::{Workload, storage_classes, workload};
use crate::catalogue;
use crate::scenario::container;

/// Types that nodes which exist may be.
const NODE_TYPES: [&str; 4] = ["c6a.xlarge", "m5.2xlarge", "m6g.xlarge", "r6a.large"];

static TYPES: LazyLock<Arc<Vec<InstanceType>>> =
    LazyLock::new(|| Arc::new(catalogue::small().unwrap_or_default()));

/// A random cluster.
#[derive(Clone, Debug)]
pub struct Case {
    pools: Vec<Value>,
    daemons: Vec<Value>,
    nodes: Vec<ExistingNode>,
    workloads: Vec<Workload>,
}

/// A node that exists, with what runs on it.
#[derive(Clone, Debug)]
struct ExistingNode {
    instance_type: &'static str,
    zone: &'static str,
    capacity_type: &'static str,
    has_pool: bool,
    taints: Value,
    running: Option<Workload>,
}

impl Case {
    /// The instance types that every case chooses from.
    pub fn types() -> Arc<Vec<InstanceType>> {
        Arc::clone(&TYPES)
    }

    /// The List that kubectl would print.
    pub fn list(&self) -> Value {
        let mut items = self.pools.clone();
        items.extend(self.daemons.clone());
        if self.workloads.iter().any(Workload::has_volumes) {
            items.extend(storage_classes());
        }
        for (index, node) in self.nodes.iter().enumerate() {
            node.objects(&format!("i-{index:017x}"), &mut items);
        }
        for (index, workload) in self.workloads.iter().enumerate() {
            workload.objects(&format!("w{index}"), None, &mut items);
        }
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    }
}

impl ExistingNode {
    fn objects(&self, name: &str, items: &mut Vec<Value>) {
        let Some(kind) = TYPES.iter().find(|kind| kind.name == self.instance_type) else { return };
        let mut node_labels = kind.labels.clone();
        let pool = [(labels::NODE_POOL, "a"), (labels::REGISTERED, "true"), (labels::INITIALIZED, "true")];
        let of_node = [
            (ZONE, self.zone),
            (CAPACITY_TYPE, self.capacity_type),
            (HOST, name),
            (labels::REGION, "us-east-1"),
        ];
        for (key, value) in of_node.into_iter().chain(pool.into_iter().filter(|_| self.has_pool)) {
            node_labels.insert(key.to_owned(), value.to_owned());
        }
        let mut spec = json!({"providerID": format!("aws:///{}/{name}", self.zone)});
        if !self.taints.is_null() {
            spec["taints"] = self.taints.clone();
        }
        items.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "uid": name, "labels": node_labels, "creationTimestamp": "2026-11-01T00:00:00Z"},
            "spec": spec,
            "status": {
                "capacity": kind.counted(), "allocatable": kind.allocatable,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }));
        if let Some(running) = &self.running {
            running.objects(&format!("on-{name}"), Some(name), items);
        }
    }
}

pub(super) fn any_case() -> BoxedStrategy<Case> {
    let pools = (pool("a"), prop::option::weighted(0.4, pool("b")), prop::option::weighted(0.2, pool("c")));
    let pools = pools.prop_map(|(a, b, c)| [Some(a), b, c].into_iter().flatten().collect());
    (
        pools,
        prop::collection::vec(daemon(), 0..3),
        prop::collection::vec(existing_node(), 0..5),
        prop::collection::vec(workload(), 1..8),
    )
        .prop_map(|(pools, daemons, nodes, workloads)| {
            let number = |(index, mut set): (usize, Value)| {
                set["metadata"]["name"] = json!(format!("daemon-{index}"));
                set["metadata"]["uid"] = json!(format!("daemon-{index}"));
                set
            };
            let daemons = daemons.into_iter().enumerate().map(number).collect();
            Case { pools, daemons, nodes, workloads }
        })
        .boxed()
}

fn pool(name: &'static str) -> BoxedStrategy<Value> {
    let labels = rarely(4, 1, select(vec!["red", "blue"]).prop_map(|team| json!({"team": team})));
    let weight = rarely(1, 1, (1..100_i32).prop_map(|weight| json!(weight)));
    (pool_requirements(), pool_taints(), pool_limits(), weight, labels)
        .prop_map(move |(mut requirements, taints, limits, weight, labels)| {
            if !labels.is_null() {
                requirements.retain(|one| one["key"] != "team");
            }
            let class = json!({"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"});
            let mut spec =
                json!({"template": {"spec": {"nodeClassRef": class, "requirements": requirements}}});
            let metadata = if labels.is_null() { labels } else { json!({"labels": labels}) };
            let fields = [
                ("/template/spec/taints", taints),
                ("/limits", limits),
                ("/weight", weight),
                ("/template/metadata", metadata),
            ];
            for (pointer, value) in fields.into_iter().filter(|(_, value)| !value.is_null()) {
                let (parent, field) = pointer.rsplit_once('/').unwrap_or_default();
                if let Some(parent) = spec.pointer_mut(parent) {
                    parent[field] = value;
                }
            }
            let metadata = json!({"name": name, "uid": name});
            json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": metadata, "spec": spec})
        })
        .boxed()
}

fn daemon() -> BoxedStrategy<Value> {
    let selector = rarely(3, 1, select(vec!["amd64", "arm64"]).prop_map(|arch| json!({ARCH: arch})));
    let tolerations = rarely(1, 1, Just(json!([{"operator": "Exists"}])));
    (selector, tolerations, 1..4_i32)
        .prop_map(|(selector, tolerations, size)| {
            let requests = json!({"cpu": format!("{}m", 50 * size), "memory": format!("{}Mi", 100 * size)});
            let mut spec = json!({"containers": [container(&requests)]});
            for (name, value) in [("nodeSelector", selector), ("tolerations", tolerations)] {
                if !value.is_null() {
                    spec[name] = value;
                }
            }
            let template = json!({"metadata": {"labels": {"d": "d"}}, "spec": spec});
            json!({
                "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": "kube-system"},
                "spec": {"selector": {"matchLabels": {"d": "d"}}, "template": template},
            })
        })
        .boxed()
}

fn existing_node() -> BoxedStrategy<ExistingNode> {
    let taints = rarely(5, 1, Just(json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])));
    let running = prop::option::of(workload().prop_map(Workload::made_to_fit));
    (
        select(&NODE_TYPES[..]),
        select(&ZONES[..]),
        select(vec!["spot", "on-demand"]),
        any::<bool>(),
        taints,
        running,
    )
        .prop_map(|(instance_type, zone, capacity_type, has_pool, taints, running)| ExistingNode {
            instance_type,
            zone,
            capacity_type,
            has_pool,
            taints,
            running,
        })
        .boxed()
}
