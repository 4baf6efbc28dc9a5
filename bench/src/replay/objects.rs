//! Objects of the scenarios, built from their few interesting parts.

use outrigger_tests::objects::{node_pool, requirement};
use serde_json::{Value, json};

/// A pool of current general-purpose amd64 types, spot or on demand, with more requirements and a
/// patch of its spec.
pub(super) fn pool(name: &str, more: &[Value], spec: &Value) -> Value {
    let mut requirements = vec![
        requirement("karpenter.k8s.aws/instance-category", "In", &["c", "m", "r"]),
        requirement("karpenter.k8s.aws/instance-generation", "Gt", &["4"]),
        requirement("kubernetes.io/arch", "In", &["amd64"]),
        requirement("karpenter.sh/capacity-type", "In", &["spot", "on-demand"]),
    ];
    // A later word on a key takes the place of an earlier one.
    requirements.retain(|one| more.iter().all(|other| other["key"] != one["key"]));
    requirements.extend(more.iter().cloned());
    let mut pool = node_pool(name, "nodes", &json!(requirements));
    merge(&mut pool["spec"], spec);
    pool
}

/// The pool of most scenarios.
pub(super) fn default_pool() -> Value {
    pool("default", &[], &json!({}))
}

/// Pods `name-0` and on in the namespace `default`, labelled `app: name`; `spec` is merged into
/// each pod's spec.
pub(super) fn pods(name: &str, count: usize, cpu: &str, memory: &str, spec: &Value) -> Vec<Value> {
    let pod = |index: usize| {
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": format!("{name}-{index}"), "namespace": "default", "labels": {"app": name}},
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "main",
                    "image": "registry.k8s.io/pause:3.10",
                    "resources": {"requests": {"cpu": cpu, "memory": memory}},
                }],
            },
        });
        merge(&mut pod["spec"], spec);
        pod
    };
    (0..count).map(pod).collect()
}

/// Changes every object.
pub(super) fn with(mut objects: Vec<Value>, change: &Value) -> Vec<Value> {
    for object in &mut objects {
        merge(object, change);
    }
    objects
}

/// Merges objects into one another; everything else is replaced.
pub(super) fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (key, value) in change {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}

/// A selector of pods by their `app`.
pub(super) fn app(name: &str) -> Value {
    json!({"matchLabels": {"app": name}})
}

/// A namespace with a label `env`.
pub(super) fn namespace(name: &str, env: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"env": env}}})
}

/// A node that is there already, ready for pods: an m5.2xlarge of the pool `default`.
pub(super) fn node(name: &str, zone: &str) -> Value {
    let room = json!({"cpu": "7910m", "memory": "30Gi", "pods": "58", "ephemeral-storage": "100Gi"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/os": "linux",
            "node.kubernetes.io/instance-type": "m5.2xlarge",
            "topology.kubernetes.io/region": "us-east-1",
            "topology.kubernetes.io/zone": zone,
            "topology.ebs.csi.aws.com/zone": zone,
            "karpenter.sh/capacity-type": "on-demand",
            "karpenter.sh/nodepool": "default",
            "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true",
        }},
        "spec": {},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// The pods as they run on a node.
pub(super) fn on(node: &str, pods: Vec<Value>) -> Vec<Value> {
    with(pods, &json!({"spec": {"nodeName": node}}))
}

/// The pod of a daemonset on a node.
pub fn daemon_pod(node: &str, set: &Value) -> Value {
    let (template, name) = (&set["spec"]["template"], &set["metadata"]["name"]);
    let mut spec = template["spec"].clone();
    spec["nodeName"] = json!(node);
    spec["tolerations"] = json!([{"operator": "Exists"}]);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{}-{node}", name.as_str().unwrap_or_default()),
            "namespace": set["metadata"]["namespace"],
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "name": name,
                "uid": name,
                "controller": true,
            }],
        },
        "spec": spec,
    })
}
