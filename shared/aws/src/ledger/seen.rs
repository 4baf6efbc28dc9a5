//! What nodes of instance types were seen to offer.

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use jiff::Timestamp;
use outrigger_engine::ports::LedgerError;
use outrigger_model::SeenResources;

use super::DynamoLedger;
use super::item::{Item, names, number};
use super::partition::Partition;
use crate::errors;

/// The beginning of the sort keys; earlier versions remembered memory alone.
pub(super) const PREFIX: &str = "memory#";
/// For so long a type is believed to have what it was seen to have, in seconds.
const KEPT_SECONDS: i64 = 60 * 24 * 3_600;

/// What was seen. An item that cannot be read costs a lesson, and holds nothing up.
pub(super) fn read(item: &Item) -> Option<SeenResources> {
    let seen = item.body();
    if let Err(error) = &seen {
        tracing::warn!(%error, "what was learnt about a type is left out");
    }
    seen.ok()
}

/// Remembers what a type offers under an image and a class, unless a version that is no older is
/// there.
pub(super) async fn put(
    ledger: &DynamoLedger,
    seen: &SeenResources,
    at: Timestamp,
) -> Result<(), LedgerError> {
    let version = number(seen.version);
    let class = seen.node_class.as_ref().map(|class| format!("#{class}")).unwrap_or_default();
    let item = ledger
        .item(Partition::Cluster, format!("{PREFIX}{}#{}{class}", seen.instance_type, seen.image_id))
        .with_body(seen)?
        .with(names::VERSION, version.clone())
        .with(names::TTL, number(at.as_second() + KEPT_SECONDS));
    let key = item.sort_key();
    let put = ledger
        .client
        .put_item()
        .table_name(&ledger.table)
        .set_item(Some(item.into_attributes()))
        .condition_expression("attribute_not_exists(#sk) OR #version < :version")
        .expression_attribute_names("#sk", names::SORT)
        .expression_attribute_names("#version", names::VERSION)
        .expression_attribute_values(":version", version);
    match put.send().await {
        Err(error)
            if !error.as_service_error().is_some_and(PutItemError::is_conditional_check_failed_exception) =>
        {
            Err(errors::ledger(format!("write {key}"), error))
        }
        _ => Ok(()),
    }
}
