//! The ledger: leases, intents, claims, commands, sweeps, unavailable offerings, the pause and
//! reports of one cluster.
//!
//! Expected flow: [`Ledger::load`] reads the generation before anything else; a plan made from that
//! state is accepted by [`Launches::prepare`] only while the generation is unchanged and the
//! lease's epoch is current, and raises it by one. Two functions that planned from the same state
//! can therefore never both launch, whatever their leases say.
//!
//! Who writes what is bounded by rights (`dynamodb:LeadingKeys` in template.yaml), and each group
//! of methods says who may call those that write. `provision` and `lifecycle` alone write claims;
//! `interrupt` and `disrupt` state what they want of them as [`Interruption`] and
//! [`Command`](outrigger_model::Command).

mod claims;
mod commands;
mod disrupt_memory;
mod error;
mod interruptions;
mod launch_memory;
mod launches;
mod leases;
mod lifecycle_memory;
mod operator_pause;
mod reports;
mod state;
mod statements;

use std::collections::BTreeSet;

use async_trait::async_trait;

pub use claims::Claims;
pub use commands::Commands;
pub use disrupt_memory::DisruptMemory;
pub use error::LedgerError;
pub use interruptions::{Interruption, Interruptions};
pub use launch_memory::LaunchMemory;
pub use launches::{Launches, PreparedLaunch};
pub use leases::{Lease, Leases};
pub use lifecycle_memory::{LifecycleMemory, Sweep};
pub use operator_pause::OperatorPause;
pub use reports::Reports;
pub use state::LedgerState;

/// The ledger of one cluster. Every write of a function's is conditional; every read that a
/// decision follows is strongly consistent.
#[async_trait]
pub trait Ledger:
    Leases
    + Launches
    + Claims
    + Commands
    + Interruptions
    + LaunchMemory
    + LifecycleMemory
    + DisruptMemory
    + Reports
    + OperatorPause
{
    /// Ties an empty ledger to the cluster, or makes sure that it belongs to it. Only `provision`
    /// and `lifecycle` may tie one.
    ///
    /// Errors with [`LedgerError::Foreign`] when it belongs to another cluster.
    async fn bind(&self, cluster_uid: &str) -> Result<(), LedgerError>;

    /// Whether it holds nothing yet, not even whose it is: [`Ledger::bind`] was never called, or
    /// the table was lost.
    async fn is_new(&self) -> Result<bool, LedgerError>;

    /// The generation, then the open intents, then everything else that is not over: a launch that
    /// is resolved meanwhile shows as both, never as neither.
    async fn load(&self) -> Result<LedgerState, LedgerError>;

    /// As [`Ledger::load`], but of claims only those of these instances. It leaves out the
    /// generation, and what was learnt of offerings, launches and instance types.
    async fn load_for(&self, instances: &BTreeSet<String>) -> Result<LedgerState, LedgerError>;
}
