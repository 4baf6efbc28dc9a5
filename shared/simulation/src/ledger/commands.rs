//! Commands of disruption: each is removed together with the claims that end with it.

use jiff::{SignedDuration, Timestamp};
use outrigger_engine::ports::{Lease, LedgerError};
use outrigger_model::{Command, NodeClaim};

use super::{Table, limits};

/// So much of the past may be in one half of a copy of the table and not in the other.
const SKEW: SignedDuration = SignedDuration::from_secs(1);

impl Table {
    /// Commands that have not ended, in order of id.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Command> {
        self.commands.values()
    }

    /// Writes a command over the version that was read.
    pub(crate) fn write_command(
        &mut self,
        command: &Command,
        lease: Option<&Lease>,
    ) -> Result<(), LedgerError> {
        self.check(command, &[], lease)?;
        let next = Command { version: command.version + 1, ..command.clone() };
        self.claim_writes += 1;
        self.commands.insert(next.id.clone(), next);
        self.restate_all(command);
        Ok(())
    }

    pub(crate) fn restate_all(&mut self, command: &Command) {
        for claim in &command.claims {
            self.restate(claim);
        }
    }

    /// Whether all of it may be written; otherwise nothing is.
    pub(crate) fn check(
        &self,
        command: &Command,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
    ) -> Result<(), LedgerError> {
        self.check_lease_if_any(lease)?;
        if self.commands.get(&command.id).map_or(0, |stored| stored.version) != command.version {
            return Err(LedgerError::Conflict { what: format!("command {}", command.id) });
        }
        limits::check(claims)?;
        claims.iter().try_for_each(|claim| self.check_version(claim))
    }

    /// A copy of the table, made at a time. DynamoDB promises nothing about items that were written
    /// together shortly before: here the copy may lack the commands of the last second.
    pub(crate) fn copied(&self, at: Timestamp, lacks_commands: bool) -> Self {
        let mut copy = self.clone();
        let young = |command: &Command| at.duration_since(command.since) < SKEW;
        if lacks_commands {
            let lacking: Vec<Command> =
                copy.commands.values().filter(|command| young(command)).cloned().collect();
            for command in &lacking {
                copy.commands.remove(&command.id);
                copy.restate_all(command);
            }
        }
        copy
    }
}
