//! What is stated of claims.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Interruption, Interruptions, LedgerError};
use outrigger_model::UnavailableOffering;

use crate::calls::Call;
use crate::door::Door;

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
    async fn forget_interruption(&self, stated: &Interruption) -> Result<(), LedgerError> {
        self.call(Call::ForgetInterruption, |state, _| {
            let (table, claim) = (&mut state.ledger, &stated.claim);
            if table.interruptions.get(claim).is_some_and(|later| later.at != stated.at) {
                return Ok(());
            }
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
