//! What `interrupt` has stated of claims.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use outrigger_engine::ports::{Interruption, LedgerError};

use super::DynamoLedger;
use super::item::{names, number};
use super::partition::Partition;
use crate::errors;

/// What the sort keys of interruptions begin with.
pub(super) const PREFIX: &str = "interruption#";
/// One that nobody forgets is about no claim any more, in seconds.
const KEPT_SECONDS: i64 = 30 * 24 * 3_600;

/// The sort key of what was stated of a claim.
pub(super) fn key(claim: &str) -> String {
    format!("{PREFIX}{claim}")
}

/// States it, unless somebody has stated something of the claim; returns whether nobody had. An
/// answer that was lost counts as somebody else's.
pub(super) async fn put(ledger: &DynamoLedger, stated: &Interruption) -> Result<bool, LedgerError> {
    let key = key(&stated.claim);
    let item = ledger
        .item(Partition::Interrupt, &key)
        .with_body(stated)?
        .with(names::TTL, number(stated.at.as_second().saturating_add(KEPT_SECONDS)));
    let put = ledger
        .client
        .put_item()
        .table_name(&ledger.table)
        .set_item(Some(item.into_attributes()))
        .condition_expression("attribute_not_exists(#sk)")
        .expression_attribute_names("#sk", names::SORT);
    match put.send().await {
        Ok(_) => Ok(true),
        Err(error)
            if error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception) =>
        {
            Ok(false)
        }
        Err(error) => Err(errors::ledger(format!("write {key}"), error)),
    }
}

/// Forgets it. Doing it twice is fine.
pub(super) async fn forget(ledger: &DynamoLedger, claim: &str) -> Result<(), LedgerError> {
    let key = key(claim);
    let item = ledger.item(Partition::Interrupt, &key);
    let delete = ledger.client.delete_item().table_name(&ledger.table).set_key(Some(item.into_attributes()));
    delete.send().await.map(|_| ()).map_err(|error| errors::ledger(format!("delete {key}"), error))
}
