//! Launches, and what becomes of their claims when they are answered.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Launches, Lease, LedgerError, PreparedLaunch};
use outrigger_model::{ClaimOutcome, ClaimState, Intent, IntentState};

use super::{Table, limits};
use crate::door::{Call, Door};
use crate::laws;

#[async_trait]
impl Launches for Door {
    async fn prepare(&self, lease: &Lease, launch: &PreparedLaunch) -> Result<u64, LedgerError> {
        self.call_on(Call::Prepare, &launch.intent.id, |state, moment| {
            let generation = state.ledger.prepare(lease, launch)?;
            let (_, owner) = self.run();
            self.note_trespass(state, moment, "a launch");
            state.broken.extend(laws::pause::launch(state, owner, moment));
            state.broken.extend(laws::launching::asks_again(state, owner, &launch.intent.request, moment));
            state.broken.extend(laws::reservations(state, &launch.claims, moment));
            state.broken.extend(laws::unreadable::planned(state, &launch.claims));
            state.last_writes.insert("a launch", moment.elapsed);
            Ok(generation)
        })
        .await
    }

    async fn mark_sent(&self, lease: &Lease, intent: &str, at: Timestamp) -> Result<(), LedgerError> {
        self.call_on(Call::MarkSent, intent, |state, _| {
            state.ledger.check_lease(lease)?;
            let item = state.ledger.intent(intent, &[IntentState::Prepared])?;
            item.state = IntentState::Sent;
            item.sent_at = Some(at);
            Ok(())
        })
        .await
    }

    async fn resolve(
        &self,
        intent: &str,
        outcomes: &[ClaimOutcome],
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        self.call_on(Call::Resolve, intent, |state, _| {
            let item = state.ledger.intent(intent, &[IntentState::Sent, IntentState::Resolved])?;
            if item.state == IntentState::Resolved {
                return Ok(());
            }
            item.state = IntentState::Resolved;
            item.ended_at = Some(at);
            for outcome in outcomes {
                state.ledger.answer(outcome, at);
            }
            Ok(())
        })
        .await
    }

    async fn abandon(&self, intent: &str, why: &str, at: Timestamp) -> Result<(), LedgerError> {
        self.call_on(Call::Abandon, intent, |state, _| {
            let allowed = [IntentState::Prepared, IntentState::Sent, IntentState::Abandoned];
            let item = state.ledger.intent(intent, &allowed)?;
            if item.state == IntentState::Abandoned {
                return Ok(());
            }
            item.state = IntentState::Abandoned;
            item.ended_at = Some(at);
            for claim in item.claims.clone() {
                state.ledger.answer(&ClaimOutcome::Failed { claim, why: why.to_owned() }, at);
            }
            Ok(())
        })
        .await
    }

    async fn intent(&self, id: &str) -> Result<Option<Intent>, LedgerError> {
        self.look_up(Call::Intent, |table| table.intents.get(id).cloned()).await
    }
}

impl Table {
    /// Every intent ever written, in order of id.
    pub(crate) fn intents(&self) -> impl Iterator<Item = &Intent> {
        self.intents.values()
    }

    fn prepare(&mut self, lease: &Lease, launch: &PreparedLaunch) -> Result<u64, LedgerError> {
        self.check_lease(lease)?;
        limits::check(&launch.claims)?;
        let taken = launch.claims.iter().any(|claim| self.claims.contains_key(&claim.name));
        if launch.generation != self.generation || taken || self.intents.contains_key(&launch.intent.id) {
            return Err(LedgerError::Conflict { what: "the generation".into() });
        }
        self.claim_writes += 1;
        self.claims.extend(launch.claims.iter().map(|claim| (claim.name.clone(), claim.clone())));
        self.intents.insert(launch.intent.id.clone(), launch.intent.clone());
        self.generation += 1;
        Ok(self.generation)
    }

    /// An intent, if it is in one of these states.
    fn intent(&mut self, id: &str, allowed: &[IntentState]) -> Result<&mut Intent, LedgerError> {
        let stored = self.intents.get_mut(id).filter(|intent| allowed.contains(&intent.state));
        stored.ok_or_else(|| LedgerError::Conflict { what: format!("intent {id}") })
    }

    /// A claim whose launch was answered becomes what its outcome makes of it.
    fn answer(&mut self, outcome: &ClaimOutcome, at: Timestamp) {
        self.claim_writes += 1;
        let claim = self.claims.get_mut(outcome.claim());
        let Some(claim) = claim.filter(|claim| claim.status.state == ClaimState::Intent) else { return };
        *claim = claim.answered(outcome, at);
        self.restate(outcome.claim());
    }
}
