//! Transactions, and what made one fail.

use std::time::Duration;

use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use outrigger_engine::ports::LedgerError;

use super::DynamoLedger;
use super::item::{Item, names};
use crate::errors;

/// Two transactions on one item make DynamoDB cancel one of them; the loser tries again this often.
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// How a transaction went.
pub(super) enum Outcome {
    /// All of it was written.
    Written,
    /// Nothing was: for each item whether its condition did not hold.
    Refused(Vec<bool>),
}

/// Writes all items or none. `purpose` names the transaction in errors.
///
/// The SDK gives each request a client token, under which its attempts are one. A later request for
/// the same meets what the first has written in its conditions, and its caller looks at what stands
/// there.
pub(super) async fn write(
    ledger: &DynamoLedger,
    purpose: &str,
    items: Vec<TransactWriteItem>,
) -> Result<Outcome, LedgerError> {
    let attempted = || format!("write {purpose}");
    for attempt in 0..ATTEMPTS {
        let request = ledger.client.transact_write_items().set_transact_items(Some(items.clone()));
        let Err(error) = request.send().await else { return Ok(Outcome::Written) };
        let Some(failure) = error.as_service_error() else { return Err(errors::ledger(attempted(), error)) };
        let mut retry = failure.is_transaction_in_progress_exception();
        if let aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError::TransactionCanceledException(
            canceled,
        ) = failure
        {
            let codes: Vec<_> =
                canceled.cancellation_reasons().iter().map(|reason| reason.code().unwrap_or("None")).collect();
            let refused: Vec<bool> = codes.iter().map(|code| *code == "ConditionalCheckFailed").collect();
            if refused.contains(&true) {
                return Ok(Outcome::Refused(refused));
            }
            let passing = ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"];
            retry = codes.iter().any(|code| passing.contains(code));
        }
        if !retry {
            return Err(errors::ledger(attempted(), error));
        }
        tokio::time::sleep(pause(purpose, attempt)).await;
    }
    Err(LedgerError::Conflict { what: purpose.to_owned() })
}

/// A put with a condition on the attribute placeholders `#sk` and `#state`/`#version`, which the
/// caller fills.
pub(super) fn put(ledger: &DynamoLedger, item: Item) -> aws_sdk_dynamodb::types::builders::PutBuilder {
    Put::builder().table_name(&ledger.table).set_item(Some(item.into_attributes()))
}

/// A put of an item that must not exist yet.
pub(super) fn put_new(ledger: &DynamoLedger, item: Item) -> Result<TransactWriteItem, LedgerError> {
    let put = put(ledger, item)
        .condition_expression("attribute_not_exists(#sk)")
        .expression_attribute_names("#sk", names::SORT);
    Ok(TransactWriteItem::builder().put(built(put.build())?).build())
}

/// The SDK checks that required members are set; here they always are.
pub(super) fn built<T>(part: Result<T, BuildError>) -> Result<T, LedgerError> {
    part.map_err(|error| LedgerError::Unreachable {
        attempted: "build a transaction".into(),
        source: error.into(),
    })
}

/// Doubling, and spread by the purpose so that two writers do not keep step.
fn pause(purpose: &str, attempt: u32) -> Duration {
    let spread =
        purpose.bytes().fold(attempt, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte))) % 16;
    FIRST_PAUSE * (1 << attempt) * (16 + spread) / 16
}
