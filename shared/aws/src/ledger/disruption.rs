//! What the function `disrupt` remembers. Of what is too large to be kept, the pods of nodes are forgotten first.

use aws_sdk_dynamodb::types::TransactWriteItem;
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError};
use outrigger_model::DisruptionMemory;

use super::item::{Item, names};
use super::queries::get;
use super::transaction::{Outcome, built, put, write};
use super::{DynamoLedger, leases, packing};

const KEY: &str = "disruption";

/// What is remembered; nothing before it was first written.
pub(super) async fn get_memory(ledger: &DynamoLedger) -> Result<DisruptionMemory, LedgerError> {
    let Some(item) = get(ledger, KEY).await? else { return Ok(DisruptionMemory::default()) };
    read(&item)
}

fn read(item: &Item) -> Result<DisruptionMemory, LedgerError> {
    match item.bytes(names::BODY) {
        Some(bytes) => packing::unpacked(bytes).map_err(|error| item.unreadable(error)),
        None => item.body(),
    }
}

/// Keeps it in place of what was remembered before.
pub(super) async fn put_memory(
    ledger: &DynamoLedger,
    memory: &DisruptionMemory,
    lease: &Lease,
) -> Result<(), LedgerError> {
    let item = ledger.item(KEY);
    let without_pods =
        || DisruptionMemory { proposals: memory.proposals.clone(), ..DisruptionMemory::default() };
    let packed = match packing::packed(memory) {
        Ok(packed) if packed.is_small_enough() => Ok(packed),
        Ok(_) => packing::packed(&without_pods()),
        error => error,
    };
    let body = packed.map_err(|error| item.unreadable(error))?.into_value();
    let put = put(ledger, item.with(names::BODY, body));
    let items = vec![
        leases::still_held(ledger, lease)?,
        TransactWriteItem::builder().put(built(put.build())?).build(),
    ];
    match write(ledger, &format!("what is proposed at {}", Timestamp::now()), items).await? {
        Outcome::Written => Ok(()),
        Outcome::Refused(_) => Err(LedgerError::LeaseLost { function: lease.function.clone() }),
    }
}
