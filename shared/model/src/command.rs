//! Commands of disruption: nodes that are to go of our own accord, once what their pods move to is
//! ready.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{ClaimState, NodeClaim, Price, TerminationReason};

/// What is to become of some claims together. It is in the ledger from the moment that it holds
/// them until their end begins, or it is given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Its id, which the claims that it holds carry.
    pub id: String,
    /// Raised by one with each write, which names the version that it has seen; 0 while it was
    /// never written.
    pub version: u64,
    /// Why its claims end.
    pub reason: TerminationReason,
    /// Why, for people: `EC2 expects to take its spot instance back`.
    pub message: String,
    /// When it was decided.
    pub since: Timestamp,
    /// The claims whose nodes are to go, by name; at most [`Command::MAX_CLAIMS`].
    pub claims: Vec<String>,
    /// Dollars per hour that nodes may cost which are launched for the pods of these nodes; `None`
    /// where they are replaced whatever that costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_cost: Option<Price>,
    /// The claims that the pods of these nodes wait for, by name; none where nodes that are ready
    /// have room for all of them, and `None` while some pod has no place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacements: Option<Vec<String>>,
    /// The uids of the pods of these nodes that have a place on nodes which are ready. The others
    /// are entered in the claims of `replacements`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<String>,
}

impl Command {
    /// DynamoDB takes 100 items in one transaction; the command, the lease and the revision of
    /// claims are three of them.
    pub const MAX_CLAIMS: usize = 97;

    /// A command that nobody has written yet.
    pub fn new(
        reason: TerminationReason,
        message: impl Into<String>,
        claims: Vec<String>,
        since: Timestamp,
    ) -> Self {
        let first = claims.first().map_or("", String::as_str);
        let id = format!("{first}-{}", since.as_millisecond());
        let message = message.into();
        Self {
            id,
            version: 0,
            reason,
            message,
            since,
            claims,
            may_cost: None,
            replacements: None,
            placed: Vec::new(),
        }
    }

    /// Whether it is this command that a claim waits for. A claim whose end has begun waits for
    /// none.
    pub fn holds(&self, claim: &NodeClaim) -> bool {
        claim.status.state == ClaimState::Initialized && claim.status.command.as_ref() == Some(&self.id)
    }
}
