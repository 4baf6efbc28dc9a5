//! Claims.

use async_trait::async_trait;
use outrigger_model::NodeClaim;

use super::{Lease, LedgerError};

/// Claims, which `provision` and `lifecycle` alone write. `lifecycle` adopts them and puts them
/// away.
#[async_trait]
pub trait Claims: Send + Sync {
    /// Writes a claim down whose instance runs already, and raises the generation, so that no plan
    /// is accepted that does not know it. With a lease, only while that is ours.
    ///
    /// Errors with [`LedgerError::Conflict`] when there is a claim of that name, and with
    /// [`LedgerError::LeaseLost`] when the lease has gone.
    async fn adopt(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<(), LedgerError>;

    /// One claim, over or not, as interruptions have it, but without what commands hold; `None`
    /// where there is none, or it has been cleared up.
    async fn claim(&self, name: &str) -> Result<Option<NodeClaim>, LedgerError>;

    /// Writes a claim that was read at `claim.version`; returns it with its new version. With a
    /// lease, only while that is ours.
    ///
    /// Errors with [`LedgerError::Conflict`] when somebody else wrote it meanwhile, and with
    /// [`LedgerError::LeaseLost`] when the lease has gone.
    async fn update_claim(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<NodeClaim, LedgerError>;

    /// Puts claims that are over where [`Ledger::load`](super::Ledger::load) need not pass over
    /// them, and says how many. They are found by their names as before. `lifecycle` may do it at
    /// any time, and again.
    async fn put_away(&self) -> Result<usize, LedgerError>;
}
