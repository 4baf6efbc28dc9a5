//! What the function `disrupt` remembers: packed, and written only while its lease is ours.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{DisruptMemory, Lease, LedgerError};
use outrigger_model::{DemandHistory, DisruptionMemory, Quarter, WeekOfDemand};
use serde::de::DeserializeOwned;

use super::item::names;
use super::packing::Packed;
use super::partition::Partition;
use super::queries::get;
use super::transaction::{ItemName, Transacted, TransactionItem, write};
use super::{DynamoLedger, leases, packing};

const DISRUPTION: &str = "disruption";
const DEMAND: &str = "demand";

#[async_trait]
impl DisruptMemory for DynamoLedger {
    async fn disruption_memory(&self) -> Result<DisruptionMemory, LedgerError> {
        recall(self, DISRUPTION).await
    }

    /// Of what is too large to be kept, the pods of nodes are forgotten first.
    async fn put_disruption_memory(
        &self,
        memory: &DisruptionMemory,
        lease: &Lease,
    ) -> Result<(), LedgerError> {
        let without_pods =
            || DisruptionMemory { proposals: memory.proposals.clone(), ..DisruptionMemory::default() };
        let packed = match packing::packed(memory) {
            Ok(packed) if packed.is_small_enough() => Ok(packed),
            Ok(_) => packing::packed(&without_pods()),
            error => error,
        };
        remember(self, DISRUPTION, "what is proposed", packed, lease).await
    }

    async fn demand_history(&self) -> Result<DemandHistory, LedgerError> {
        recall(self, DEMAND).await
    }

    /// Of what is too large to be kept, the pools with the least demand are forgotten first.
    async fn put_demand_history(&self, history: &DemandHistory, lease: &Lease) -> Result<(), LedgerError> {
        let packed = packing::packed_to_fit(history, forget_half);
        remember(self, DEMAND, "what pods ask for", packed, lease).await
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

/// What an item holds; nothing before it was first written, and where it cannot be read: it is
/// memory, and the next look finds it anew.
async fn recall<T>(ledger: &DynamoLedger, key: &str) -> Result<T, LedgerError>
where
    T: Default + DeserializeOwned,
{
    let item = get(ledger, Partition::Disrupt, key).await?;
    Ok(item.and_then(|item| item.packed_body_if_readable()).unwrap_or_default())
}

/// Keeps a value in place of what the item held before; `what` names it in errors.
async fn remember(
    ledger: &DynamoLedger,
    key: &str,
    what: &str,
    packed: Result<Packed, std::io::Error>,
    lease: &Lease,
) -> Result<(), LedgerError> {
    let item = ledger.item(Partition::Disrupt, key);
    let packed = packed.map_err(|error| item.unreadable(error))?;
    let items = vec![
        leases::still_held(ledger, lease),
        TransactionItem::put(ItemName::Memory, item.with(names::BODY, packed.into_value())),
    ];
    match write(ledger, &format!("{what} at {}", Timestamp::now()), items).await? {
        Transacted::Written => Ok(()),
        // Nothing is asked of the item itself.
        Transacted::Refused(_) => Err(LedgerError::LeaseLost { function: lease.function.clone() }),
    }
}
