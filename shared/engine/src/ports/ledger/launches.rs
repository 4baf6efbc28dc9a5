//! Launches: written down before they are sent, closed when they were answered.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_model::{ClaimOutcome, Intent, NodeClaim};

use super::{Lease, LedgerError};

/// Launches, which `provision` alone writes, together with the claims that they begin.
#[async_trait]
pub trait Launches: Send + Sync {
    /// Writes a launch down: its intent (PREPARED) and its claims, as one. Returns the new
    /// generation.
    ///
    /// Errors with [`LedgerError::Conflict`] when the generation has moved on, and with
    /// [`LedgerError::LeaseLost`] when the lease has.
    async fn prepare(&self, lease: &Lease, launch: &PreparedLaunch) -> Result<u64, LedgerError>;

    /// PREPARED -> SENT, just before the request goes out. Errors with [`LedgerError::LeaseLost`]
    /// when the lease has gone.
    async fn mark_sent(&self, lease: &Lease, intent: &str, at: Timestamp) -> Result<(), LedgerError>;

    /// SENT -> RESOLVED together with what became of each claim. Doing it twice is fine.
    async fn resolve(
        &self,
        intent: &str,
        outcomes: &[ClaimOutcome],
        at: Timestamp,
    ) -> Result<(), LedgerError>;

    /// PREPARED or SENT -> ABANDONED; its claims become Failed.
    async fn abandon(&self, intent: &str, why: &str, at: Timestamp) -> Result<(), LedgerError>;

    /// One intent, over or not; `None` where there is none, or it has been cleared up.
    async fn intent(&self, id: &str) -> Result<Option<Intent>, LedgerError>;
}

/// A launch about to be written down.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedLaunch {
    /// The generation that the plan was made from.
    pub generation: u64,
    /// The intent.
    pub intent: Intent,
    /// Its claims, at most [`PreparedLaunch::MAX_CLAIMS`].
    pub claims: Vec<NodeClaim>,
}

impl PreparedLaunch {
    /// DynamoDB takes 100 items in one transaction; the intent, the generation and the lease are
    /// three of them.
    pub const MAX_CLAIMS: usize = 97;
    /// How large its claims may be together, as JSON. DynamoDB takes 4 MB in one transaction, and a
    /// claim grows by the instance that it gets and by pods that find room on it.
    pub const MAX_CLAIM_BYTES: usize = 2_500_000;
}
