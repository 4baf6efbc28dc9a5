//! Commands of disruption: each is written, and removed, together with its claims.

use jiff::{SignedDuration, Timestamp};
use outrigger_engine::ports::{Lease, LedgerError};
use outrigger_model::{Command, NodeClaim, Proposal};

use super::{Table, limits};

/// So much of the past may be in one half of a copy of the table and not in the other.
const SKEW: SignedDuration = SignedDuration::from_secs(1);

impl Table {
    /// Commands that have not ended, in order of id.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.values()
    }

    /// What disrupt has proposed, for a later run to find again.
    pub(crate) fn proposals(&self) -> &[Proposal] {
        &self.disruption_memory.proposals
    }

    pub(super) fn command(&self, id: &str) -> Option<Command> {
        self.commands.get(id).cloned()
    }

    pub(crate) fn write_command(
        &mut self,
        command: &Command,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
    ) -> Result<(), LedgerError> {
        self.check(command, claims, lease)?;
        for claim in claims {
            self.replace(claim);
        }
        let next = Command { version: command.version + 1, ..command.clone() };
        self.commands.insert(next.id.clone(), next);
        Ok(())
    }

    pub(super) fn end_command(
        &mut self,
        command: &Command,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
    ) -> Result<Vec<NodeClaim>, LedgerError> {
        self.check(command, claims, lease)?;
        self.commands.remove(&command.id);
        Ok(claims.iter().map(|claim| self.replace(claim)).collect())
    }

    /// Whether all of it may be written; otherwise nothing is.
    fn check(
        &self,
        command: &Command,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
    ) -> Result<(), LedgerError> {
        if let Some(lease) = lease {
            self.check_lease(lease)?;
        }
        if self.commands.get(&command.id).map_or(0, |stored| stored.version) != command.version {
            return Err(LedgerError::Conflict { what: format!("command {}", command.id) });
        }
        limits::check(claims)?;
        claims.iter().try_for_each(|claim| self.check_version(claim))
    }

    /// A copy of the table, made at a time. DynamoDB promises nothing about items that were written together shortly
    /// before: here the copy lacks either the commands of the last second or their hold on their claims.
    pub(crate) fn copied(&self, at: Timestamp, lacks_commands: bool) -> Self {
        let mut copy = self.clone();
        let young = |command: &Command| at.duration_since(command.since) < SKEW;
        if lacks_commands {
            copy.commands.retain(|_, command| !young(command));
            return copy;
        }
        for command in copy.commands.values().filter(|command| young(command)) {
            for claim in copy.claims.values_mut().filter(|claim| command.holds(claim)) {
                claim.status.command = None;
                claim.version -= 1;
            }
        }
        copy
    }
}
