//! Events that were handled: read and written many at a time.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use jiff::Timestamp;
use outrigger_engine::ports::LedgerError;

use super::DynamoLedger;
use super::item::{Attributes, names, number};
use super::partition::Partition;
use super::queries;
use crate::errors;

/// DynamoDB's bound on one BatchWriteItem.
const BATCH: usize = 25;
/// How often items that DynamoDB left unwritten are sent again.
const ATTEMPTS: u32 = 6;

/// The sort key of an event.
fn key(event: &str) -> String {
    format!("event#{event}")
}

/// Which of these events were handled. DynamoDB clears up late, so that the time is compared here.
pub(super) async fn read(
    ledger: &DynamoLedger,
    events: &[String],
    now: Timestamp,
) -> Result<BTreeSet<String>, LedgerError> {
    let keys: Vec<String> = events.iter().map(|event| key(event)).collect();
    let mut handled = BTreeSet::new();
    for item in queries::items(ledger, Partition::Interrupt, &keys).await? {
        let until: i64 = item.number(names::UNTIL)?;
        if until > now.as_millisecond()
            && let Some(event) = item.sort_key().strip_prefix("event#")
        {
            handled.insert(event.to_owned());
        }
    }
    Ok(handled)
}

/// Remembers events. Writing one twice is writing it once.
pub(super) async fn put(
    ledger: &DynamoLedger,
    events: &[String],
    until: Timestamp,
) -> Result<(), LedgerError> {
    for some in events.chunks(BATCH) {
        let mut requests = Vec::with_capacity(some.len());
        for event in some {
            requests.push(request(ledger, event, until)?);
        }
        write(ledger, requests).await?;
    }
    Ok(())
}

fn request(ledger: &DynamoLedger, event: &str, until: Timestamp) -> Result<WriteRequest, LedgerError> {
    let item: Attributes = ledger
        .item(Partition::Interrupt, key(event))
        .with(names::UNTIL, number(until.as_millisecond()))
        .with(names::TTL, number(until.as_second()))
        .into_attributes();
    let put = super::transaction::built(PutRequest::builder().set_item(Some(item)).build())?;
    Ok(WriteRequest::builder().put_request(put).build())
}

async fn write(ledger: &DynamoLedger, mut requests: Vec<WriteRequest>) -> Result<(), LedgerError> {
    let attempted = "write handled events";
    for attempt in 0..ATTEMPTS {
        let answer = ledger.client.batch_write_item().request_items(&ledger.table, requests).send().await;
        let answer = answer.map_err(|error| errors::ledger(attempted, error))?;
        requests = answer.unprocessed_items.unwrap_or_default().remove(&ledger.table).unwrap_or_default();
        if requests.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(50 << attempt)).await;
    }
    Err(LedgerError::Unreachable {
        attempted: attempted.into(),
        source: "DynamoDB left items unwritten".into(),
    })
}
