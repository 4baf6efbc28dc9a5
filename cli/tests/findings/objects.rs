//! Objects as `kubectl get -o json` writes them, with what matters for a plan.

use serde_json::{Value, json};

/// A NodePool of the kOps class `nodes`, with requirements.
pub(crate) fn pool(name: &str, requirements: &Value) -> Value {
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": {"template": {
        "spec": {"nodeClassRef": {"group": "kops.k8s.io", "kind": "InstanceGroup", "name": "nodes"},
            "requirements": requirements}}}})
}

/// The requirement that a label has one of some values.
pub(crate) fn one_of(key: &str, values: &[&str]) -> Value {
    json!({"key": key, "operator": "In", "values": values})
}

/// What one container asks for.
pub(crate) fn spec(cpu: &str, memory: &str) -> Value {
    json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]})
}

/// The same, with further fields of the spec.
pub(crate) fn spec_with(cpu: &str, memory: &str, more: &Value) -> Value {
    let mut spec = spec(cpu, memory);
    more.as_object().into_iter().flatten().for_each(|(key, value)| spec[key] = value.clone());
    spec
}

/// A pod that the scheduler found no node for.
pub(crate) fn waiting(app: &str, number: usize, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {"name": format!("{app}-{number}"), "namespace": "default", "uid": format!("{app}-{number}"),
            "labels": {"app": app}, "creationTimestamp": "2026-11-20T09:00:00Z"},
        "status": {"phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}})
}

/// So many pods that the scheduler found no node for.
pub(crate) fn all_waiting(app: &str, count: usize, spec: &Value) -> Vec<Value> {
    (0..count).map(|number| waiting(app, number, spec)).collect()
}

/// The ownerReferences of a pod whose controller is of the group `apps`.
pub(crate) fn owned_by(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}])
}

/// A ready node `m5.large` in zone a, with 1.93 cpus for pods.
pub(crate) fn node(name: &str) -> Value {
    let amounts = json!({"cpu": "1930m", "memory": "7Gi", "pods": "58"});
    json!({"apiVersion": "v1", "kind": "Node", "spec": {"providerID": format!("aws:///us-east-1a/{name}")},
        "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-11-20T08:00:00Z", "labels": {
            "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
            "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/region": "us-east-1",
            "topology.kubernetes.io/zone": "us-east-1a", "karpenter.sh/initialized": "true"}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// A mirror pod of a static pod, as the kubelet of a node shows it.
pub(crate) fn mirror_pod(name: &str, node: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["nodeName"] = node.into();
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "status": {"phase": "Running"},
        "metadata": {"name": format!("{name}-{node}"), "namespace": "kube-system", "uid": format!("{name}-{node}"),
            "creationTimestamp": "2026-11-20T08:00:01Z",
            "annotations": {"kubernetes.io/config.mirror": "0123", "kubernetes.io/config.source": "file"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "uid": node, "controller": true}]}})
}

/// A daemonset whose template asks for so much cpu.
pub(crate) fn daemon_set(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "uid": format!("ds-{name}")},
        "spec": {"template": {"metadata": {"labels": {"app": name}}, "spec": spec(cpu, "64Mi")}}})
}

/// A pod of a daemonset on a node as its controller makes it, asking for so much cpu, made at an
/// hour of the day.
pub(crate) fn daemon_pod(set: &str, node: &str, cpu: &str, hour: u8) -> Value {
    let this = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        {"nodeSelectorTerms": [this]}}});
    json!({"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Running"},
        "metadata": {"name": format!("{set}-{node}"), "namespace": "kube-system", "uid": format!("{set}-{node}"),
            "labels": {"app": set}, "creationTimestamp": format!("2026-11-20T{hour:02}:00:00Z"),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": set,
                "uid": format!("ds-{set}"), "controller": true}]},
        "spec": spec_with(cpu, "64Mi", &json!({"nodeName": node, "affinity": affinity}))})
}
