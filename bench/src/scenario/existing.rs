//! A cluster that runs already: nodes of common types, about half full, and pods that wait.

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

/// The nodes and what runs on them, then plain waiting pods.
pub(super) fn existing(builder: &mut Builder<'_>, pods: usize, types: &[InstanceType]) {
    builder.general_pool();
    let types: Vec<&InstanceType> = types.iter().filter(|kind| is_common(kind)).collect();
    for number in 0..pods / PODS_FOR_EACH_NODE {
        let Some(kind) = types.get(builder.between(0, types.len().saturating_sub(1))) else { break };
        node(builder, number, kind);
    }
    for _ in 0..pods {
        let (labels, size) = (service(builder), builder.size());
        builder.waiting_pod(&labels, &size, json!({}));
    }
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

fn node(builder: &mut Builder<'_>, number: usize, kind: &InstanceType) {
    let name = format!("i-{number:017x}");
    let zone = builder.pick(&ZONES);
    let mut all = kind.labels.clone();
    for (key, value) in [
        (ZONE, zone),
        (HOST, &name),
        (labels::REGION, "us-east-1"),
        (labels::CAPACITY_TYPE, builder.pick(&["spot", "on-demand"])),
        (labels::NODE_POOL, "default"),
        (labels::REGISTERED, "true"),
        (labels::INITIALIZED, "true"),
    ] {
        all.insert(key.to_owned(), value.to_owned());
    }
    builder.emit(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": all, "creationTimestamp": CREATED},
        "spec": {"providerID": format!("aws:///{zone}/{name}")},
        "status": {
            "capacity": kind.counted(), "allocatable": kind.allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }));
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
