//! Commands of disruption: each is removed together with the claims that end with it.

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use outrigger_engine::ports::{Commands, Lease, LedgerError};
use outrigger_model::{Command, NodeClaim};

use super::{Table, limits};
use crate::door::{Call, Door};
use crate::laws;
use crate::scenario::Function;

/// So much of the past may be in one half of a copy of the table and not in the other.
const SKEW: SignedDuration = SignedDuration::from_secs(1);

#[async_trait]
impl Commands for Door {
    async fn write_command(&self, command: &Command, lease: Option<&Lease>) -> Result<(), LedgerError> {
        self.call_on(Call::WriteCommand, &command.id, |state, moment| {
            state.ledger.write_command(command, lease)?;
            if command.replacements.is_some() {
                state.replacements_since.entry(command.id.clone()).or_insert(moment.elapsed);
            }
            if command.version == 0 {
                state.committed(self.run(), command, moment);
                let is_of_choice = self.run().0 == Function::Disrupt;
                if is_of_choice && laws::ages::are_unknown(self.clock_difference()) {
                    state.broken.push(format!("command {} was committed while clocks differ", command.id));
                }
            }
            Ok(())
        })
        .await
    }

    async fn end_command(
        &self,
        command: &Command,
        claims: &[NodeClaim],
        lease: Option<&Lease>,
    ) -> Result<Vec<NodeClaim>, LedgerError> {
        self.call_on(Call::EndCommand, &command.id, |state, moment| {
            let (_, owner) = self.run();
            let broken = laws::disruption::execution(state, owner, command, claims, moment);
            let table = &mut state.ledger;
            table.check(command, claims, lease)?;
            table.commands.remove(&command.id);
            let written: Vec<NodeClaim> = claims.iter().map(|claim| table.replace(claim)).collect();
            table.claim_writes += 1;
            table.restate_all(command);
            state.broken.extend(broken);
            for claim in &written {
                state.tell_of(claim, moment);
            }
            Ok(written)
        })
        .await
    }

    async fn command(&self, id: &str) -> Result<Option<Command>, LedgerError> {
        self.look_up(Call::Command, |table| table.commands.get(id).cloned()).await
    }
}

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

    fn restate_all(&mut self, command: &Command) {
        for claim in &command.claims {
            self.restate(claim);
        }
    }

    /// Whether all of it may be written; otherwise nothing is.
    fn check(
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
