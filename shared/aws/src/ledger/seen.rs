//! How much memory instance types were seen to have.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use jiff::Timestamp;
use outrigger_engine::ports::LedgerError;
use outrigger_model::SeenMemory;

use super::DynamoLedger;
use super::item::{Item, names, number};
use crate::errors;

/// The beginning of the sort keys.
pub(super) const PREFIX: &str = "memory#";
/// The memory in bytes, for the condition.
const BYTES: &str = "bytes";
/// For so long a type is believed to have what it was seen to have, in seconds.
const KEPT_SECONDS: i64 = 60 * 24 * 3_600;

/// What was seen. An item that cannot be read costs a lesson, and holds nothing up.
pub(super) fn read(item: &Item) -> Option<SeenMemory> {
    let seen = item.body();
    if let Err(error) = &seen {
        tracing::warn!(%error, "what was learnt about a type is left out");
    }
    seen.ok()
}

/// Remembers the memory of a type under an image, unless less was seen before.
pub(super) async fn put(ledger: &DynamoLedger, seen: &SeenMemory, at: Timestamp) -> Result<(), LedgerError> {
    let bytes = number(seen.memory.value());
    let item = ledger
        .item(format!("{PREFIX}{}#{}", seen.instance_type, seen.image_id))
        .with_body(seen)?
        .with(BYTES, bytes.clone())
        .with(names::TTL, number(at.as_second() + KEPT_SECONDS));
    let key = item.sort_key();
    let put = ledger
        .client
        .put_item()
        .table_name(&ledger.table)
        .set_item(Some(item.into_attributes()))
        .condition_expression("attribute_not_exists(#sk) OR #bytes > :bytes")
        .expression_attribute_names("#sk", names::SORT)
        .expression_attribute_names("#bytes", BYTES)
        .expression_attribute_values(":bytes", bytes);
    match put.send().await {
        Err(error)
            if !error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception) =>
        {
            Err(errors::ledger(format!("write {key}"), error))
        }
        _ => Ok(()),
    }
}
