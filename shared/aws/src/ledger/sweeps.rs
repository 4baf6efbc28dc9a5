//! What the last sweep found.

use aws_sdk_dynamodb::types::TransactWriteItem;
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError, Sweep};

use super::item::{Item, names};
use super::packing;
use super::partition::Partition;
use super::queries::get;
use super::transaction::{Outcome, built, put, write};
use super::{DynamoLedger, leases};

const KEY: &str = "sweep";

/// The last sweep; an empty one before the first.
pub(super) async fn get_sweep(ledger: &DynamoLedger) -> Result<Sweep, LedgerError> {
    let item = get(ledger, Partition::Cluster, KEY).await?;
    Ok(item.as_ref().map(Item::packed_body).transpose()?.unwrap_or_default())
}

/// Keeps a sweep in place of the last. Of what is too large to be kept the second half is
/// forgotten: the next sweep finds it as if for the first time, and nothing is done about it
/// meanwhile.
pub(super) async fn put_sweep(
    ledger: &DynamoLedger,
    sweep: &Sweep,
    lease: Option<&Lease>,
) -> Result<(), LedgerError> {
    let packed = packing::packed_to_fit(sweep, forget_half);
    let packed = packed.map_err(|error| ledger.item(Partition::Cluster, KEY).unreadable(error))?;
    let put = put(ledger, ledger.item(Partition::Cluster, KEY).with(names::BODY, packed.into_value()));
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

fn forget_half(sweep: &mut Sweep) {
    let Sweep { orphans, forgotten, missing, nodeless, abandoned, closed, templates, deleted, .. } = sweep;
    for names in [orphans, forgotten, missing, nodeless, abandoned, closed, templates, deleted] {
        let half = names.len() / 2;
        if let Some(first_forgotten) = names.keys().nth(half).cloned() {
            names.split_off(&first_forgotten);
        }
    }
}
