//! The objects through which users configure Outrigger, as far as their status goes.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::invalid;
use crate::node_claim_object::Condition;
use crate::{
    Image, LaunchTemplate, NodeClass, NodeClassRef, Operator, RequirementSpec, Resources, Subnet, labels,
};

/// The name under which Outrigger's changes stand in `managedFields`, and its events.
pub const FIELD_MANAGER: &str = "outrigger";

/// The kinds of objects through which users configure Outrigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfiguredKind {
    /// `NodePool` of `karpenter.sh`.
    NodePool,
    /// `EC2NodeClass` of `karpenter.k8s.aws`.
    EC2NodeClass,
    /// `NodeOverlay` of `karpenter.sh`.
    NodeOverlay,
    /// `CapacityBuffer` of `autoscaling.x-k8s.io`.
    CapacityBuffer,
}

impl ConfiguredKind {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NodePool => "NodePool",
            Self::EC2NodeClass => "EC2NodeClass",
            Self::NodeOverlay => "NodeOverlay",
            Self::CapacityBuffer => "CapacityBuffer",
        }
    }

    /// Its name in paths of the API.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::NodePool => "nodepools",
            Self::EC2NodeClass => "ec2nodeclasses",
            Self::NodeOverlay => "nodeoverlays",
            Self::CapacityBuffer => "capacitybuffers",
        }
    }

    /// The version of its API that is read where several may be.
    const fn version(self) -> &'static str {
        match self {
            Self::NodePool => "karpenter.sh/v1",
            Self::EC2NodeClass => "karpenter.k8s.aws/v1",
            Self::NodeOverlay => "karpenter.sh/v1alpha1",
            Self::CapacityBuffer => "autoscaling.x-k8s.io/v1beta1",
        }
    }
}

/// One of these objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfiguredRef {
    /// Its kind.
    pub kind: ConfiguredKind,
    /// Group and version, as `karpenter.sh/v1`.
    pub api_version: String,
    /// Its namespace; none where its kind has none.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid; empty where it is not known.
    pub uid: String,
}

impl ConfiguredRef {
    /// A NodePool.
    pub fn node_pool(name: impl Into<String>, uid: impl Into<String>) -> Self {
        let kind = ConfiguredKind::NodePool;
        Self { kind, api_version: kind.version().into(), namespace: None, name: name.into(), uid: uid.into() }
    }
}

/// `Kind/name` or `Kind/namespace/name`, as complaints name it.
impl fmt::Display for ConfiguredRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.kind.as_str())?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// One of these objects as it stands, sound or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredObject {
    /// Which.
    pub reference: ConfiguredRef,
    /// The generation of its spec; 0 where it has none.
    pub generation: i64,
    /// How a NodePool's machines are made, as far as that can be read.
    pub node_class: Option<NodeClassRef>,
    /// Whether a NodePool is annotated as ours, whoever else is there.
    pub is_managed: bool,
    /// Whether somebody else has written something of its status.
    pub is_others: bool,
    /// Its status.
    pub status: ConfiguredStatus,
}

/// What we say in the status of such an object; each kind has some of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfiguredStatus {
    /// What is true of it or not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// How many nodes a NodePool has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<i64>,
    /// What a NodePool's nodes have, `nodes` among it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// For how many pods a CapacityBuffer keeps room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
    /// What an EC2NodeClass's selectors find.
    #[serde(flatten)]
    pub resolved: ResolvedSelectors,
}

/// What an EC2NodeClass's selectors find, as Karpenter writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResolvedSelectors {
    /// Subnets, in order of zone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subnets: Vec<ResolvedSubnet>,
    /// Security groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_groups: Vec<ResolvedGroup>,
    /// Images, one for each architecture.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub amis: Vec<ResolvedImage>,
}

/// A subnet that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedSubnet {
    /// `subnet-…`.
    pub id: String,
    /// Its zone.
    pub zone: String,
    /// Its zone's id, the same in every account.
    #[serde(rename = "zoneID", default, skip_serializing_if = "String::is_empty")]
    pub zone_id: String,
}

/// A security group that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedGroup {
    /// `sg-…`.
    pub id: String,
}

/// An image that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedImage {
    /// `ami-…`.
    pub id: String,
    /// Which instance types it is for.
    pub requirements: Vec<RequirementSpec>,
}

impl ResolvedSelectors {
    /// What a class was resolved to.
    pub fn from_class(class: &NodeClass) -> Self {
        let subnet = |subnet: &Subnet| {
            let Subnet { id, zone, zone_id, .. } = subnet.clone();
            ResolvedSubnet { id, zone, zone_id }
        };
        let image = |image: &Image| {
            let requirement = RequirementSpec {
                key: labels::ARCH.into(),
                operator: Operator::In,
                values: vec![image.arch.clone()],
                min_values: None,
            };
            ResolvedImage { id: image.id.clone(), requirements: vec![requirement] }
        };
        let groups = match &class.launch {
            LaunchTemplate::Own(template) => template.security_groups.as_slice(),
            LaunchTemplate::Borrowed { .. } | LaunchTemplate::None => &[],
        };
        Self {
            subnets: class.subnets.iter().map(subnet).collect(),
            security_groups: groups.iter().map(|id| ResolvedGroup { id: id.clone() }).collect(),
            amis: class.images.iter().map(image).collect(),
        }
    }
}

impl ConfiguredStatus {
    /// A condition by its name.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// What can be understood of a status.
    fn read(status: &Value) -> Self {
        fn part<T: serde::de::DeserializeOwned>(value: Option<&Value>) -> Option<T> {
            value.and_then(|value| serde_json::from_value(value.clone()).ok())
        }
        let conditions = status.get("conditions").and_then(Value::as_array);
        Self {
            conditions: conditions.into_iter().flatten().filter_map(|one| part(Some(one))).collect(),
            nodes: part(status.get("nodes")),
            resources: part(status.get("resources")),
            replicas: part(status.get("replicas")),
            resolved: part(Some(status)).unwrap_or_default(),
        }
    }
}

impl ConfiguredObject {
    /// Reads one object of a kind; `None` where it has no name.
    pub fn read(kind: ConfiguredKind, object: &Value) -> Option<Self> {
        let text = |pointer: &str| Some(invalid::text_at(object, pointer)).filter(|text| !text.is_empty());
        let class = object.pointer("/spec/template/spec/nodeClassRef");
        let fields = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let by_others = |entry: &Value| entry["subresource"] == "status" && entry["manager"] != FIELD_MANAGER;
        let managed = invalid::texts_at(object, "/metadata/annotations");
        Some(Self {
            reference: ConfiguredRef {
                kind,
                api_version: text("/apiVersion").unwrap_or_else(|| kind.version().into()),
                namespace: text("/metadata/namespace"),
                name: invalid::name_of(object)?,
                uid: text("/metadata/uid").unwrap_or_default(),
            },
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0),
            node_class: class.and_then(|class| serde_json::from_value(class.clone()).ok()),
            is_managed: managed.get(labels::MANAGED_ANNOTATION).is_some_and(|value| value == "true"),
            is_others: fields.into_iter().flatten().any(by_others),
            status: ConfiguredStatus::read(object.get("status").unwrap_or(&Value::Null)),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_read_whatever_stands_in_it() {
        let object = json!({
            "apiVersion": "karpenter.sh/v1",
            "metadata": {
                "name": "web", "uid": "u", "generation": 3, "annotations": {"outrigger.dev/managed": "true"},
                "managedFields": [
                    {"manager": "outrigger", "subresource": "status"}, {"manager": "kubectl"},
                    {"manager": "karpenter", "subresource": "status"},
                ],
            },
            "spec": {"weight": "heavy", "template": {"spec": {"nodeClassRef": {
                "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "own",
            }}}},
            "status": {
                "nodes": 2, "resources": {"cpu": "8", "nodes": "2"},
                "conditions": ["no condition", {
                    "type": "Ready", "status": "True", "reason": "Ready", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 2,
                }],
            },
        });
        let read = ConfiguredObject::read(ConfiguredKind::NodePool, &object).unwrap();
        assert_eq!(read.reference.to_string(), "NodePool/web");
        assert_eq!(read.node_class, Some(NodeClassRef::ec2("own")));
        assert_eq!((read.generation, read.is_managed, read.is_others), (3, true, true));
        assert_eq!((read.status.conditions.len(), read.status.nodes), (1, Some(2)));
        assert_eq!(read.status.condition("Ready").and_then(|ready| ready.observed_generation), Some(2));
    }

    #[test]
    fn a_status_of_our_own_is_nobody_elses() {
        let fields = json!([{"manager": "outrigger", "subresource": "status"}, {"manager": "kubectl"}]);
        let object =
            json!({"metadata": {"name": "x", "namespace": "default", "managedFields": fields}, "spec": 1});
        let read = ConfiguredObject::read(ConfiguredKind::CapacityBuffer, &object).unwrap();
        assert_eq!(read.reference.to_string(), "CapacityBuffer/default/x");
        assert!(!read.is_others && read.status == ConfiguredStatus::default());
    }
}
