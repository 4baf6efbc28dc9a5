//! Writing single claims and unavailable offerings.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::TransactWriteItem;
use futures::future::try_join_all;
use jiff::Timestamp;
use outrigger_engine::ports::LedgerError;
use outrigger_model::{NodeClaim, UnavailableOffering};

use super::DynamoLedger;
use super::item::{Item, names, number};
use super::queries;
use super::transaction::{built, put};
use crate::errors;

/// How many offerings are written at a time.
const PARALLEL: usize = 8;

/// Writes a claim over the version that was read.
pub(super) async fn update(ledger: &DynamoLedger, claim: &NodeClaim) -> Result<NodeClaim, LedgerError> {
    let next = NodeClaim { version: claim.version.saturating_add(1), ..claim.clone() };
    let ended_at = next.state.is_terminal().then(Timestamp::now);
    let put = ledger
        .client
        .put_item()
        .table_name(&ledger.table)
        .set_item(Some(Item::of_claim(&ledger.uid, &next, ended_at)?.into_attributes()))
        .condition_expression("#version = :seen")
        .expression_attribute_names("#version", names::VERSION)
        .expression_attribute_values(":seen", number(claim.version));
    let Err(error) = put.send().await else { return Ok(next) };
    let refused = error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception);
    // Whether an answer was lost or the SDK met its own first attempt: what stands there decides.
    let found = queries::claims(ledger, std::slice::from_ref(&claim.name)).await;
    match found {
        Ok(found) if found.get(&claim.name) == Some(&next) => Ok(next),
        _ if refused => Err(LedgerError::Conflict { what: format!("claim {}", claim.name) }),
        _ => Err(errors::ledger(format!("write claim {}", claim.name), error)),
    }
}

/// The part of a transaction that writes a claim over the version `seen`.
pub(super) fn replace(
    ledger: &DynamoLedger,
    claim: &NodeClaim,
    seen: u64,
    at: Timestamp,
) -> Result<TransactWriteItem, LedgerError> {
    let ended_at = claim.state.is_terminal().then_some(at);
    let put = put(ledger, Item::of_claim(&ledger.uid, claim, ended_at)?)
        .condition_expression("#version = :seen")
        .expression_attribute_names("#version", names::VERSION)
        .expression_attribute_values(":seen", number(seen));
    Ok(TransactWriteItem::builder().put(built(put.build())?).build())
}

/// Remembers offerings; one that is known to be out for longer stays so.
pub(super) async fn put_unavailable(
    ledger: &DynamoLedger,
    offerings: &[UnavailableOffering],
) -> Result<(), LedgerError> {
    for some in offerings.chunks(PARALLEL) {
        let mut puts = Vec::with_capacity(some.len());
        for offering in some {
            puts.push(put_one(ledger, offering));
        }
        try_join_all(puts).await?;
    }
    Ok(())
}

async fn put_one(ledger: &DynamoLedger, offering: &UnavailableOffering) -> Result<(), LedgerError> {
    let item = Item::of_unavailable(&ledger.uid, offering)?;
    let key = item.sort_key();
    let put = ledger
        .client
        .put_item()
        .table_name(&ledger.table)
        .set_item(Some(item.into_attributes()))
        .condition_expression("attribute_not_exists(#sk) OR #until < :until")
        .expression_attribute_names("#sk", names::SORT)
        .expression_attribute_names("#until", names::UNTIL)
        .expression_attribute_values(":until", number(offering.until.as_millisecond()));
    match put.send().await {
        Err(error)
            if !error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception) =>
        {
            Err(errors::ledger(format!("write {key}"), error))
        }
        _ => Ok(()),
    }
}
