//! Commands of disruption.

use async_trait::async_trait;
use outrigger_engine::ports::{Commands, Lease, LedgerError};
use outrigger_model::{Command, NodeClaim};

use crate::calls::Call;
use crate::door::Door;
use crate::laws;
use crate::scenario::Function;

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
