//! What has come of a claim: all of it that changes after its launch was decided on.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ClaimState, Instance, NodeCheck, NominatedPod, Resources, Termination};

/// What has come of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaimStatus {
    /// Where it stands.
    pub state: ClaimState,
    /// The pods that it was planned for, and those that were entered in it later.
    pub nominated: Vec<NominatedPod>,
    /// What these and its daemonsets ask for.
    pub requests: Resources,
    /// What it holds of its pool's limits: the largest type that it may become, then the type that
    /// it is.
    pub reserved: Resources,
    /// What its node will offer to pods, as planned: the smallest type it may become, then the type
    /// that it is.
    pub allocatable: Resources,
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
    /// The annotation `karpenter.sh/do-not-disrupt` that somebody gave its NodeClaim object. What
    /// its pool gave it, its node has as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub do_not_disrupt: Option<String>,
    /// Whether its NodeClaim object went with the definition while its node was starting. What is
    /// made in its place never belongs to a NodePool that is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub had_object: bool,
    /// The command of disruption that holds it. No other may hold it meanwhile, and its end lets it
    /// go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its end, once that is decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination: Option<Termination>,
    /// The last thing that went wrong with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}
