//! Writing launches down before they are sent.

use aws_sdk_dynamodb::types::{Delete, TransactWriteItem, Update};
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError, PreparedLaunch};
use outrigger_model::{Intent, IntentState, NodeClaim};

use super::DynamoLedger;
use super::item::{Item, intent_key, names, number, text};
use super::partition::Partition;
use super::transaction::{Outcome, built, put, put_new, write};
use super::{leases, meta, queries};

/// Intent and claims in one transaction with the generation and the lease.
pub(super) async fn prepare(
    ledger: &DynamoLedger,
    lease: &Lease,
    launch: &PreparedLaunch,
) -> Result<u64, LedgerError> {
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
        raise_generation(ledger, launch.generation)?,
        leases::still_held(ledger, lease)?,
        put_new(ledger, Item::of_intent(&ledger.uid, &launch.intent)?)?,
    ];
    for claim in &launch.claims {
        items.push(put_new(ledger, Item::of_claim(&ledger.uid, claim, None)?)?);
    }
    let refused = match write(ledger, &purpose, items).await {
        Ok(Outcome::Written) => return Ok(next),
        Ok(Outcome::Refused(refused)) => refused,
        Err(error) if was_written(ledger, &launch.intent).await.unwrap_or(false) => {
            tracing::warn!(intent = launch.intent.id, %error, "the launch was written although the ledger did not say so");
            return Ok(next);
        }
        Err(error) => return Err(error),
    };
    // An answer that was lost makes the SDK send the same again, which then finds its own items in
    // the way.
    if was_written(ledger, &launch.intent).await? {
        return Ok(next);
    }
    Err(match refused.as_slice() {
        [_, true, ..] => LedgerError::LeaseLost { function: lease.function.clone() },
        [true, ..] => LedgerError::Conflict { what: format!("generation {}", launch.generation) },
        _ => LedgerError::Conflict { what: format!("intent {} or one of its claims", launch.intent.id) },
    })
}

/// PREPARED to SENT, while the lease holds.
pub(super) async fn mark_sent(
    ledger: &DynamoLedger,
    lease: &Lease,
    id: &str,
    at: Timestamp,
) -> Result<(), LedgerError> {
    let taken = || LedgerError::Conflict { what: format!("intent {id}") };
    let Some(mut intent) = queries::intent(ledger, id).await? else { return Err(taken()) };
    if intent.state != IntentState::Prepared {
        return if is_sent(&intent, at) { Ok(()) } else { Err(taken()) };
    }
    intent.state = IntentState::Sent;
    intent.sent_at = Some(at);
    let items =
        vec![leases::still_held(ledger, lease)?, replace_intent(ledger, &intent, IntentState::Prepared)?];
    let written = write(ledger, &format!("intent {id} as sent at {at}"), items).await;
    if let Ok(Outcome::Written) = written {
        return Ok(());
    }
    // Only this call writes this very time, so finding it means that the write went through.
    let found = queries::intent(ledger, id).await;
    match (written, found) {
        (_, Ok(Some(found))) if is_sent(&found, at) => Ok(()),
        (Err(error), _) | (Ok(_), Err(error)) => Err(error),
        (Ok(Outcome::Refused(refused)), _) if refused.first() == Some(&true) => {
            Err(LedgerError::LeaseLost { function: lease.function.clone() })
        }
        (Ok(_), _) => Err(taken()),
    }
}

/// A claim that no launch of the ledger's has made, in one transaction with the generation: plans
/// that were made without it are overtaken.
pub(super) async fn adopt(
    ledger: &DynamoLedger,
    claim: &NodeClaim,
    lease: Option<&Lease>,
) -> Result<(), LedgerError> {
    let claim = NodeClaim { version: 1, ..claim.clone() };
    let raise = Update::builder()
        .table_name(&ledger.table)
        .set_key(Some(ledger.item(Partition::Cluster, meta::KEY).into_attributes()))
        .update_expression("ADD #generation :one")
        .condition_expression("attribute_exists(#generation)")
        .expression_attribute_names("#generation", names::GENERATION)
        .expression_attribute_values(":one", number(1));
    let mut items = vec![
        put_new(ledger, Item::of_claim(&ledger.uid, &claim, None)?)?,
        TransactWriteItem::builder().update(built(raise.build())?).build(),
    ];
    if let Some(lease) = lease {
        items.push(leases::still_held(ledger, lease)?);
    }
    let outcome = write(ledger, &format!("adopted claim {} of {}", claim.name, claim.intent), items).await?;
    match (outcome, lease) {
        (Outcome::Written, _) => Ok(()),
        (Outcome::Refused(refused), Some(lease)) if refused.get(2) == Some(&true) => {
            Err(LedgerError::LeaseLost { function: lease.function.clone() })
        }
        (Outcome::Refused(_), _) => match queries::claim(ledger, &claim.name).await? {
            Some(found) if found == claim => Ok(()),
            _ => Err(LedgerError::Conflict { what: format!("claim {}", claim.name) }),
        },
    }
}

/// A put of an open intent whose state in the table must still be `from`.
fn replace_intent(
    ledger: &DynamoLedger,
    intent: &Intent,
    from: IntentState,
) -> Result<TransactWriteItem, LedgerError> {
    let put = put(ledger, Item::of_intent(&ledger.uid, intent)?)
        .condition_expression("#state = :from")
        .expression_attribute_names("#state", names::STATE)
        .expression_attribute_values(":from", text(format!("{from:?}")));
    Ok(TransactWriteItem::builder().put(built(put.build())?).build())
}

/// An open intent goes where those lie that are over, if its state in the table is still `from`.
pub(super) fn end_intent(
    ledger: &DynamoLedger,
    ended: &Intent,
    from: IntentState,
) -> Result<[TransactWriteItem; 2], LedgerError> {
    let delete = Delete::builder()
        .table_name(&ledger.table)
        .set_key(Some(ledger.item(Partition::Launches, intent_key(&ended.id)).into_attributes()))
        .condition_expression("#state = :from")
        .expression_attribute_names("#state", names::STATE)
        .expression_attribute_values(":from", text(format!("{from:?}")));
    Ok([
        TransactWriteItem::builder().delete(built(delete.build())?).build(),
        put_new(ledger, Item::of_intent(&ledger.uid, ended)?)?,
    ])
}

fn raise_generation(ledger: &DynamoLedger, seen: u64) -> Result<TransactWriteItem, LedgerError> {
    let update = Update::builder()
        .table_name(&ledger.table)
        .set_key(Some(ledger.item(Partition::Cluster, meta::KEY).into_attributes()))
        .update_expression("SET #generation = :next")
        .condition_expression("#generation = :seen")
        .expression_attribute_names("#generation", names::GENERATION)
        .expression_attribute_values(":seen", number(seen))
        .expression_attribute_values(":next", number(seen.saturating_add(1)));
    Ok(TransactWriteItem::builder().update(built(update.build())?).build())
}

/// Whether the intent in the table is this very one, however far it has come since.
async fn was_written(ledger: &DynamoLedger, intent: &Intent) -> Result<bool, LedgerError> {
    let found = queries::intent(ledger, &intent.id).await?;
    Ok(found.is_some_and(|found| {
        found.request == intent.request
            && found.claims == intent.claims
            && found.prepared_at == intent.prepared_at
    }))
}

fn is_sent(intent: &Intent, at: Timestamp) -> bool {
    intent.state == IntentState::Sent && intent.sent_at == Some(at)
}
