//! NodeClaims: the ledger's record of a node from the decision to launch it until it is gone.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    CapacityType, NillableDuration, NodeCheck, NodeClassRef, PlannedNode, PodRef, Price, Requirement,
    Requirements, Resources, Taint, Termination,
};

/// Where a claim stands. States only move forward (reference: reliability 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ClaimState {
    /// Written down, not launched yet as far as anybody knows.
    Intent,
    /// Its instance exists.
    Launched,
    /// Its node has joined and carries our labels and taints.
    Registered,
    /// Its node is ready for pods.
    Initialized,
    /// Its pods are leaving.
    Draining,
    /// Its instance is being terminated.
    Terminating,
    /// Its instance is gone.
    Gone,
    /// Nothing was launched for it.
    Failed,
}

impl ClaimState {
    /// Whether the claim is over.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Gone | Self::Failed)
    }

    /// Whether a claim that stands here may come to stand there next. Staying is no step.
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Intent, Self::Launched | Self::Failed)
                | (Self::Launched, Self::Registered | Self::Terminating)
                | (Self::Registered, Self::Initialized | Self::Draining | Self::Terminating)
                | (Self::Initialized, Self::Draining | Self::Terminating)
                | (Self::Draining, Self::Terminating)
                | (Self::Terminating, Self::Gone)
        )
    }

    /// Whether pods may still be planned onto its node.
    pub const fn accepts_pods(self) -> bool {
        matches!(self, Self::Intent | Self::Launched | Self::Registered | Self::Initialized)
    }
}

/// A node that was decided on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// Its name, unique in the cluster: `<pool>-<suffix>`.
    pub name: String,
    /// Where it stands.
    pub state: ClaimState,
    /// Raised by one with each write; a write names the version that it has seen.
    pub version: u64,
    /// The launch that it belongs to.
    pub intent: String,
    /// Its pool.
    pub node_pool: String,
    /// How its machine is made.
    pub node_class: NodeClassRef,
    /// What its node is like; a label with one possible value becomes a label of the node.
    pub requirements: Requirements,
    /// The instance types that all of its pods fit, cheapest first.
    pub instance_types: Vec<String>,
    /// Labels that its node gets.
    pub labels: BTreeMap<String, String>,
    /// Annotations that its node gets.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Taints that its node keeps.
    #[serde(default)]
    pub taints: Vec<Taint>,
    /// Taints that something on the node removes.
    #[serde(default)]
    pub startup_taints: Vec<Taint>,
    /// How long its node lives.
    pub expire_after: NillableDuration,
    /// How long its drain may take.
    #[serde(default)]
    pub termination_grace_period: Option<NillableDuration>,
    /// What its pods and its daemonsets ask for.
    pub requests: Resources,
    /// What it holds of its pool's limits: the largest type that it may become, then the type that it is.
    pub reserved: Resources,
    /// What its node will offer to pods, as planned: the smallest type it may become, then the type that it is.
    pub allocatable: Resources,
    /// The pods that it was planned for.
    pub nominated: Vec<NominatedPod>,
    /// When it was decided on.
    pub created_at: Timestamp,
    /// Its instance, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<Instance>,
    /// The name of its node, once it has joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// When its instance was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launched_at: Option<Timestamp>,
    /// When its node was registered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registered_at: Option<Timestamp>,
    /// When its node was initialised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initialized_at: Option<Timestamp>,
    /// How its node differs from what was bought.
    #[serde(default, skip_serializing_if = "NodeCheck::is_empty")]
    pub node_check: NodeCheck,
    /// The command of disruption that holds it. No other may hold it meanwhile, and its end lets it go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its end, once that is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination: Option<Termination>,
    /// The last thing that went wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

impl NodeClaim {
    /// The claim of a planned node, as it is written down before its launch. Each label of which one value is possible is
    /// a label of the node.
    pub fn planned(node: &PlannedNode, intent: &str, at: Timestamp) -> Self {
        let mut node_labels = node.labels.clone();
        let single = |(key, requirement): (&str, &Requirement)| {
            Some((key.to_owned(), requirement.single()?.to_owned()))
        };
        node_labels.extend(node.requirements.iter().filter_map(single));
        Self {
            name: node.claim.clone(),
            state: ClaimState::Intent,
            version: 0,
            intent: intent.into(),
            node_pool: node.node_pool.clone(),
            node_class: node.node_class.clone(),
            requirements: node.requirements.clone(),
            instance_types: node.instance_types.iter().map(|kind| kind.name.clone()).collect(),
            labels: node_labels,
            annotations: node.annotations.clone(),
            taints: node.taints.clone(),
            startup_taints: node.startup_taints.clone(),
            expire_after: node.expire_after,
            termination_grace_period: node.termination_grace_period,
            requests: node.requests.clone(),
            reserved: node.reserved.clone(),
            allocatable: node.allocatable.clone(),
            nominated: node.pods.clone(),
            created_at: at,
            instance: None,
            node_name: None,
            launched_at: None,
            registered_at: None,
            initialized_at: None,
            node_check: NodeCheck::default(),
            command: None,
            termination: None,
            last_error: None,
        }
    }

    /// The instance id, once launched.
    pub fn instance_id(&self) -> Option<&str> {
        self.instance.as_ref().map(|instance| instance.id.as_str())
    }
}

/// A pod that a claim was planned for; the uid tells it from a later pod of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NominatedPod {
    /// Namespace and name.
    pub pod: PodRef,
    /// Its uid.
    pub uid: String,
}

/// An instance that EC2 runs for us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Instance {
    /// `i-…`.
    pub id: String,
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// How it is paid for.
    pub capacity_type: CapacityType,
    /// Its image, where known.
    #[serde(default)]
    pub image_id: String,
    /// What it costs per hour, as far as the catalogue knew at launch.
    #[serde(default)]
    pub price: Price,
}

impl Instance {
    /// As the node's `spec.providerID` names it.
    pub fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone, self.id)
    }
}

/// A launch that is written down before it is sent, so that a crash at any point can be told apart and mended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// Its id, which every instance of it carries in the tag `outrigger.dev/intent`.
    pub id: String,
    /// Where it stands.
    pub state: IntentState,
    /// The exact request; sending it again means sending these very bytes.
    pub request: FleetRequest,
    /// The claims that it is for, in order.
    pub claims: Vec<String>,
    /// When it was written.
    pub prepared_at: Timestamp,
    /// When it was first sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_at: Option<Timestamp>,
    /// When it ended; for people, and for clearing up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// Where a launch stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IntentState {
    /// Written, not sent.
    Prepared,
    /// Being sent: EC2 may or may not have acted.
    Sent,
    /// Answered, and every claim accounts for its instance or for the lack of one.
    Resolved,
    /// Given up: an instance that still turns up under it is an orphan.
    Abandoned,
}

/// A request to EC2 Fleet (type instant) in our words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetRequest {
    /// The client token, new for every intent.
    pub token: String,
    /// Name of the launch template.
    pub launch_template: String,
    /// Its version, always a number.
    pub launch_template_version: String,
    /// How the instances are paid for.
    pub capacity_type: CapacityType,
    /// How many instances, one for each claim.
    pub count: u32,
    /// What they may be, cheapest first.
    pub overrides: Vec<FleetOverride>,
    /// Tags of instances, volumes and the rest.
    pub tags: BTreeMap<String, String>,
}

/// One thing that a fleet's instances may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FleetOverride {
    /// Instance type.
    pub instance_type: String,
    /// Zone of the subnet.
    pub zone: String,
    /// Subnet.
    pub subnet: String,
    /// Image.
    pub image: String,
    /// What the catalogue says it costs per hour.
    pub price: Price,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_earlier_versions_wrote_of_openings_is_read_past() {
        let claim = json!({
            "name": "default-7f4xk",
            "state": "Launched",
            "version": 3,
            "intent": "intent-1",
            "nodePool": "default",
            "nodeClass": NodeClassRef::instance_group("nodes"),
            "requirements": [],
            "instanceTypes": ["m7g.large"],
            "labels": {},
            "annotations": {},
            "expireAfter": "Never",
            "requests": {},
            "reserved": {},
            "allocatable": {},
            "nominated": [],
            "handover": {"crowded": ["uid-1"], "softTaints": 2, "turn": 3},
            "createdAt": "2026-11-21T10:00:00Z",
        });
        let claim: NodeClaim = serde_json::from_value(claim).unwrap();
        assert_eq!((claim.version, claim.state), (3, ClaimState::Launched));
    }
}
