//! What was stated of claims by those who may not write them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Interruption, Interruptions, LedgerError};
use outrigger_model::{ClaimState, UnavailableOffering};

use super::Table;
use crate::door::{Call, Door};

#[async_trait]
impl Interruptions for Door {
    async fn interrupt(&self, stated: &Interruption) -> Result<bool, LedgerError> {
        self.call_on(Call::Interrupt, &stated.claim, |state, moment| {
            let table = &mut state.ledger;
            if table.interruptions.contains_key(&stated.claim) {
                return Ok(false);
            }
            table.claim_writes += 1;
            table.interruptions.insert(stated.claim.clone(), stated.clone());
            table.restate(&stated.claim);
            if let Some(claim) = table.claims.get(&stated.claim).cloned() {
                state.tell_of(&claim, moment);
            }
            Ok(true)
        })
        .await
    }

    /// What stands in no claim by then is lost.
    async fn forget_interruption(&self, claim: &str) -> Result<(), LedgerError> {
        self.call(Call::ForgetInterruption, |state, _| {
            let table = &mut state.ledger;
            table.interruptions.remove(claim);
            if table.unwritten.remove(claim).is_some() {
                table
                    .broken
                    .push(format!("the interruption of claim {claim} was forgotten before it was written"));
            }
            Ok(())
        })
        .await
    }

    async fn handled(&self, events: &[String], now: Timestamp) -> Result<BTreeSet<String>, LedgerError> {
        self.look_up(Call::Handled, |table| {
            let counts = |event: &&String| table.handled.get(*event).is_some_and(|until| *until > now);
            events.iter().filter(counts).cloned().collect()
        })
        .await
    }

    async fn put_handled(&self, events: &[String], until: Timestamp) -> Result<(), LedgerError> {
        self.call(Call::PutHandled, |state, _| {
            state.ledger.handled.extend(events.iter().map(|event| (event.clone(), until)));
            Ok(())
        })
        .await
    }

    async fn put_taken_back(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        self.call(Call::PutUnavailable, |state, moment| {
            state.ledger.put_unavailable(offerings, moment);
            Ok(())
        })
        .await
    }
}

impl Table {
    /// Makes a claim what every reader sees: as it ends by what was stated of it, and held by the
    /// first command that names it.
    pub(super) fn restate(&mut self, name: &str) {
        let Some(claim) = self.claims.get_mut(name) else { return };
        if let Some(ended) = self.interruptions.get(name).and_then(|stated| stated.ended(claim)) {
            let written = std::mem::replace(claim, ended);
            self.unwritten.insert(name.to_owned(), written);
        }
        let names = |claims: &[String]| claims.iter().any(|claim| claim == name);
        let holding = self.commands.values().find(|command| names(&command.claims));
        let held = holding.filter(|_| claim.status.state == ClaimState::Initialized);
        claim.status.command = held.map(|command| command.id.clone());
    }
}
