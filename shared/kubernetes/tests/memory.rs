//! What pods of a large cluster cost in memory. Its own program, since it measures the whole
//! process.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as wire;
use outrigger_kubernetes::{Interner, convert};
use outrigger_model::Pod;
use serde_json::{Value, json};

const PODS: usize = 30_000;
const WORKLOADS: usize = 300;
/// With the map by uid in which a tick holds them. The goal is 256 MiB for a whole function at
/// 30,000 pods.
const MAX_BYTES_PER_POD: usize = 800;

#[test]
fn thirty_thousand_pods_of_three_hundred_workloads_stay_small() {
    let templates: Vec<Value> = (0..WORKLOADS).map(template).collect();
    let mut interner = Interner::default();
    let mut pods: BTreeMap<String, Pod> = BTreeMap::new();
    read(&templates, 0, &mut interner, &mut pods);
    let before = resident_bytes();
    for index in 1..=PODS {
        read(&templates, index, &mut interner, &mut pods);
    }
    let per_pod = resident_bytes().saturating_sub(before) / PODS;
    assert_eq!(pods.len(), PODS + 1);
    assert!(per_pod > 100, "{per_pod} bytes cannot be true");
    assert!(per_pod < MAX_BYTES_PER_POD, "{per_pod} bytes per pod");
}

fn read(templates: &[Value], index: usize, interner: &mut Interner, pods: &mut BTreeMap<String, Pod>) {
    let mut object = templates[index % WORKLOADS].clone();
    object["metadata"]["name"] = format!("service-{}-5d8f9c7b6d-{index:05}", index % WORKLOADS).into();
    object["metadata"]["uid"] = format!("0b6a3f8e-1d2c-4e5f-8a9b-{index:012}").into();
    object["spec"]["nodeName"] = format!("i-0123456789abc{:04}", index / 30).into();
    let pod = convert::pod(serde_json::from_value::<wire::Pod>(object).unwrap(), interner).unwrap();
    pods.insert(pod.uid.clone(), pod);
}

fn template(workload: usize) -> Value {
    let name = format!("service-{workload}");
    json!({
        "metadata": {
            "namespace": "production",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "app.kubernetes.io/name": name, "pod-template-hash": "5d8f9c7b6d" },
            "ownerReferences": [{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": "x", "controller": true }],
        },
        "spec": {
            "containers": [{ "name": "main", "resources": { "requests": { "cpu": "100m", "memory": "256Mi" } } }],
            "topologySpreadConstraints": [{
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchLabels": { "app.kubernetes.io/name": name } },
            }],
        },
        "status": { "phase": "Running" },
    })
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1_024
}
