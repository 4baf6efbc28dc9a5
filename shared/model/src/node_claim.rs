//! NodeClaims: the ledger's record of a node from the decision to launch it until it is gone.

mod ending;
mod outcome;
pub(crate) mod spec;
pub(crate) mod state;
pub(crate) mod status;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use ending::TerminationCause;
pub use outcome::ClaimOutcome;

use crate::{ClaimState, NodeClaimSpec, NodeClaimStatus, PlannedNode, Requirement};

/// A node that was decided on. Written as JSON, spec and status are not set apart from the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// Its name, unique in the cluster: `<pool>-<suffix>`.
    pub name: String,
    /// Raised by one with each write; a write names the version that it has seen.
    pub version: u64,
    /// The launch that it belongs to.
    pub intent: String,
    /// When it was decided on.
    pub created_at: Timestamp,
    /// The instance types that all of its pods fit, cheapest first.
    pub instance_types: Vec<String>,
    /// What was decided. A label with one possible value is a label of the node.
    #[serde(flatten)]
    pub spec: NodeClaimSpec,
    /// What has come of it.
    #[serde(flatten)]
    pub status: NodeClaimStatus,
}

impl NodeClaim {
    /// The claim of a planned node, as it is written down before its launch. Each label of which
    /// one value is possible is a label of the node.
    pub fn planned(node: &PlannedNode, intent: &str, at: Timestamp) -> Self {
        let mut spec = node.spec.clone();
        let single = |(key, requirement): (&str, &Requirement)| {
            Some((key.to_owned(), requirement.single()?.to_owned()))
        };
        spec.labels.extend(spec.requirements.iter().filter_map(single));
        Self {
            name: node.claim.clone(),
            version: 0,
            intent: intent.into(),
            created_at: at,
            instance_types: node.instance_types.iter().map(|kind| kind.name.clone()).collect(),
            spec,
            status: NodeClaimStatus {
                state: ClaimState::Intent,
                nominated: node.pods.clone(),
                requests: node.requests.clone(),
                reserved: node.reserved.clone(),
                allocatable: node.allocatable.clone(),
                ..NodeClaimStatus::default()
            },
        }
    }

    /// The claim as its next write leaves it.
    #[must_use]
    pub fn in_next_version(&self) -> Self {
        Self { version: self.version.saturating_add(1), ..self.clone() }
    }

    /// The claim with another status; nothing else of it ever changes.
    #[must_use]
    pub fn with_status(mut self, change: impl FnOnce(&mut NodeClaimStatus)) -> Self {
        change(&mut self.status);
        self
    }

    /// The instance id, once launched.
    pub fn instance_id(&self) -> Option<&str> {
        self.status.instance.as_ref().map(|instance| instance.id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::NodeClassRef;

    #[test]
    fn the_ledger_knows_no_spec_and_status_and_reads_past_what_earlier_versions_wrote_of_openings() {
        let written = json!({
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
            "taints": [],
            "startupTaints": [],
            "expireAfter": "Never",
            "terminationGracePeriod": null,
            "requests": {},
            "reserved": {},
            "allocatable": {},
            "nominated": [],
            "createdAt": "2026-11-21T10:00:00Z",
        });
        let mut earlier = written.clone();
        earlier["handover"] = json!({"crowded": ["uid-1"], "softTaints": 2, "turn": 3});
        let claim: NodeClaim = serde_json::from_value(earlier).unwrap();
        assert_eq!((claim.version, claim.status.state), (3, ClaimState::Launched));
        assert_eq!(serde_json::to_value(claim).unwrap(), written);
    }
}
