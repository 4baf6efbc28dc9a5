//! What the function `disrupt` remembers. Of what is too large to be kept, the pods of nodes are
//! forgotten first.

use outrigger_engine::ports::{Lease, LedgerError};
use outrigger_model::DisruptionMemory;

use super::partition::Partition;
use super::remembered::{recall, remember};
use super::{DynamoLedger, packing};

const KEY: &str = "disruption";

/// What is remembered; nothing before it was first written.
pub(super) async fn get_memory(ledger: &DynamoLedger) -> Result<DisruptionMemory, LedgerError> {
    recall(ledger, KEY).await
}

/// Keeps it in place of what was remembered before.
pub(super) async fn put_memory(
    ledger: &DynamoLedger,
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
    let packed = packed.map_err(|error| ledger.item(Partition::Disrupt, KEY).unreadable(error))?;
    remember(ledger, KEY, "what is proposed", packed, lease).await
}
