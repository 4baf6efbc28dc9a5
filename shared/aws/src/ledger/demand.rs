//! What pods have asked for in the week before. Of what is too large to be kept, the pools with the
//! least demand are forgotten first.

use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError};
use outrigger_model::{DemandHistory, Quarter, WeekOfDemand};

use super::partition::Partition;
use super::remembered::{recall, remember};
use super::{DynamoLedger, packing};

const KEY: &str = "demand";

/// What is remembered; nothing before it was first written.
pub(super) async fn get_history(ledger: &DynamoLedger) -> Result<DemandHistory, LedgerError> {
    recall(ledger, KEY).await
}

/// Keeps it in place of what was remembered before.
pub(super) async fn put_history(
    ledger: &DynamoLedger,
    history: &DemandHistory,
    lease: &Lease,
) -> Result<(), LedgerError> {
    let packed = packing::packed_to_fit(history, forget_half);
    let packed = packed.map_err(|error| ledger.item(Partition::Disrupt, KEY).unreadable(error))?;
    remember(ledger, KEY, "what pods ask for", packed, lease).await
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
