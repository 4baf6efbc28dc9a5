//! Workloads: pods of one kind, with what they ask for.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use crate::scenario::container;

use super::pieces::{
    APPS, ZONE, ZONES, host_ports, node_affinity, node_selector, pod_affinity, spreads, tolerations,
};

const DRIVER: &str = "ebs.csi.aws.com";

/// Pods of one kind.
#[derive(Clone, Debug)]
pub(super) struct Workload {
    app: usize,
    tier: bool,
    pub(super) count: usize,
    requests: Value,
    /// What the spec says beside containers and volumes.
    rest: Value,
    ports: Value,
    volume: Option<Volume>,
}

/// The volume that each pod of a workload has.
#[derive(Clone, Copy, Debug)]
enum Volume {
    /// Bound, in the zones in turn from this one.
    Bound(usize),
    /// Bound where its first pod goes.
    Anywhere,
    /// The same, in two zones only.
    TwoZones,
    /// A claim that does not exist.
    Missing,
}

pub(super) fn workload() -> BoxedStrategy<Workload> {
    let sizes = (
        select(vec![100, 250, 500, 1_000, 2_000, 4_000, 7_000]),
        select(vec![128, 512, 1_024, 2_048, 4_096, 16_384]),
        prop::bool::weighted(0.03),
    );
    let volume = prop_oneof![
        12 => Just(None),
        2 => (0..ZONES.len()).prop_map(|zone| Some(Volume::Bound(zone))),
        1 => Just(Some(Volume::Anywhere)),
        1 => Just(Some(Volume::TwoZones)),
        1 => Just(Some(Volume::Missing)),
    ];
    let rest = (node_selector(), node_affinity(), pod_affinity(5), pod_affinity(4), spreads(), tolerations());
    (0..APPS, any::<bool>(), 1..30_usize, sizes, rest, host_ports(), volume)
        .prop_map(|(app, tier, count, (cpu, memory, gpu), parts, ports, volume)| {
            let mut requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
            if gpu {
                requests["nvidia.com/gpu"] = json!("1");
            }
            Workload { app, tier, count, requests, rest: rest_of(app, parts), ports, volume }
        })
        .boxed()
}

type Parts = (Value, Value, Value, Value, Value, Value);

/// The parts that are there, with "own" replaced by a selector of the workload's own pods.
fn rest_of(app: usize, (selector, node, near, away, spreads, tolerations): Parts) -> Value {
    let mut rest = json!({});
    let parts: [(&[&str], Value); 6] = [
        (&["nodeSelector"], selector),
        (&["affinity", "nodeAffinity"], node),
        (&["affinity", "podAffinity"], near),
        (&["affinity", "podAntiAffinity"], away),
        (&["topologySpreadConstraints"], spreads),
        (&["tolerations"], tolerations),
    ];
    for (path, mut part) in parts {
        if part.is_null() {
            continue;
        }
        fill_in(&mut part, app);
        match path {
            [outer, inner] => rest[*outer][*inner] = part,
            [only] => rest[*only] = part,
            _ => {}
        }
    }
    rest
}

fn fill_in(value: &mut Value, app: usize) {
    match value {
        Value::String(text) if text == "own" => {
            *value = json!({"matchLabels": {"app": format!("app-{app}")}});
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill_in(item, app)),
        Value::Object(fields) => fields.values_mut().for_each(|field| fill_in(field, app)),
        _ => {}
    }
}

impl Workload {
    /// The same as a few small pods, so that they fit on any node.
    #[must_use]
    pub(super) fn made_to_fit(mut self) -> Self {
        self.count = self.count.min(3);
        self.requests = json!({"cpu": "200m", "memory": "512Mi"});
        self.ports = Value::Null;
        self
    }

    /// Whether its pods mount volumes.
    pub(super) const fn has_volumes(&self) -> bool {
        self.volume.is_some()
    }

    /// Its pods: waiting, or running on a node.
    pub(super) fn objects(&self, name: &str, node: Option<&str>, items: &mut Vec<Value>) {
        for index in 0..self.count {
            let pod = format!("{name}-{index}");
            let mut spec = self.rest.clone();
            let mut container = container(&self.requests);
            if !self.ports.is_null() {
                container["ports"] = self.ports.clone();
            }
            spec["containers"] = json!([container]);
            if let Some(volume) = self.volume.filter(|_| node.is_none()) {
                let claim = format!("data-{pod}");
                spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]);
                volume.objects(&claim, index, items);
            }
            let mut status = json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
            if let Some(node) = node {
                spec["nodeName"] = json!(node);
                status = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
            }
            let tier = if self.tier { "front" } else { "back" };
            items.push(json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": pod, "namespace": "default", "uid": pod, "creationTimestamp": "2026-11-01T00:00:00Z",
                    "labels": {"app": format!("app-{}", self.app), "tier": tier},
                },
                "spec": spec, "status": status,
            }));
        }
    }
}

impl Volume {
    fn objects(self, claim: &str, index: usize, items: &mut Vec<Value>) {
        let (class, zone) = match self {
            Self::Bound(first) => ("anywhere", Some(ZONES[(first + index) % ZONES.len()])),
            Self::Anywhere => ("anywhere", None),
            Self::TwoZones => ("two-zones", None),
            Self::Missing => return,
        };
        let mut object = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": claim, "namespace": "default", "uid": claim},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Pending"},
        });
        if let Some(zone) = zone {
            let volume = format!("pv-{claim}");
            object["spec"]["volumeName"] = json!(volume);
            object["status"]["phase"] = json!("Bound");
            object["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
            let term = json!({"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]});
            items.push(json!({
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume, "uid": volume},
                "spec": {
                    "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "storageClassName": class,
                    "csi": {"driver": DRIVER, "volumeHandle": format!("vol-{claim}")},
                    "claimRef": {"namespace": "default", "name": claim, "uid": claim},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
                },
                "status": {"phase": "Bound"},
            }));
        }
        items.push(object);
    }
}

/// The classes that the volumes are of.
pub(super) fn storage_classes() -> [Value; 2] {
    let class = |name: &str| {
        json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name, "uid": name},
            "provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer",
        })
    };
    let mut two = class("two-zones");
    two["allowedTopologies"] =
        json!([{"matchLabelExpressions": [{"key": ZONE, "values": [ZONES[0], ZONES[1]]}]}]);
    [class("anywhere"), two]
}
