//! Launches.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Launches, Lease, LedgerError, PreparedLaunch};
use outrigger_model::{ClaimOutcome, Intent, IntentState};

use crate::calls::Call;
use crate::door::Door;
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
