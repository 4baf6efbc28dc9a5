//! What `disrupt` remembers.

use async_trait::async_trait;
use outrigger_model::{DemandHistory, DisruptionMemory};

use super::{Lease, LedgerError};

/// What `disrupt` alone writes, in a partition of its own. `provision` reads it.
#[async_trait]
pub trait DisruptMemory: Send + Sync {
    /// What the function `disrupt` remembers; nothing before its first run.
    async fn disruption_memory(&self) -> Result<DisruptionMemory, LedgerError>;

    /// Keeps what the function `disrupt` remembers, while its lease is ours. Errors with
    /// [`LedgerError::LeaseLost`] when it has gone.
    async fn put_disruption_memory(
        &self,
        memory: &DisruptionMemory,
        lease: &Lease,
    ) -> Result<(), LedgerError>;

    /// What pods have asked for in the week before; nothing where nobody has looked yet.
    async fn demand_history(&self) -> Result<DemandHistory, LedgerError>;

    /// Keeps what pods have asked for, while the lease of the function `disrupt` is ours. Where
    /// that is too much to be kept, the pools that ask for most are. Errors with
    /// [`LedgerError::LeaseLost`] when the lease has gone.
    async fn put_demand_history(&self, history: &DemandHistory, lease: &Lease) -> Result<(), LedgerError>;
}
