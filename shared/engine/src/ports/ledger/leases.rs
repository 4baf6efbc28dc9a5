//! Who does a function's work.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use super::LedgerError;

/// Leases of functions. Each function writes its own: `disrupt` in its partition, `provision` and
/// `lifecycle` in that of the claims.
#[async_trait]
pub trait Leases: Send + Sync {
    /// Takes the lease of a function for `ttl`; `None` when somebody else holds it.
    async fn acquire(
        &self,
        function: &str,
        owner: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lease>, LedgerError>;

    /// Keeps a lease for another `ttl`. Errors with [`LedgerError::LeaseLost`] when it was taken.
    async fn renew(&self, lease: &Lease, now: Timestamp, ttl: Duration) -> Result<(), LedgerError>;

    /// Gives a lease back; fine when it was lost already.
    async fn release(&self, lease: &Lease) -> Result<(), LedgerError>;
}

/// A lease on being the one that does a function's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The function.
    pub function: String,
    /// Who holds it.
    pub owner: String,
    /// Raised by one each time that it changes hands.
    pub epoch: u64,
}
