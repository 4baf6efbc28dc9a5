//! Items that `disrupt` remembers something in: packed, and written only while its lease is ours.

use aws_sdk_dynamodb::types::TransactWriteItem;
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError};
use serde::de::DeserializeOwned;

use super::item::names;
use super::packing::Packed;
use super::partition::Partition;
use super::queries::get;
use super::transaction::{Outcome, built, put, write};
use super::{DynamoLedger, leases};

/// What an item holds; nothing before it was first written.
pub(super) async fn recall<T>(ledger: &DynamoLedger, key: &str) -> Result<T, LedgerError>
where
    T: Default + DeserializeOwned,
{
    let Some(item) = get(ledger, Partition::Disrupt, key).await? else { return Ok(T::default()) };
    item.packed_body()
}

/// Keeps a value in place of what the item held before; `what` names it in errors.
pub(super) async fn remember(
    ledger: &DynamoLedger,
    key: &str,
    what: &str,
    value: Packed,
    lease: &Lease,
) -> Result<(), LedgerError> {
    let put = put(ledger, ledger.item(Partition::Disrupt, key).with(names::BODY, value.into_value()));
    let items = vec![
        leases::still_held(ledger, lease)?,
        TransactWriteItem::builder().put(built(put.build())?).build(),
    ];
    match write(ledger, &format!("{what} at {}", Timestamp::now()), items).await? {
        Outcome::Written => Ok(()),
        Outcome::Refused(_) => Err(LedgerError::LeaseLost { function: lease.function.clone() }),
    }
}
