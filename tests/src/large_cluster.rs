//! A cluster of hundreds or thousands of nodes on the real API server, with 30 pods on each, and
//! objects as large as those of real clusters.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outrigger_stack::{FunctionProcess, Http, Kubernetes, NodeAgentSettings, Stack};
use serde_json::{Value, json};

use crate::objects::deployment;
use crate::world::{apply, claims_in, count_unschedulable, tick, wait_for};

/// How many pods each node has.
pub const PODS_A_NODE: usize = 30;
const PODS_PATH: &str = "/api/v1/namespaces/default/pods";
const CREATORS: usize = 4;
/// How many objects of 10 KB etcd takes in one request.
const AT_ONCE: usize = 50;

/// How large pods are: a page of them is the most that a function holds of what the API server
/// sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodSize {
    /// 10 KB, as those of real clusters.
    Real,
    /// 3 KB, which the API server sends in a third of the time.
    Small,
}

impl PodSize {
    /// Variables of a container, which are most of a pod's bytes.
    const fn variables(self) -> usize {
        match self {
            Self::Real => 48,
            Self::Small => 6,
        }
    }
}

/// Makes the nodes and their pods, bound as kube-scheduler binds. They are written as the API
/// server stores them: through it they would take ten times as long. What would look at thousands
/// of them on two cores ends before.
pub fn load(stack: &Stack, nodes: usize, size: PodSize) -> Result<()> {
    for part in ["kwok", "kube-controller-manager", "kube-scheduler"] {
        stack.kill_part(part)?;
    }
    let parts = &stack.state().parts;
    let etcd = parts.iter().find(|part| part.name == "etcd").and_then(|part| part.port);
    let etcd = format!("http://127.0.0.1:{}/v3/kv/txn", etcd.context("etcd has no port")?);
    store(&etcd, nodes, |number| {
        let node = node(number);
        (format!("minions/{}", node["metadata"]["name"].as_str().unwrap_or_default()), node)
    })?;
    store(&etcd, nodes * PODS_A_NODE, |number| {
        let name = format!("bound-{number}");
        let mut pod = pod(&name, &format!("service-{}", number % 300), number % 7, size);
        pod["spec"]["nodeName"] = json!(format!("i-{:017x}", number % nodes));
        pod["status"] = json!({"phase": "Running"});
        pod["metadata"]["managedFields"] = json!([managed_fields(size)]);
        (format!("pods/default/{name}"), pod)
    })?;
    // The API server takes them in for a while.
    let last = format!("{PODS_PATH}/bound-{}?resourceVersion=0", nodes * PODS_A_NODE - 1);
    let is_there = || Ok(usize::from(stack.kubernetes().find(&last)?.is_some()));
    wait_for("the last pod", 1, Duration::from_mins(5), is_there)
}

/// Writes objects into etcd under their keys, from several threads and some at a time.
fn store(etcd: &str, count: usize, make: impl Fn(usize) -> (String, Value) + Sync) -> Result<()> {
    let http = Http::plain(Duration::from_mins(1));
    side_by_side(count.div_ceil(AT_ONCE), |batch| {
        let put = |number: usize| {
            let (key, mut object) = make(number);
            object["metadata"]["uid"] = json!(format!("uid-of-{key}"));
            object["metadata"]["creationTimestamp"] = json!("2026-01-05T10:00:00Z");
            let key = STANDARD.encode(format!("/registry/{key}"));
            json!({"requestPut": {"key": key, "value": STANDARD.encode(object.to_string())}})
        };
        let puts: Vec<Value> = (batch * AT_ONCE..count.min((batch + 1) * AT_ONCE)).map(put).collect();
        let body = json!({"success": puts}).to_string();
        http.send("POST", etcd, &[], Some(body.as_bytes()))?.ok("writing objects into etcd").map(drop)
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

/// Creates pods that no node has room for, with the verdict that kube-scheduler would reach.
pub fn add_unschedulable(kubernetes: &Kubernetes, count: usize) -> Result<()> {
    side_by_side(count, |number| {
        let name = format!("waiting-{number}");
        kubernetes.create(PODS_PATH, &pod(&name, "waiting", number % 7, PodSize::Real))?;
        let verdict = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "0 nodes are available", "lastTransitionTime": "2026-01-05T10:00:00Z",
        });
        let status = json!({"status": {"conditions": [verdict]}});
        kubernetes.merge(&format!("{PODS_PATH}/{name}/status"), &status).map(drop)
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
fn side_by_side(count: usize, make: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..CREATORS)
            .map(|part| {
                let make = &make;
                scope.spawn(move || (part..count).step_by(CREATORS).try_for_each(make))
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

/// A pod as workloads make them: an owner, environment, probes and mounts are most of its
/// bytes. What differs from pod to pod in a real one's status - addresses, digests, times - stands
/// in an annotation here.
fn pod(name: &str, app: &str, shape: usize, size: PodSize) -> Value {
    let variables: Vec<_> = (0..size.variables())
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

/// Whose the fields of a pod are, as the API server notes it of each that it creates.
fn managed_fields(size: PodSize) -> Value {
    let of_variable = |number: usize| {
        let key = format!("k:{{\"name\":\"SETTING_{number}\"}}");
        (key, json!({".": {}, "f:name": {}, "f:value": {}}))
    };
    let variables: serde_json::Map<String, Value> = (0..size.variables()).map(of_variable).collect();
    let containers = json!({"k:{\"name\":\"main\"}": {".": {}, "f:env": variables}});
    json!({
        "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
        "time": "2026-01-05T10:00:00Z", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:containers": containers}},
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
