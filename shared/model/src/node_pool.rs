//! `NodePool` of `karpenter.sh/v1`: what a user asks of the nodes that may be launched.

pub mod disruption_wishes;
pub mod schedule;
pub(crate) mod validate;
pub mod window;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::duration::NillableDuration;
use crate::invalid::{self, Invalid};
use crate::schema_rules as rules;
use crate::{
    CapacityType, InterruptionFrequency, Offering, Price, Requirement, RequirementSpec, Requirements,
    Resources, Taint, labels,
};
use schemars::JsonSchema;

/// A NodePool that has passed validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePool {
    /// Its name.
    pub name: String,
    /// Its uid; empty when it came from a file.
    #[serde(default)]
    pub uid: String,
    /// Its annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Whether it is being deleted; then it launches nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// Why its Ready condition is false, as a file says; then it launches nothing. None where
    /// nothing is said, and in a cluster, where that condition is written by us.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_ready: Option<String>,
    /// What it asks for.
    pub spec: NodePoolSpec,
}

/// The spec of a NodePool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::pool()))]
pub struct NodePoolSpec {
    /// What each of its nodes is like.
    pub template: NodeClaimTemplate,
    /// How its nodes may be disrupted.
    #[serde(default)]
    pub disruption: Disruption,
    /// How much it may hold at most, by resource; `nodes` counts nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Resources>,
    /// Pools of higher weight are tried first; absent counts as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub weight: Option<u32>,
    /// A fixed number of nodes, whatever the pods ask for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<u32>,
}

/// The template of a pool's nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct NodeClaimTemplate {
    /// Labels and annotations of its nodes.
    #[serde(default)]
    pub metadata: TemplateMetadata,
    /// Everything else about them.
    pub spec: NodeClaimTemplateSpec,
}

/// Labels and annotations that every node of a pool gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct TemplateMetadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("additionalProperties" = rules::label_value(), "maxProperties" = 100,
        "x-kubernetes-map-type" = "atomic", "x-kubernetes-validations" = rules::labels()))]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// What the nodes of a pool are like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct NodeClaimTemplateSpec {
    /// Which labels they must have.
    #[schemars(length(max = 100), extend("x-kubernetes-validations" = rules::requirements()))]
    pub requirements: Vec<RequirementSpec>,
    /// The taints that they keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that something on the node removes once it has started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// How long a node lives.
    #[serde(default = "NillableDuration::thirty_days")]
    pub expire_after: NillableDuration,
    /// How long a drain may take before what is left is deleted; unbounded when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    pub termination_grace_period: Option<NillableDuration>,
    /// How its machines are made.
    #[schemars(extend("x-kubernetes-validations" = rules::node_class_ref()))]
    pub node_class_ref: NodeClassRef,
}

/// The object that says how machines are made: a kOps InstanceGroup or an EC2NodeClass.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct NodeClassRef {
    /// `kops.k8s.io` or `karpenter.k8s.aws`.
    #[schemars(length(min = 1), regex(pattern = r"^[^/]*$"))]
    pub group: String,
    /// `InstanceGroup` or `EC2NodeClass`.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

impl NodeClassRef {
    /// The label by which nodes name a class of this kind, after Karpenter: group, slash, kind in
    /// lower case.
    pub fn label(&self) -> String {
        format!("{}/{}", self.group, self.kind.to_lowercase())
    }

    /// A kOps InstanceGroup.
    pub fn instance_group(name: impl Into<String>) -> Self {
        Self { group: labels::KOPS_GROUP.into(), kind: "InstanceGroup".into(), name: name.into() }
    }

    /// An EC2NodeClass.
    pub fn ec2(name: impl Into<String>) -> Self {
        Self { group: labels::EC2_GROUP.into(), kind: "EC2NodeClass".into(), name: name.into() }
    }

    /// Whether kOps describes the machines.
    pub fn is_instance_group(&self) -> bool {
        self.group == labels::KOPS_GROUP && self.kind == "InstanceGroup"
    }
}

impl std::fmt::Display for NodeClassRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// How the nodes of a pool may be disrupted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(inline)]
pub struct Disruption {
    /// How long after the last change of its pods a node may be consolidated.
    pub consolidate_after: NillableDuration,
    /// Which nodes may be consolidated.
    pub consolidation_policy: ConsolidationPolicy,
    /// How many nodes may be disrupted at once.
    #[schemars(length(max = 50))]
    pub budgets: Vec<Budget>,
}

impl Default for Disruption {
    fn default() -> Self {
        Self {
            consolidate_after: NillableDuration::zero(),
            consolidation_policy: ConsolidationPolicy::default(),
            budgets: vec![Budget { nodes: "10%".into(), schedule: None, duration: None, reasons: None }],
        }
    }
}

/// Which nodes may be consolidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ConsolidationPolicy {
    /// Only empty ones.
    WhenEmpty,
    /// Empty ones, and those whose pods fit elsewhere for less.
    #[default]
    WhenEmptyOrUnderutilized,
    /// Those whose saving is worth the disruption.
    Balanced,
    /// None, whatever that would save; drift and expiry replace nodes all the same. This one is not
    /// Karpenter's.
    Never,
}

/// How many nodes may be disrupted at once, perhaps only at some times or for some reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline, extend("x-kubernetes-validations" = rules::budget()))]
pub struct Budget {
    /// A number of nodes or a percentage of the pool's.
    #[serde(default = "ten_percent")]
    #[schemars(regex(pattern = r"^((100|[0-9]{1,2})%|[0-9]+)$"))]
    pub nodes: String,
    /// When it begins to hold: five cron fields in UTC, or `@daily` and its like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// How long it holds from then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$"))]
    pub duration: Option<String>,
    /// For which reasons; for all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 50), extend("x-kubernetes-list-type" = "set"))]
    pub reasons: Option<Vec<DisruptionReason>>,
}

fn ten_percent() -> String {
    "10%".into()
}

/// Why a node may be disrupted by choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum DisruptionReason {
    /// Its pods fit elsewhere for less.
    Underutilized,
    /// It has no pods that need it.
    Empty,
    /// It is no longer what its pool asks for.
    Drifted,
}

impl DisruptionReason {
    /// Its name, as budgets have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Underutilized => "Underutilized",
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
        }
    }
}

impl NodePool {
    /// How many processors headroom has at most.
    pub const MOST_HEADROOM: u32 = 1_000;
    /// How many dollars an interruption counts at most.
    pub const MOST_INTERRUPTION_PRICE: f64 = 10_000.0;

    /// Reads and checks one NodePool object; every complaint is returned, not only the first.
    pub fn read(object: &Value) -> Result<Self, Vec<Invalid>> {
        let name = invalid::name_of(object).unwrap_or_default();
        let label = format!("NodePool/{name}");
        if let Some(problem) = invalid::wrong_version(&label, object, "karpenter.sh/v1") {
            return Err(vec![problem]);
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let (spec, mut problems) = invalid::read_noting(&label, "spec", spec)?;
        let pool = Self {
            spec,
            uid: invalid::text_at(object, "/metadata/uid"),
            annotations: invalid::texts_at(object, "/metadata/annotations"),
            deleting: object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null()),
            not_ready: not_ready(object),
            name,
        };
        problems.extend(validate::problems(&pool));
        if problems.is_empty() { Ok(pool) } else { Err(problems) }
    }

    /// The order in which pools are tried: weight from high to low, then name from the end of the
    /// alphabet to its beginning (Karpenter's `OrderByWeight`).
    pub fn precedence(&self) -> (std::cmp::Reverse<u32>, std::cmp::Reverse<&str>) {
        (std::cmp::Reverse(self.spec.weight.unwrap_or(0)), std::cmp::Reverse(&self.name))
    }

    /// How much a plan that rests on few large nodes counts as dearer (annotation
    /// `outrigger.dev/risk-weight`); 0, which is price alone, when absent.
    pub fn risk_weight(&self) -> f64 {
        let weight = self.annotations.get(labels::RISK_WEIGHT).and_then(|text| text.parse().ok());
        weight.filter(|weight: &f64| weight.is_finite() && *weight >= 0.0).unwrap_or(0.0)
    }

    /// How many nodes it may get within a minute (annotation
    /// `outrigger.dev/max-new-nodes-per-minute`); only the cluster's cap counts when absent.
    pub fn max_new_nodes_per_minute(&self) -> Option<usize> {
        self.annotations.get(labels::MAX_NEW_NODES_PER_MINUTE)?.parse().ok()
    }

    /// How many processors a node of it is bought larger at most for pods that may come next
    /// (annotation `outrigger.dev/headroom`); as for all pools when absent.
    pub fn headroom(&self) -> Option<u32> {
        self.annotations.get(labels::HEADROOM)?.parse().ok().filter(|cpus| *cpus <= Self::MOST_HEADROOM)
    }

    /// How many dollars an interruption of one of its spot nodes counts (annotation
    /// `outrigger.dev/interruption-price`), at most [`Self::MOST_INTERRUPTION_PRICE`]; `None` when
    /// absent.
    pub fn interruption_price(&self) -> Option<Price> {
        let dollars = self.annotations.get(labels::INTERRUPTION_PRICE)?.parse::<f64>().ok()?;
        Price::from_dollars(dollars).filter(|_| dollars <= Self::MOST_INTERRUPTION_PRICE)
    }

    /// What an offering counts per hour beside its price: the interruptions that are expected, of a
    /// spot instance.
    pub fn interruption_cost(&self, offering: &Offering) -> Price {
        let each = self.interruption_price().filter(|_| offering.capacity_type == CapacityType::Spot);
        let frequency = offering.interruption.unwrap_or(InterruptionFrequency::UNKNOWN);
        each.map_or(Price::ZERO, |each| frequency.cost_per_hour(each))
    }

    /// What is true of each of its nodes: its requirements, its labels and its own name.
    pub fn requirements(&self) -> Requirements {
        let mut requirements: Requirements = self.spec.template.spec.requirements.iter().collect();
        requirements.add_all(&Requirements::from_labels(&self.spec.template.metadata.labels));
        requirements.add(labels::NODE_POOL, Requirement::exactly(&self.name));
        requirements
    }

    /// A pool of which no more is known than its name and how its machines are made. Its nodes do
    /// not expire.
    pub fn bare(name: impl Into<String>, node_class_ref: NodeClassRef) -> Self {
        let spec = NodeClaimTemplateSpec {
            requirements: Vec::new(),
            taints: Vec::new(),
            startup_taints: Vec::new(),
            expire_after: NillableDuration::NEVER,
            termination_grace_period: None,
            node_class_ref,
        };
        let template = NodeClaimTemplate { metadata: TemplateMetadata::default(), spec };
        let disruption = Disruption::default();
        let spec = NodePoolSpec { template, disruption, limits: None, weight: None, replicas: None };
        Self {
            name: name.into(),
            uid: String::new(),
            annotations: BTreeMap::new(),
            deleting: false,
            not_ready: None,
            spec,
        }
    }

    /// Whether it is ours though a live Karpenter takes pools of its class for its own (annotation
    /// `outrigger.dev/managed`).
    pub fn is_managed(&self) -> bool {
        self.annotations.get(labels::MANAGED_ANNOTATION).is_some_and(|value| value == "true")
    }

    /// How its machines are made.
    pub const fn node_class(&self) -> &NodeClassRef {
        &self.spec.template.spec.node_class_ref
    }
}

/// What the Ready condition of an object says while it is false. One that was seen on an earlier
/// generation of the spec says nothing of this one, as Karpenter has it.
fn not_ready(object: &Value) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready")?;
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
    let seen = ready["observedGeneration"].as_i64();
    let is_old = seen.zip(generation).is_some_and(|(seen, generation)| seen < generation);
    if ready["status"] != "False" || is_old {
        return None;
    }
    let texts = ["message", "reason"].into_iter().filter_map(|field| ready[field].as_str());
    let why = texts.into_iter().find(|text| !text.is_empty());
    Some(why.unwrap_or("its status does not say why").to_owned())
}
