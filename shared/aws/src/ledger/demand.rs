//! What pods have asked for in the week before. Of what is too large to be kept, the pools with the least demand are
//! forgotten first.

use aws_sdk_dynamodb::types::TransactWriteItem;
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError};
use outrigger_model::{DemandHistory, Quarter, WeekOfDemand};

use super::item::names;
use super::queries::get;
use super::transaction::{Outcome, built, put, write};
use super::{DynamoLedger, leases, packing};

const KEY: &str = "demand";

/// What is remembered; nothing before it was first written.
pub(super) async fn get_history(ledger: &DynamoLedger) -> Result<DemandHistory, LedgerError> {
    let Some(item) = get(ledger, KEY).await? else { return Ok(DemandHistory::default()) };
    match item.bytes(names::BODY) {
        Some(bytes) => packing::unpacked(bytes).map_err(|error| item.unreadable(error)),
        None => item.body(),
    }
}

/// Keeps it in place of what was remembered before.
pub(super) async fn put_history(
    ledger: &DynamoLedger,
    history: &DemandHistory,
    lease: &Lease,
) -> Result<(), LedgerError> {
    let item = ledger.item(KEY);
    let mut history = history.clone();
    let packed = loop {
        let packed = packing::packed(&history).map_err(|error| item.unreadable(error))?;
        if packed.is_small_enough() {
            break packed;
        }
        forget_half(&mut history);
    };
    let put = put(ledger, item.with(names::BODY, packed.into_value()));
    let items = vec![
        leases::still_held(ledger, lease)?,
        TransactWriteItem::builder().put(built(put.build())?).build(),
    ];
    match write(ledger, &format!("what pods ask for at {}", Timestamp::now()), items).await? {
        Outcome::Written => Ok(()),
        Outcome::Refused(_) => Err(LedgerError::LeaseLost { function: lease.function.clone() }),
    }
}

/// The pools with more demand stay.
fn forget_half(history: &mut DemandHistory) {
    let sum = |week: &WeekOfDemand| -> u64 {
        let quarters = (0..Quarter::A_WEEK).map(|ahead| Quarter::at(Timestamp::UNIX_EPOCH).later(ahead));
        quarters.filter_map(|quarter| week.get(quarter)).sum()
    };
    let mut pools: Vec<(u64, String)> =
        history.iter().map(|(name, week)| (sum(week), name.clone())).collect();
    pools.sort();
    for (_, name) in &pools[..pools.len().div_ceil(2)] {
        history.remove(name);
    }
}
