//! Clusters that run already: nodes of common types, about half full, with pods that wait or
//! without.

use outrigger_model::resources::{CPU, MEMORY};
use outrigger_model::{InstanceType, labels};
use serde_json::{Value, json};

use super::builder::{Builder, CREATED, HOST, ZONE, ZONES, requests};

const PODS_FOR_EACH_NODE: usize = 20;
const RUNNING_MAX: usize = 40;
const SIZES: [&str; 3] = ["xlarge", "2xlarge", "4xlarge"];
const CPU_MILLIS: [u32; 7] = [100, 200, 250, 500, 500, 1_000, 2_000];
const MEMORY_MEBIBYTES: [u32; 6] = [128, 256, 512, 1_024, 2_048, 4_096];
const SERVICES: usize = 97;
/// How many pods are on each node of a cluster that only runs.
const REPLICAS_ON_NODE: usize = 30;
/// What such pods ask for, from small to large.
const REPLICA_CPU_MILLIS: [u32; 7] = [25, 50, 100, 150, 250, 400, 600];
const REPLICA_MEMORY_MEBIBYTES: [u32; 7] = [64, 128, 256, 512, 1_024, 2_048, 4_096];

/// The nodes and what runs on them, then plain waiting pods.
pub(super) fn existing(builder: &mut Builder<'_>, pods: usize, types: &[InstanceType]) {
    builder.general_pool();
    let types = common(types);
    for number in 0..pods / PODS_FOR_EACH_NODE {
        let Some(kind) = types.get(builder.between(0, types.len().saturating_sub(1))) else { break };
        half_full_node(builder, number, kind);
    }
    for _ in 0..pods {
        let (labels, size) = (service(builder), builder.size());
        builder.waiting_pod(&labels, &size, json!({}));
    }
}

/// So many nodes, each with 30 pods of ReplicaSets that ask for about half of it; nothing waits.
pub(super) fn running(builder: &mut Builder<'_>, nodes: usize, types: &[InstanceType]) {
    builder.general_pool();
    let types = common(types);
    for number in 0..nodes {
        let Some(kind) = types.get(builder.between(0, types.len().saturating_sub(1))) else { break };
        let name = node(builder, number, kind);
        let share = |resource: &str| kind.allocatable.get(resource).as_f64() * 0.5 / REPLICAS_ON_NODE as f64;
        let (cpu, memory) = (share(CPU) * 1_000.0, share(MEMORY) / 1_048_576.0);
        for _ in 0..REPLICAS_ON_NODE {
            let (labels, around) = (service(builder), 0.5 + builder.fraction());
            let requests = requests(
                nearest(&REPLICA_CPU_MILLIS, cpu * around),
                nearest(&REPLICA_MEMORY_MEBIBYTES, memory * around),
            );
            builder.running_replica(&labels, &requests, &name);
        }
    }
}

/// The largest that is not above an amount, or the least.
fn nearest(sizes: &[u32], amount: f64) -> u32 {
    let fitting = sizes.iter().rev().find(|size| f64::from(**size) <= amount);
    fitting.or(sizes.first()).copied().unwrap_or_default()
}

fn common(types: &[InstanceType]) -> Vec<&InstanceType> {
    types.iter().filter(|kind| is_common(kind)).collect()
}

fn is_common(kind: &InstanceType) -> bool {
    let is = |key: &str, values: &[&str]| {
        kind.labels.get(key).is_some_and(|value| values.contains(&value.as_str()))
    };
    is("karpenter.k8s.aws/instance-category", &["c", "m", "r"])
        && is("karpenter.k8s.aws/instance-generation", &["5", "6", "7"])
        && is("karpenter.k8s.aws/instance-size", &SIZES)
        && is(labels::ARCH, &["amd64"])
}

/// A node without pods; returns its name.
fn node(builder: &mut Builder<'_>, number: usize, kind: &InstanceType) -> String {
    let name = format!("i-{number:017x}");
    let zone = builder.pick(&ZONES);
    let mut node_labels = kind.labels.clone();
    for (key, value) in [
        (ZONE, zone),
        (HOST, &name),
        (labels::REGION, "us-east-1"),
        (labels::CAPACITY_TYPE, builder.pick(&["spot", "on-demand"])),
        (labels::NODE_POOL, "default"),
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
    ] {
        node_labels.insert(key.to_owned(), value.to_owned());
    }
    builder.emit(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": node_labels, "creationTimestamp": CREATED},
        "spec": {"providerID": format!("aws:///{zone}/{name}")},
        "status": {
            "capacity": kind.counted(), "allocatable": kind.allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }));
    name
}

fn half_full_node(builder: &mut Builder<'_>, number: usize, kind: &InstanceType) {
    let name = node(builder, number, kind);
    let share = 0.35 + 0.3 * builder.fraction();
    let room = |resource: &str| kind.allocatable.get(resource).as_f64() * share;
    let (mut cpu_left, mut memory_left) = (room(CPU), room(MEMORY));
    for _ in 0..RUNNING_MAX {
        let (cpu, memory) = (builder.pick(&CPU_MILLIS), builder.pick(&MEMORY_MEBIBYTES));
        cpu_left -= f64::from(cpu) / 1_000.0;
        memory_left -= f64::from(memory) * 1_048_576.0;
        if cpu_left < 0.0 || memory_left < 0.0 {
            break;
        }
        let labels = service(builder);
        builder.running_pod(&labels, &requests(cpu, memory), &name);
    }
}

fn service(builder: &mut Builder<'_>) -> Value {
    json!({"app": format!("service-{}", builder.between(1, SERVICES))})
}
