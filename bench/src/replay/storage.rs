//! Volumes: bound ones in their zones, and those that are made for their first consumer.

use serde_json::{Value, json};

use super::objects::{app, default_pool, merge, node, pods};
use super::scenario::Scenario;
use super::spread::ZONE;

const DRIVER: &str = "ebs.csi.aws.com";

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![bound_volumes(), first_consumer(), allowed_topologies(), attach_limits()]
}

pub(super) fn storage_class(name: &str, zones: &[&str]) -> Value {
    let mut class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
    });
    if !zones.is_empty() {
        let key = "topology.ebs.csi.aws.com/zone";
        class["allowedTopologies"] = json!([{"matchLabelExpressions": [{"key": key, "values": zones}]}]);
    }
    class
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}},
            "storageClassName": class,
        },
    })
}

/// A claim and its volume in a zone, bound to one another.
pub(super) fn bound(name: &str, class: &str, zone: &str) -> [Value; 2] {
    let mut claim = claim(name, class);
    let volume_name = format!("pv-{name}");
    merge(
        &mut claim,
        &json!({
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": volume_name},
            "status": {"phase": "Bound"},
        }),
    );
    let in_zone = json!([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]);
    let volume = json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": volume_name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "10Gi"},
            "storageClassName": class,
            "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{name}")},
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": in_zone}},
        },
        "status": {"phase": "Bound"},
    });
    [volume, claim]
}

/// Each pod mounts the claim `data-<its name>`.
pub(super) fn mounting(name: &str, count: usize, cpu: &str, memory: &str, spec: &Value) -> Vec<Value> {
    let mut pending = pods(name, count, cpu, memory, spec);
    for (index, pod) in pending.iter_mut().enumerate() {
        let claim_name = format!("data-{name}-{index}");
        pod["spec"]["volumes"] =
            json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]);
    }
    pending
}

fn claims(name: &str, count: usize, class: &str) -> Vec<Value> {
    (0..count).map(|index| claim(&format!("data-{name}-{index}"), class)).collect()
}

fn bound_volumes() -> Scenario {
    let zones = ["us-east-1a", "us-east-1b", "us-east-1c"];
    let mut objects = vec![default_pool(), storage_class("gp3", &[])];
    for index in 0..24 {
        objects.extend(bound(&format!("data-db-{index}"), "gp3", zones[index * index % 3]));
    }
    let mut pending = mounting("db", 24, "700m", "2Gi", &json!({}));
    pending.extend(pods("free", 30, "500m", "1Gi", &json!({})));
    Scenario::new("volumes, bound in zones", objects, pending)
}

/// The claims get their volumes where the pods go, which a spread decides.
fn first_consumer() -> Scenario {
    let mut objects = vec![default_pool(), storage_class("gp3", &[])];
    objects.extend(claims("db", 20, "gp3"));
    let constraint = json!({
        "topologyKey": ZONE,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": app("db"),
    });
    let spec = json!({"topologySpreadConstraints": [constraint]});
    let mut pending = mounting("db", 20, "700m", "2Gi", &spec);
    pending.extend(pods("free", 20, "500m", "1Gi", &json!({})));
    Scenario::new("volumes, first consumer", objects, pending)
}

fn allowed_topologies() -> Scenario {
    let mut objects = vec![default_pool(), storage_class("zonal", &["us-east-1b", "us-east-1c"])];
    objects.extend(claims("db", 20, "zonal"));
    let mut pending = mounting("db", 20, "700m", "2Gi", &json!({}));
    pending.extend(pods("free", 20, "500m", "1Gi", &json!({})));
    Scenario::new("volumes, allowedTopologies", objects, pending)
}

/// The node that is there has room for all pods, but attaches four volumes only.
fn attach_limits() -> Scenario {
    let limits = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "old"},
        "spec": {"drivers": [{"name": DRIVER, "nodeID": "old", "allocatable": {"count": 4}, "topologyKeys": []}]},
    });
    let mut objects = vec![default_pool(), storage_class("gp3", &[]), node("old", "us-east-1a"), limits];
    for index in 0..10 {
        objects.extend(bound(&format!("data-db-{index}"), "gp3", "us-east-1a"));
    }
    let mut pending = mounting("db", 10, "200m", "500Mi", &json!({}));
    pending.extend(pods("free", 10, "500m", "1Gi", &json!({})));
    Scenario::new("volumes, attach limits", objects, pending)
}
