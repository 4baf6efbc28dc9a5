//! A cluster of hundreds or thousands of nodes on the real API server, with 30 pods on each, and
//! objects as large as those of real clusters.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use outrigger_stack::{FunctionProcess, Kubernetes, NodeAgentSettings, Stack};
use serde_json::{Value, json};

use crate::objects::deployment;
use crate::world::{apply, claims_in, count_unschedulable, tick, wait_for};

/// How many pods each node has.
pub const PODS_A_NODE: usize = 30;
const PODS_PATH: &str = "/api/v1/namespaces/default/pods";
const CREATORS: usize = 8;
/// Variables of a pod, which are most of its bytes.
const VARIABLES: usize = 48;

/// Creates the nodes and their pods. They are bound by us, and nothing else shall touch thousands
/// of them on two cores.
pub fn load(stack: &Stack, nodes: usize) -> Result<()> {
    let pods = nodes * PODS_A_NODE;
    for part in ["kwok", "kube-controller-manager"] {
        stack.kill_part(part)?;
    }
    let kubernetes = stack.kubernetes();
    side_by_side(nodes, |number| kubernetes.create("/api/v1/nodes", &node(number)))?;
    eprintln!("creating {pods} pods; this takes {} minutes or more", pods.div_ceil(15_000));
    side_by_side(pods, |number| {
        let mut pod = pod(&format!("bound-{number}"), &format!("service-{}", number % 300), number % 7);
        pod["spec"]["nodeName"] = json!(format!("i-{:017x}", number % nodes));
        kubernetes.create(PODS_PATH, &pod)
    })
}

/// One node of ours, without which lifecycle and disrupt have nothing to look at. It is made before
/// [`load`], which stops what takes part in that.
pub fn own_node(stack: &Stack) -> Result<()> {
    apply(stack.kubernetes(), &deployment("own", 1, "500m", "1Gi", &json!({})))?;
    wait_for("unschedulable pods", 1, Duration::from_secs(60), || count_unschedulable(stack))?;
    let window = [("OUTRIGGER_POLL_WINDOW_SECONDS", "20")];
    let _agent = stack.node_agent(NodeAgentSettings::default());
    let _provision = stack.start_function("provision", &[("OUTRIGGER_POLL_WINDOW_SECONDS", "0")])?;
    let _lifecycle = stack.start_function("lifecycle", &window)?;
    tick(stack, "provision")?;
    let began = Instant::now();
    while claims_in(stack, "Initialized")? == 0 {
        ensure!(began.elapsed() < Duration::from_secs(120), "its node is not ready");
        tick(stack, "lifecycle")?;
    }
    Ok(())
}

/// Creates pods that no node has room for, and waits until kube-scheduler says so.
pub fn add_unschedulable(kubernetes: &Kubernetes, count: usize) -> Result<()> {
    side_by_side(count, |number| {
        kubernetes.create(PODS_PATH, &pod(&format!("waiting-{number}"), "waiting", number % 7))
    })?;
    wait_for("unschedulable pods", count, Duration::from_secs(300), || {
        let pods = kubernetes.list(&format!("{PODS_PATH}?labelSelector=app%3Dwaiting"))?;
        Ok(pods.iter().filter(|pod| pod["status"]["conditions"][0]["reason"] == "Unschedulable").count())
    })
}

/// The mean size of objects as the API server sends them uncompressed, in bytes.
pub fn mean_size(kubernetes: &Kubernetes, path: &str) -> Result<usize> {
    let objects = kubernetes.list(&format!("{path}?limit=200"))?;
    let bytes: usize = objects.iter().map(|object| object.to_string().len()).sum();
    Ok(bytes / objects.len().max(1))
}

/// The most memory that a function has had, in MiB, as `/proc` has it.
pub fn peak_memory_mib(process: &FunctionProcess) -> Result<u64> {
    let pid = process.identity().context("the function has ended")?.pid;
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse()?;
    Ok(kib.div_ceil(1024))
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

/// A node with as many images as kubelets report.
fn node(number: usize) -> Value {
    let name = format!("i-{number:017x}");
    let resources = json!({"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"});
    let image = |image: usize| {
        let repository = format!("registry.example.com/team-{}/service-{image}", image % 9);
        let names = [format!("{repository}@sha256:{}", hex(&image)), format!("{repository}:v1.{image}")];
        json!({"names": names, "sizeBytes": 50_000_000 + 1_111_111 * image})
    };
    let images: Vec<Value> = (number % 30..number % 30 + 30).map(image).collect();
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
        // Full by cordon: what waits must not fit here. The node agent would miss an instance of
        // EC2's behind it.
        "spec": {"providerID": format!("kwok://{name}"), "unschedulable": true},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}],
            "images": images,
        },
    })
}

/// A pod of 10 KB, as workloads make them: an owner, environment, probes and mounts are most of its
/// bytes. What differs from pod to pod in a real one's status - addresses, digests, times - stands
/// in an annotation here.
fn pod(name: &str, app: &str, shape: usize) -> Value {
    let variables: Vec<_> = (0..VARIABLES)
        .map(|n| json!({"name": format!("SETTING_{n}"), "value": format!("https://{app}.example.com/{n}/{}", n * n)}))
        .collect();
    let mut template =
        deployment(app, 1, &format!("{}m", 100 + 50 * shape), &format!("{}Mi", 128 + 64 * shape), &json!({}))
            ["spec"]["template"]
            .clone();
    let container = &mut template["spec"]["containers"][0];
    container["env"] = json!(variables);
    container["livenessProbe"] = json!({"httpGet": {"path": "/healthz", "port": 8080}});
    container["readinessProbe"] = json!({"httpGet": {"path": "/readyz", "port": 8080}});
    let status: Vec<String> = (0..12).map(|part| hex(&(name, part))).collect();
    let owner =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "labels": {"app": app},
            "annotations": {"example.com/status": status.join(",")},
            "ownerReferences": owner,
        },
        "spec": template["spec"],
    })
}

/// 64 digits that no compression makes shorter than half.
fn hex(subject: &impl Hash) -> String {
    let digits = |part: u8| {
        let mut hasher = DefaultHasher::new();
        (part, subject).hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    };
    (0..4).map(digits).collect()
}
