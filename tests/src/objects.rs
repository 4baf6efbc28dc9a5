//! Kubernetes objects for tests, built from their few interesting parts.

use serde_json::{Value, json};

/// A NodePool on a kOps InstanceGroup.
pub fn node_pool(name: &str, instance_group: &str, requirements: &Value) -> Value {
    json!({
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "requirements": requirements,
            "nodeClassRef": {"group": "kops.k8s.io", "kind": "InstanceGroup", "name": instance_group},
        }}},
    })
}

/// A requirement of a NodePool.
pub fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": operator, "values": values})
}

/// A Deployment of pods that ask for `cpu` and `memory`; `pod` is merged into the pod's spec.
pub fn deployment(name: &str, replicas: usize, cpu: &str, memory: &str, pod: &Value) -> Value {
    let mut spec = json!({
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "containers": [{
            "name": "main",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": cpu, "memory": memory}},
        }],
    });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), pod.as_object()) {
        spec.extend(more.clone());
    }
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

/// A DaemonSet that runs on every node.
pub fn daemon_set(name: &str, cpu: &str, memory: &str) -> Value {
    let tolerate_all = json!({"tolerations": [{"operator": "Exists"}]});
    let mut object = deployment(name, 0, cpu, memory, &tolerate_all);
    object["kind"] = json!("DaemonSet");
    if let Some(spec) = object["spec"].as_object_mut() {
        spec.remove("replicas");
    }
    object
}
