//! Launches: written down before they are sent, closed when they were answered.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Launches, Lease, LedgerError, PreparedLaunch};
use outrigger_model::{ClaimOutcome, Intent, IntentState};

use super::expression::Expression;
use super::item::{Item, intent_key, names, number};
use super::partition::Partition;
use super::transaction::{ItemName, Transacted, TransactionItem, write};
use super::{DynamoLedger, leases, meta, outcomes, queries};

#[async_trait]
impl Launches for DynamoLedger {
    /// Intent and claims in one transaction with the generation and the lease.
    async fn prepare(&self, lease: &Lease, launch: &PreparedLaunch) -> Result<u64, LedgerError> {
        let next = launch.generation.saturating_add(1);
        let purpose = format!("launch {} at generation {next}", launch.intent.id);
        if launch.claims.len() > PreparedLaunch::MAX_CLAIMS {
            return Err(LedgerError::Refused {
                attempted: format!("write {purpose}"),
                code: "TooManyClaims".into(),
                message: format!("{} claims; allowed: {}", launch.claims.len(), PreparedLaunch::MAX_CLAIMS),
            });
        }
        let mut items = vec![
            raise_generation(self, launch.generation),
            leases::still_held(self, lease),
            put_new_intent(self, &launch.intent)?,
        ];
        for claim in &launch.claims {
            let item = Item::of_claim(&self.uid, claim, None)?;
            items.push(TransactionItem::put_if(ItemName::Claim, item, Expression::is_new()));
        }
        let refusal = match write(self, &purpose, items).await {
            Ok(Transacted::Written) => return Ok(next),
            Ok(Transacted::Refused(refusal)) => refusal,
            Err(error) if was_written(self, &launch.intent).await.unwrap_or(false) => {
                tracing::warn!(intent = launch.intent.id, %error, "the launch was written although the ledger did not say so");
                return Ok(next);
            }
            Err(error) => return Err(error),
        };
        // An answer that was lost makes the SDK send the same again, which then finds its own items
        // in the way.
        if was_written(self, &launch.intent).await? {
            return Ok(next);
        }
        Err(refusal.lease_lost().unwrap_or_else(|| LedgerError::Conflict {
            what: if refusal.is_of(&ItemName::Meta) {
                format!("generation {}", launch.generation)
            } else {
                format!("intent {} or one of its claims", launch.intent.id)
            },
        }))
    }

    async fn mark_sent(&self, lease: &Lease, id: &str, at: Timestamp) -> Result<(), LedgerError> {
        let Some(mut intent) = queries::intent(self, id).await? else { return Err(conflict(id)) };
        if intent.state != IntentState::Prepared {
            return if is_sent(&intent, at) { Ok(()) } else { Err(conflict(id)) };
        }
        intent.state = IntentState::Sent;
        intent.sent_at = Some(at);
        let items = vec![
            leases::still_held(self, lease),
            TransactionItem::put_if(
                ItemName::Intent,
                Item::of_intent(&self.uid, &intent)?,
                is_in_intent_state(IntentState::Prepared),
            ),
        ];
        let written = write(self, &format!("intent {id} as sent at {at}"), items).await;
        if let Ok(Transacted::Written) = written {
            return Ok(());
        }
        // Only this call writes this very time, so finding it means that the write went through.
        let stored = queries::intent(self, id).await;
        match (written, stored) {
            (_, Ok(Some(stored))) if is_sent(&stored, at) => Ok(()),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(Transacted::Refused(refusal)), _) => {
                Err(refusal.lease_lost().unwrap_or_else(|| conflict(id)))
            }
            (Ok(Transacted::Written), _) => Err(conflict(id)),
        }
    }

    async fn resolve(
        &self,
        intent: &str,
        outcomes: &[ClaimOutcome],
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        outcomes::finish(self, intent, IntentState::Resolved, outcomes, at).await
    }

    async fn abandon(&self, intent: &str, why: &str, at: Timestamp) -> Result<(), LedgerError> {
        let Some(stored) = queries::intent(self, intent).await? else { return Err(conflict(intent)) };
        let failed = |claim: &String| ClaimOutcome::Failed { claim: claim.clone(), why: why.to_owned() };
        let outcomes: Vec<_> = stored.claims.iter().map(failed).collect();
        outcomes::finish(self, intent, IntentState::Abandoned, &outcomes, at).await
    }

    async fn intent(&self, id: &str) -> Result<Option<Intent>, LedgerError> {
        queries::intent(self, id).await
    }
}

/// Somebody else has written the intent first.
pub(super) fn conflict(id: &str) -> LedgerError {
    LedgerError::Conflict { what: format!("intent {id}") }
}

/// An open intent goes where those lie that are over, if its state in the table is still `from`.
pub(super) fn end_intent(
    ledger: &DynamoLedger,
    ended: &Intent,
    from: IntentState,
) -> Result<[TransactionItem; 2], LedgerError> {
    let open = ledger.item(Partition::Launches, intent_key(&ended.id));
    Ok([
        TransactionItem::delete_if(ItemName::Intent, open, is_in_intent_state(from)),
        put_new_intent(ledger, ended)?,
    ])
}

fn put_new_intent(ledger: &DynamoLedger, intent: &Intent) -> Result<TransactionItem, LedgerError> {
    let item = Item::of_intent(&ledger.uid, intent)?;
    Ok(TransactionItem::put_if(ItemName::Intent, item, Expression::is_new()))
}

fn is_in_intent_state(state: IntentState) -> Expression {
    Expression::is_in_state(format!("{state:?}"))
}

fn raise_generation(ledger: &DynamoLedger, read: u64) -> TransactionItem {
    TransactionItem::update_if(
        ItemName::Meta,
        ledger.item(Partition::Cluster, meta::KEY),
        Expression::new("SET #generation = :next")
            .name("#generation", names::GENERATION)
            .value(":next", number(read.saturating_add(1))),
        Expression::new("#generation = :read")
            .name("#generation", names::GENERATION)
            .value(":read", number(read)),
    )
}

/// Whether the intent in the table is this very one, however far it has come since.
async fn was_written(ledger: &DynamoLedger, intent: &Intent) -> Result<bool, LedgerError> {
    let stored = queries::intent(ledger, &intent.id).await?;
    Ok(stored.is_some_and(|stored| {
        stored.request == intent.request
            && stored.claims == intent.claims
            && stored.prepared_at == intent.prepared_at
    }))
}

fn is_sent(intent: &Intent, at: Timestamp) -> bool {
    intent.state == IntentState::Sent && intent.sent_at == Some(at)
}
