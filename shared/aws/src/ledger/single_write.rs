//! Writes of one item that ask something of the item which they meet.

use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use outrigger_engine::ports::LedgerError;

use super::DynamoLedger;
use super::expression::Expression;
use super::item::Item;
use crate::errors;

/// How such a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionalWrite {
    /// It was done.
    Written,
    /// The condition did not hold.
    Refused,
}

/// Puts an item in place of the one that is there, if that one meets the condition.
pub(super) async fn put_if(
    ledger: &DynamoLedger,
    item: Item,
    condition: &Expression,
    attempted: impl Into<String>,
) -> Result<ConditionalWrite, LedgerError> {
    let put = ledger
        .client
        .put_item()
        .table_name(&ledger.table)
        .set_item(Some(item.into_attributes()))
        .condition_expression(&condition.text)
        .set_expression_attribute_names(condition.names())
        .set_expression_attribute_values(condition.values());
    let Err(error) = put.send().await else { return Ok(ConditionalWrite::Written) };
    if error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception) {
        return Ok(ConditionalWrite::Refused);
    }
    Err(errors::ledger(attempted, error))
}

/// Deletes the item of this key, if it meets the condition.
pub(super) async fn delete_if(
    ledger: &DynamoLedger,
    key: Item,
    condition: &Expression,
    attempted: impl Into<String>,
) -> Result<ConditionalWrite, LedgerError> {
    let delete = ledger
        .client
        .delete_item()
        .table_name(&ledger.table)
        .set_key(Some(key.into_attributes()))
        .condition_expression(&condition.text)
        .set_expression_attribute_names(condition.names())
        .set_expression_attribute_values(condition.values());
    let Err(error) = delete.send().await else { return Ok(ConditionalWrite::Written) };
    if error.as_service_error().is_some_and(DeleteItemError::is_conditional_check_failed_exception) {
        return Ok(ConditionalWrite::Refused);
    }
    Err(errors::ledger(attempted, error))
}
