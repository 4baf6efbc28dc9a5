//! Peak memory of provision on a cluster of 1,000 nodes and 30,000 pods, with 500 more that wait for nodes.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use outrigger_stack::Kubernetes;
use outrigger_tests::objects::deployment;
use outrigger_tests::world::{start, tick, wait_for};
use serde_json::{Value, json};

const NODES: usize = 1_000;
const PODS: usize = 30_000;
const CREATORS: usize = 8;
const WAITING: usize = 500;

/// Measures and prints.
pub(crate) fn run() -> Result<()> {
    let stack = start()?;
    // Pods are bound by us; nothing else shall touch 30,000 of them on two cores.
    for part in ["kwok", "kube-controller-manager"] {
        stack.kill_part(part)?;
    }
    let kubernetes = stack.kubernetes();
    side_by_side(NODES, |number| kubernetes.create("/api/v1/nodes", &node(number)))?;
    eprintln!("creating {PODS} pods; this takes a few minutes");
    side_by_side(PODS, |number| kubernetes.create("/api/v1/namespaces/default/pods", &bound_pod(number)))?;
    side_by_side(WAITING, |number| {
        kubernetes.create("/api/v1/namespaces/default/pods", &waiting_pod(number))
    })?;
    wait_for("unschedulable pods", WAITING, Duration::from_secs(300), || unschedulable(kubernetes))?;

    let process = stack.start_function("provision", &[])?;
    let began = Instant::now();
    let answer = tick(&stack, "provision")?;
    let seconds = began.elapsed().as_secs_f64();
    let pid = process.identity().context("the function has ended")?.pid;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    println!(
        "provision on {NODES} nodes and {PODS} pods, {WAITING} waiting: peak memory {}, tick {seconds:.1} s, planned {}",
        peak.trim(),
        answer["pods"]
    );
    Ok(())
}

fn unschedulable(kubernetes: &Kubernetes) -> Result<usize> {
    let pods = kubernetes.list("/api/v1/namespaces/default/pods?labelSelector=app%3Dwaiting")?;
    Ok(pods.iter().filter(|pod| pod["status"]["conditions"][0]["reason"] == "Unschedulable").count())
}

/// Calls `make` for each number from several threads.
fn side_by_side(count: usize, make: impl Fn(usize) -> Result<Value> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CREATORS)
            .map(|part| {
                let make = &make;
                scope.spawn(move || {
                    (part..count).step_by(CREATORS).try_for_each(|number| make(number).map(drop))
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow::anyhow!("a thread that creates objects has panicked"))??;
        }
        Ok(())
    })
}

fn node(number: usize) -> Value {
    let name = format!("i-{number:017x}");
    let resources = json!({"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "m5.2xlarge",
            "topology.kubernetes.io/zone": "us-east-1a",
        }},
        // Full by cordon: what waits must not fit here.
        "spec": {"providerID": format!("aws:///us-east-1a/{name}"), "unschedulable": true},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
        },
    })
}

fn bound_pod(number: usize) -> Value {
    let mut pod = pod(&format!("bound-{number}"), &format!("service-{}", number % 300), number % 7);
    pod["spec"]["nodeName"] = json!(format!("i-{:017x}", number % NODES));
    pod
}

fn waiting_pod(number: usize) -> Value {
    pod(&format!("waiting-{number}"), "waiting", number % 7)
}

/// A pod as workloads make them: an owner, environment, probes and mounts are most of its bytes.
fn pod(name: &str, app: &str, shape: usize) -> Value {
    let variables: Vec<_> = (0..12)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("value-{n}-of-{app}")}))
        .collect();
    let mut template =
        deployment(app, 1, &format!("{}m", 100 + 50 * shape), &format!("{}Mi", 128 + 64 * shape), &json!({}))
            ["spec"]["template"]
            .clone();
    template["spec"]["containers"][0]["env"] = json!(variables);
    template["spec"]["containers"][0]["livenessProbe"] =
        json!({"httpGet": {"path": "/healthz", "port": 8080}});
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}, "ownerReferences": owner},
        "spec": template["spec"],
    })
}
