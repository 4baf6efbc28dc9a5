//! How launches have fared lately: one item, written over the version that was read.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use outrigger_engine::ports::LedgerError;
use outrigger_model::LaunchHealth;

use super::DynamoLedger;
use super::item::{Item, names, number};
use super::partition::Partition;
use super::queries::get;
use crate::errors;

const KEY: &str = "health";

/// What is remembered; nothing before the first time.
pub(super) async fn get_health(ledger: &DynamoLedger) -> Result<LaunchHealth, LedgerError> {
    let Some(item) = get(ledger, Partition::Cluster, KEY).await? else { return Ok(LaunchHealth::default()) };
    let health: LaunchHealth = item.packed_body()?;
    Ok(LaunchHealth { version: item.number(names::VERSION)?, ..health })
}

/// Writes it over the version `health.version`; 0 stands for none.
pub(super) async fn put_health(ledger: &DynamoLedger, health: &LaunchHealth) -> Result<(), LedgerError> {
    let next = LaunchHealth { version: health.version.saturating_add(1), ..health.clone() };
    let item: Item = ledger
        .item(Partition::Cluster, KEY)
        .with_packed_body(&next)?
        .with(names::VERSION, number(next.version));
    let condition = if health.version == 0 { "attribute_not_exists(#version)" } else { "#version = :seen" };
    let mut put = ledger
        .client
        .put_item()
        .table_name(&ledger.table)
        .set_item(Some(item.into_attributes()))
        .condition_expression(condition)
        .expression_attribute_names("#version", names::VERSION);
    if health.version > 0 {
        put = put.expression_attribute_values(":seen", number(health.version));
    }
    let Err(error) = put.send().await else { return Ok(()) };
    let refused = error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception);
    // An answer that was lost makes the SDK send the same again, which then meets its own first
    // attempt.
    match get_health(ledger).await {
        Ok(found) if found == next => Ok(()),
        _ if refused => Err(LedgerError::Conflict { what: "how launches have fared".into() }),
        _ => Err(errors::ledger("write how launches have fared", error)),
    }
}
