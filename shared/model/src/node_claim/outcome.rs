//! What a claim becomes when its launch is answered.

use jiff::Timestamp;

use crate::{ClaimState, Instance, NodeClaim, Resources};

/// What became of a claim when its launch was answered.
#[derive(Clone, Debug, PartialEq)]
pub enum ClaimOutcome {
    /// It has an instance.
    Launched {
        /// The claim.
        claim: String,
        /// The instance.
        instance: Instance,
        /// What the instance's type takes of its pool's limits, and what it offers to pods.
        shape: Option<(Resources, Resources)>,
    },
    /// It has none.
    Failed {
        /// The claim.
        claim: String,
        /// Why.
        why: String,
    },
}

impl ClaimOutcome {
    /// The name of the claim that it is about.
    pub fn claim(&self) -> &str {
        match self {
            Self::Launched { claim, .. } | Self::Failed { claim, .. } => claim,
        }
    }
}

impl NodeClaim {
    /// The claim in its next version, once its launch was answered at that time.
    #[must_use]
    pub fn answered(&self, outcome: &ClaimOutcome, at: Timestamp) -> Self {
        self.in_next_version().with_status(|status| match outcome {
            ClaimOutcome::Launched { instance, shape, .. } => {
                status.state = ClaimState::Launched;
                status.instance = Some(instance.clone());
                status.launched_at = Some(at);
                if let Some((reserved, allocatable)) = shape {
                    status.reserved = reserved.clone();
                    status.allocatable = allocatable.clone();
                }
            }
            ClaimOutcome::Failed { why, .. } => {
                status.state = ClaimState::Failed;
                status.last_error = Some(why.clone());
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, claim, instance};

    fn intended() -> NodeClaim {
        claim().with_status(|status| {
            status.state = ClaimState::Intent;
            status.instance = None;
        })
    }

    #[test]
    fn a_claim_that_got_an_instance_offers_what_the_instance_does() {
        let shape = Some((Resources::new(), Resources::new()));
        let outcome = ClaimOutcome::Launched { claim: claim().name, instance: instance("i-1"), shape };
        let launched = intended().answered(&outcome, at(7));
        assert_eq!(outcome.claim(), launched.name);
        assert_eq!(launched.version, intended().version + 1);
        assert_eq!(launched.status.state, ClaimState::Launched);
        assert_eq!(launched.instance_id(), Some("i-1"));
        assert_eq!(launched.status.launched_at, Some(at(7)));
        assert_eq!(launched.status.allocatable, Resources::new());
    }

    #[test]
    fn a_claim_that_got_none_says_why() {
        let outcome = ClaimOutcome::Failed { claim: claim().name, why: "no capacity".into() };
        let failed = intended().answered(&outcome, at(7));
        assert_eq!(failed.status.state, ClaimState::Failed);
        assert_eq!(failed.status.last_error.as_deref(), Some("no capacity"));
        assert_eq!(failed.status.launched_at, intended().status.launched_at);
    }
}
