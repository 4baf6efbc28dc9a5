//! What the last sweep found.

use aws_sdk_dynamodb::types::TransactWriteItem;
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError, Sweep};

use super::item::Item;
use super::queries::get;
use super::transaction::{Outcome, built, put, write};
use super::{DynamoLedger, leases};

const KEY: &str = "sweep";

/// The last sweep; an empty one before the first.
pub(super) async fn get_sweep(ledger: &DynamoLedger) -> Result<Sweep, LedgerError> {
    let item = get(ledger, KEY).await?;
    Ok(item.as_ref().map(Item::packed_body).transpose()?.unwrap_or_default())
}

/// Keeps a sweep in place of the last.
pub(super) async fn put_sweep(
    ledger: &DynamoLedger,
    sweep: &Sweep,
    lease: Option<&Lease>,
) -> Result<(), LedgerError> {
    let put = put(ledger, ledger.item(KEY).with_packed_body(sweep)?);
    let mut items = vec![TransactWriteItem::builder().put(built(put.build())?).build()];
    if let Some(lease) = lease {
        items.insert(0, leases::still_held(ledger, lease)?);
    }
    match write(ledger, &format!("the sweep of {}", Timestamp::now()), items).await? {
        Outcome::Written => Ok(()),
        Outcome::Refused(_) => {
            let function = lease.map(|lease| lease.function.clone()).unwrap_or_default();
            Err(LedgerError::LeaseLost { function })
        }
    }
}
