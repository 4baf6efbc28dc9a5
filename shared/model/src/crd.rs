//! The definitions of the custom resources that Outrigger reads and writes, made from the types
//! that read and write them.
//!
//! They accept what Karpenter's own definitions of version 1 accept, so that a cluster may keep its
//! objects. Fields that Outrigger does not act on keep their structure here and are refused when an
//! object is read.

mod structural;

use serde_json::{Value, json};

use crate::capacity_buffer::CapacityBufferSpec;
use crate::node_claim_object::{Condition, NodeClaimObjectSpec, NodeClaimObjectStatus};
use crate::node_overlay::NodeOverlaySpec;
use crate::node_pool::NodePoolSpec;
use crate::{EC2NodeClassSpec, Resources, labels};

/// The definitions of `CapacityBuffer`, `EC2NodeClass`, `NodeClaim`, `NodeOverlay` and `NodePool`,
/// as objects of `apiextensions.k8s.io/v1`.
pub fn crds() -> Vec<Value> {
    vec![capacity_buffers(), ec2_node_classes(), node_claims(), node_overlays(), node_pools()]
}

/// One resource.
struct Definition {
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    category: &'static str,
    scope: &'static str,
    /// Versions with the same fields; objects are stored as the first.
    versions: &'static [&'static str],
    columns: &'static [Column],
    spec: Value,
    status: Value,
    subresources: Value,
}

/// A column of `kubectl get`: heading, type and path; a wide one is shown with `-o wide` only.
struct Column {
    heading: &'static str,
    kind: &'static str,
    path: &'static str,
    wide: bool,
}

const fn column(heading: &'static str, kind: &'static str, path: &'static str) -> Column {
    Column { heading, kind, path, wide: false }
}

const fn wide(heading: &'static str, kind: &'static str, path: &'static str) -> Column {
    Column { heading, kind, path, wide: true }
}

const KARPENTER: &str = "karpenter";
const CLUSTER: &str = "Cluster";

const READY: Column = column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#);
const AGE: Column = column("Age", "date", ".metadata.creationTimestamp");

const NODE_POOL_COLUMNS: [Column; 7] = [
    column("NodeClass", "string", ".spec.template.spec.nodeClassRef.name"),
    column("Nodes", "string", ".status.nodes"),
    READY,
    AGE,
    wide("Weight", "integer", ".spec.weight"),
    wide("CPU", "string", ".status.resources.cpu"),
    wide("Memory", "string", ".status.resources.memory"),
];

const NODE_CLAIM_COLUMNS: [Column; 10] = [
    column("Type", "string", r".metadata.labels.node\.kubernetes\.io/instance-type"),
    column("Capacity", "string", r".metadata.labels.karpenter\.sh/capacity-type"),
    column("Zone", "string", r".metadata.labels.topology\.kubernetes\.io/zone"),
    column("Node", "string", ".status.nodeName"),
    READY,
    AGE,
    wide("ImageID", "string", ".status.imageID"),
    wide("ID", "string", ".status.providerID"),
    wide("NodePool", "string", r".metadata.labels.karpenter\.sh/nodepool"),
    wide("NodeClass", "string", ".spec.nodeClassRef.name"),
];

const EC2_NODE_CLASS_COLUMNS: [Column; 4] = [
    READY,
    AGE,
    wide("Role", "string", ".spec.role"),
    wide("InstanceProfile", "string", ".spec.instanceProfile"),
];

const NODE_OVERLAY_COLUMNS: [Column; 3] = [READY, AGE, wide("Weight", "integer", ".spec.weight")];

const CAPACITY_BUFFER_COLUMNS: [Column; 4] = [
    column("Strategy", "string", ".spec.provisioningStrategy"),
    column("PodTemplate", "string", ".status.podTemplateRef.name"),
    column("Replicas", "integer", ".status.replicas"),
    AGE,
];

fn node_pools() -> Value {
    let mut spec = structural::schema_of::<NodePoolSpec>();
    accept_time_added(&mut spec, "/properties/template/properties/spec");
    let mut status = open_status();
    set(&mut status, "/properties", "nodes", json!({"type": "integer", "format": "int64", "default": 0}));
    set(
        &mut status,
        "/properties",
        "nodeClassObservedGeneration",
        json!({"type": "integer", "format": "int64"}),
    );
    set(&mut status, "/properties", "resources", structural::schema_of::<Resources>());
    Definition {
        group: labels::KARPENTER_DOMAIN,
        kind: "NodePool",
        plural: "nodepools",
        short_names: &[],
        category: KARPENTER,
        scope: CLUSTER,
        versions: &["v1"],
        columns: &NODE_POOL_COLUMNS,
        spec,
        status,
        subresources: json!({
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.nodes"},
        }),
    }
    .to_value()
}

fn node_claims() -> Value {
    let mut spec = structural::schema_of::<NodeClaimObjectSpec>();
    accept_time_added(&mut spec, "");
    let mut status = structural::schema_of::<NodeClaimObjectStatus>();
    set(&mut status, "", "x-kubernetes-preserve-unknown-fields", true.into());
    key_conditions_by_type(&mut status);
    Definition {
        group: labels::KARPENTER_DOMAIN,
        kind: "NodeClaim",
        plural: "nodeclaims",
        short_names: &[],
        category: KARPENTER,
        scope: CLUSTER,
        versions: &["v1"],
        columns: &NODE_CLAIM_COLUMNS,
        spec,
        status,
        subresources: json!({"status": {}}),
    }
    .to_value()
}

fn ec2_node_classes() -> Value {
    Definition {
        group: labels::EC2_GROUP,
        kind: "EC2NodeClass",
        plural: "ec2nodeclasses",
        short_names: &["ec2nc", "ec2ncs"],
        category: KARPENTER,
        scope: CLUSTER,
        versions: &["v1"],
        columns: &EC2_NODE_CLASS_COLUMNS,
        spec: structural::schema_of::<EC2NodeClassSpec>(),
        status: open_status(),
        subresources: json!({"status": {}}),
    }
    .to_value()
}

fn node_overlays() -> Value {
    Definition {
        group: labels::KARPENTER_DOMAIN,
        kind: "NodeOverlay",
        plural: "nodeoverlays",
        short_names: &["overlays"],
        category: KARPENTER,
        scope: CLUSTER,
        versions: &["v1alpha1"],
        columns: &NODE_OVERLAY_COLUMNS,
        spec: structural::schema_of::<NodeOverlaySpec>(),
        status: open_status(),
        subresources: json!({"status": {}}),
    }
    .to_value()
}

/// Cluster Autoscaler and Karpenter define it as well; older ones of them stored it as v1alpha1.
fn capacity_buffers() -> Value {
    Definition {
        group: "autoscaling.x-k8s.io",
        kind: "CapacityBuffer",
        plural: "capacitybuffers",
        short_names: &["cb"],
        category: "autoscaling",
        scope: "Namespaced",
        versions: &["v1beta1", "v1alpha1"],
        columns: &CAPACITY_BUFFER_COLUMNS,
        spec: structural::schema_of::<CapacityBufferSpec>(),
        status: open_status(),
        subresources: json!({"status": {}}),
    }
    .to_value()
}

impl Definition {
    fn to_value(&self) -> Value {
        let Self { group, kind, plural, short_names, category, scope, versions, .. } = self;
        let mut names = json!({
            "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_ascii_lowercase(),
            "categories": [category],
        });
        if !short_names.is_empty() {
            set(&mut names, "", "shortNames", json!(short_names));
        }
        let versions = versions.iter().enumerate().map(|(index, name)| self.version(name, index == 0));
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "names": names,
                "scope": scope,
                "versions": versions.collect::<Vec<Value>>(),
            },
        })
    }

    fn version(&self, name: &str, stored: bool) -> Value {
        json!({
            "name": name,
            "served": true,
            "storage": stored,
            "subresources": self.subresources,
            "additionalPrinterColumns": self.columns.iter().map(Column::to_value).collect::<Vec<Value>>(),
            "schema": {"openAPIV3Schema": {
                "type": "object",
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": self.spec,
                    "status": self.status,
                },
            }},
        })
    }
}

impl Column {
    fn to_value(&self) -> Value {
        let Self { heading, kind, path, wide } = self;
        let mut value = json!({"name": heading, "type": kind, "jsonPath": path});
        if *wide {
            set(&mut value, "", "priority", 1.into());
        }
        value
    }
}

/// A status that others may write to as well: conditions have their structure, everything else is
/// kept as it is.
fn open_status() -> Value {
    let mut status = json!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"conditions": structural::schema_of::<Vec<Condition>>()},
    });
    key_conditions_by_type(&mut status);
    status
}

/// Lets several writers each keep their own conditions.
fn key_conditions_by_type(status: &mut Value) {
    set(status, "/properties/conditions", "x-kubernetes-list-type", "map".into());
    set(status, "/properties/conditions", "x-kubernetes-list-map-keys", json!(["type"]));
}

/// Kubernetes' own type of taints has one more field than ours; in a pool or claim it means
/// nothing.
fn accept_time_added(spec: &mut Value, parent: &str) {
    for list in ["taints", "startupTaints"] {
        let path = format!("{parent}/properties/{list}/items/properties");
        set(spec, &path, "timeAdded", json!({"type": "string", "format": "date-time"}));
    }
}

fn set(schema: &mut Value, path: &str, key: &str, value: Value) {
    if let Some(Value::Object(object)) = schema.pointer_mut(path) {
        object.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
