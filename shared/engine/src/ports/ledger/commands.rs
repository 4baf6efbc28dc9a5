//! Commands of disruption.

use async_trait::async_trait;
use outrigger_model::{Command, NodeClaim};

use super::{Lease, LedgerError};

/// Commands, which lie in a partition of their own. `disrupt` and `interrupt` may only write one,
/// `lifecycle` may only end one, and `provision` may do both.
#[async_trait]
pub trait Commands: Send + Sync {
    /// Writes a command that was read at `command.version`; with a lease, only while that is ours.
    /// It holds those of its claims that are ready for pods, and that no other command holds.
    ///
    /// Errors with [`LedgerError::Conflict`] when somebody else wrote it meanwhile, and with
    /// [`LedgerError::LeaseLost`] when the lease has gone.
    async fn write_command(&self, command: &Command, lease: Option<&Lease>) -> Result<(), LedgerError>;

    /// Removes a command that was read at `command.version`, and writes the claims that end with
    /// it, each read at its version, as one. Returns these with their new versions. Errors as
    /// [`Commands::write_command`], of claims too.
    async fn end_command(
        &self,
        command: &Command,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
    ) -> Result<Vec<NodeClaim>, LedgerError>;

    /// One command; `None` where there is none, or it has ended.
    async fn command(&self, id: &str) -> Result<Option<Command>, LedgerError>;
}
