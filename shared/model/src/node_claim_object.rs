//! `NodeClaim` of `karpenter.sh/v1`: a claim as the cluster's API shows it to people. The ledger's
//! record is the truth.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::resources::NODES;
use crate::schema_rules as rules;
use crate::{
    ClaimState, NillableDuration, NodeClaim, NodeClassRef, OwnerReference, Requirement, RequirementSpec,
    Resources, Taint, labels,
};

/// A `NodeClaim` object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimObject {
    /// `karpenter.sh/v1`.
    pub api_version: String,
    /// `NodeClaim`.
    pub kind: String,
    /// Name, labels and annotations.
    pub metadata: ObjectMetadata,
    /// What was decided.
    pub spec: NodeClaimObjectSpec,
    /// What has come of it.
    #[serde(default)]
    pub status: NodeClaimObjectStatus,
}

/// The part of an object's metadata that we write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMetadata {
    /// Name.
    pub name: String,
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Finalizers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    /// What it belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
}

/// What was decided about a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::claim()))]
pub struct NodeClaimObjectSpec {
    /// Which labels it must have.
    #[schemars(length(max = 100))]
    pub requirements: Vec<RequirementSpec>,
    /// What its pods asked for when the object was made; pods that are entered in the claim later
    /// are not in it.
    #[serde(default)]
    pub resources: ResourceRequests,
    /// The taints that it keeps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Taints that something on the node removes once it has started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub startup_taints: Vec<Taint>,
    /// How long it lives.
    #[serde(default = "NillableDuration::thirty_days")]
    pub expire_after: NillableDuration,
    /// How long its drain may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^([0-9]+(s|m|h))+$"))]
    pub termination_grace_period: Option<NillableDuration>,
    /// How its machine is made.
    pub node_class_ref: NodeClassRef,
}

/// What the pods of a node ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceRequests {
    /// By resource.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub requests: Resources,
}

/// What has come of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeClaimObjectStatus {
    /// The name of its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// `aws:///<zone>/<instance id>`.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// The image that it boots.
    #[serde(rename = "imageID", skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// What the machine has.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub capacity: Resources,
    /// What pods may use of it.
    #[serde(skip_serializing_if = "Resources::is_empty")]
    pub allocatable: Resources,
    /// Launched, Registered, Initialized, and Ready, which is all three.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// One thing that is true of an object or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    #[serde(rename = "type")]
    #[schemars(length(max = 316))]
    pub kind: String,
    /// Whether it is true.
    pub status: ConditionStatus,
    /// Why, in one word.
    #[serde(default)]
    #[schemars(length(max = 1024))]
    pub reason: String,
    /// Why, for people.
    #[serde(default)]
    #[schemars(length(max = 32_768))]
    pub message: String,
    /// Since when.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Timestamp,
    /// The generation of the object that was looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub observed_generation: Option<i64>,
}

/// Whether a condition is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It is.
    True,
    /// It is not, and will not become so by itself.
    False,
    /// Not yet, or nobody knows.
    Unknown,
}

/// The object that shows a claim, whatever that belongs to. It follows from the claim alone, so it
/// may be written again at any time; its spec counts only where it is made, since nobody can change
/// that.
pub fn mirror(claim: &NodeClaim) -> NodeClaimObject {
    NodeClaimObject {
        api_version: "karpenter.sh/v1".into(),
        kind: "NodeClaim".into(),
        metadata: ObjectMetadata {
            name: claim.name.clone(),
            labels: labels_of(claim),
            annotations: annotations_of(claim),
            finalizers: vec![labels::TERMINATION_FINALIZER.into()],
            owner_references: Vec::new(),
        },
        spec: spec_of(claim),
        status: status_of(claim),
    }
}

/// The claim's own, and until when its drain may take.
fn annotations_of(claim: &NodeClaim) -> BTreeMap<String, String> {
    let mut annotations = claim.spec.annotations.clone();
    if let Some(by) = claim.status.termination.as_ref().and_then(|termination| termination.by) {
        let by = Timestamp::from_second(by.as_second()).unwrap_or(by);
        annotations.insert(labels::TERMINATION_TIMESTAMP.into(), by.to_string());
    }
    annotations
}

/// The pool, every requirement that leaves one value, the claim's own labels, and what its instance
/// turned out to be.
fn labels_of(claim: &NodeClaim) -> BTreeMap<String, String> {
    let single =
        claim.spec.requirements.iter().filter_map(|(key, requirement)| Some((key, requirement.single()?)));
    let mut labels: BTreeMap<String, String> = single
        .filter(|(key, _)| *key != labels::HOSTNAME)
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .chain(claim.spec.labels.clone())
        .collect();
    if let Some(instance) = &claim.status.instance {
        labels.insert(labels::INSTANCE_TYPE.into(), instance.instance_type.clone());
        labels.insert(labels::ZONE.into(), instance.zone.clone());
        labels.insert(labels::CAPACITY_TYPE.into(), instance.capacity_type.to_string());
    }
    labels.insert(labels::NODE_POOL.into(), claim.spec.node_pool.clone());
    labels
}

fn spec_of(claim: &NodeClaim) -> NodeClaimObjectSpec {
    let mut requirements = claim.spec.requirements.clone();
    if !claim.instance_types.is_empty() {
        requirements.add(labels::INSTANCE_TYPE, Requirement::any_of(claim.instance_types.iter().cloned()));
    }
    NodeClaimObjectSpec {
        requirements: requirements.to_specs(),
        resources: ResourceRequests { requests: claim.status.requests.clone() },
        taints: claim.spec.taints.clone(),
        startup_taints: claim.spec.startup_taints.clone(),
        expire_after: claim.spec.expire_after,
        termination_grace_period: claim.spec.termination_grace_period,
        node_class_ref: class_of(claim),
    }
}

/// The claim's class, never in a group of Karpenter's: Karpenter takes each NodeClaim for its own
/// whose class is of its kinds, and deletes those whose instances it has not launched.
fn class_of(claim: &NodeClaim) -> NodeClassRef {
    let class = claim.spec.node_class.clone();
    if class.is_instance_group() { class } else { NodeClassRef { group: labels::OUR_GROUP.into(), ..class } }
}

fn status_of(claim: &NodeClaim) -> NodeClaimObjectStatus {
    let conditions = conditions_of(claim);
    let Some(instance) = &claim.status.instance else {
        return NodeClaimObjectStatus { conditions, ..NodeClaimObjectStatus::default() };
    };
    NodeClaimObjectStatus {
        node_name: claim.status.node_name.clone(),
        provider_id: Some(instance.provider_id()),
        image_id: Some(instance.image_id.clone()).filter(|image| !image.is_empty()),
        // What a claim holds of its pool's limits is what its machine has, and the node itself.
        capacity: claim.status.reserved.iter().filter(|(name, _)| *name != NODES).collect(),
        allocatable: claim.status.allocatable.clone(),
        conditions,
    }
}

/// Karpenter's conditions and reasons (`pkg/controllers/nodeclaim/lifecycle`, 1.14), in the order
/// of a node's life.
fn conditions_of(claim: &NodeClaim) -> Vec<Condition> {
    let error = claim.status.last_error.as_deref();
    let launched = match (claim.status.launched_at, claim.status.state) {
        (Some(at), _) => reached("Launched", at),
        (None, ClaimState::Failed) => {
            let message = error.unwrap_or("nothing was launched");
            condition("Launched", ConditionStatus::False, ("LaunchFailed", message), claim.created_at)
        }
        (None, _) if error.is_some() => {
            pending("Launched", ("LaunchFailed", error.unwrap_or_default()), claim)
        }
        (None, _) => {
            pending("Launched", ("AwaitingReconciliation", "its launch has not been answered yet"), claim)
        }
    };
    let several = &claim.status.node_check.duplicates;
    let registered = match claim.status.registered_at {
        _ if !several.is_empty() => {
            let message = format!("several nodes carry its providerID: {}", several.join(", "));
            let since = claim.status.registered_at.unwrap_or(claim.created_at);
            condition("Registered", ConditionStatus::False, ("MultipleNodesFound", &message), since)
        }
        Some(at) => reached("Registered", at),
        None => {
            let message = error.unwrap_or("its node has not joined the cluster");
            pending("Registered", ("NodeNotFound", message), claim)
        }
    };
    let initialized = match (claim.status.initialized_at, claim.status.registered_at) {
        (Some(at), _) => reached("Initialized", at),
        (None, Some(_)) => {
            pending("Initialized", ("NodeNotReady", error.unwrap_or("its node is not ready for pods")), claim)
        }
        (None, None) => {
            pending("Initialized", ("NodeNotFound", "its node has not joined the cluster"), claim)
        }
    };
    let steps = [launched, registered, initialized];
    let ready = ready(&steps, claim);
    steps.into_iter().chain([ready]).chain(consistency(claim)).chain(conditions_of_the_end(claim)).collect()
}

/// Whether the node has what was bought; nothing while that cannot be told.
fn consistency(claim: &NodeClaim) -> Option<Condition> {
    const KIND: &str = "ConsistentStateFound";
    let measured_at = claim.status.initialized_at.filter(|_| !claim.status.node_check.expected.is_empty())?;
    Some(claim.status.node_check.shortfall.as_ref().map_or_else(
        || reached(KIND, measured_at),
        |short| {
            condition(KIND, ConditionStatus::False, ("ConsistencyCheckFailed", &short.message), short.since)
        },
    ))
}

/// Why the claim ends and how far its end has come; nothing while it lives.
fn conditions_of_the_end(claim: &NodeClaim) -> Vec<Condition> {
    let Some(end) = &claim.status.termination else { return Vec::new() };
    let reason = end.reason.to_string();
    let mut conditions =
        vec![condition("DisruptionReason", ConditionStatus::True, (&reason, &end.message), end.since)];
    if claim.status.registered_at.is_some() {
        let error = claim.status.last_error.as_deref().unwrap_or("its pods are leaving");
        conditions.push(end.drained_at.map_or_else(
            || condition("Drained", ConditionStatus::Unknown, ("Draining", error), end.since),
            |at| reached("Drained", at),
        ));
        conditions.extend(end.detached_at.map(|at| reached("VolumesDetached", at)));
    }
    conditions.extend(end.terminating_at.map(|at| reached("InstanceTerminating", at)));
    conditions
}

fn ready(steps: &[Condition], claim: &NodeClaim) -> Condition {
    let Some(first) = steps.iter().find(|step| step.status != ConditionStatus::True) else {
        let last = steps.iter().map(|step| step.last_transition_time).max().unwrap_or(claim.created_at);
        return reached("Ready", last);
    };
    let message = format!("{} is {:?}: {}", first.kind, first.status, first.message);
    let reason = match first.status {
        ConditionStatus::False => "UnhealthyDependents",
        ConditionStatus::True | ConditionStatus::Unknown => "ReconcilingDependents",
    };
    condition("Ready", first.status, (reason, &message), claim.created_at)
}

/// A condition that has come true; as in Karpenter its reason is its name.
fn reached(kind: &str, at: Timestamp) -> Condition {
    condition(kind, ConditionStatus::True, (kind, ""), at)
}

/// A condition that has been waited for since the claim was made.
fn pending(kind: &str, why: (&str, &str), claim: &NodeClaim) -> Condition {
    condition(kind, ConditionStatus::Unknown, why, claim.created_at)
}

fn condition(
    kind: &str,
    status: ConditionStatus,
    (reason, message): (&str, &str),
    at: Timestamp,
) -> Condition {
    Condition {
        kind: kind.to_owned(),
        status,
        reason: reason.to_owned(),
        // Karpenter's limit for error texts in conditions.
        message: message.chars().take(300).collect(),
        // Kubernetes keeps whole seconds.
        last_transition_time: Timestamp::from_second(at.as_second()).unwrap_or(at),
        observed_generation: None,
    }
}

#[cfg(test)]
mod tests;
