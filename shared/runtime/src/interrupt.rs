//! `interrupt`: a batch of the queue -> the engine's messages -> which of them the queue is to
//! deliver again.

use std::collections::BTreeSet;
use std::time::Duration;

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::Error;
use outrigger_aws::{DeadLetters, Queue, decode_event};
use outrigger_engine::chain;
use outrigger_engine::interruption::{Delivery, InterruptSettings, Summary, handle, retry_delay};
use tokio::time::{Instant, timeout, timeout_at};

use crate::config::InterruptConfig;
use crate::functions::{Shell, serve_event};
use crate::limits::Limits;
use crate::metrics::NODES_INTERRUPTED;

/// How long the queue may take to note when messages come again; without its word they come after
/// its own time.
pub(crate) const REDELIVERY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long what was begun in time may still take; then the batch is given up and comes again.
pub(crate) const FOR_THE_BATCH: Duration = Duration::from_secs(2);

/// Runs `interrupt` until Lambda ends the process.
pub async fn interrupt() -> Result<(), Error> {
    serve_event(Limits::INTERRUPT, async |shell: &Shell<InterruptConfig>, payload, _, deadline| {
        let event: SqsEvent = serde_json::from_value(payload)?;
        let worked = timeout_at(deadline + FOR_THE_BATCH, Box::pin(work(shell, &event.records, deadline)));
        let failed = if let Ok(failed) = worked.await {
            failed?
        } else {
            tracing::error!("its time was up before all had answered; the batch is to be delivered again");
            event.records.iter().filter_map(|record| record.message_id.clone()).collect()
        };
        let again = again(&event.records, &failed);
        if !again.is_empty() && timeout(REDELIVERY_TIMEOUT, hasten(shell, &again)).await.is_err() {
            tracing::warn!("the queue did not note in time when messages are to come again");
        }
        let mut response = SqsBatchResponse::default();
        for key in failed {
            response.add_failure(key);
        }
        Ok(serde_json::to_value(response)?)
    })
    .await
}

/// Works on a batch; returns the keys of the messages that are to come again.
async fn work(
    shell: &Shell<InterruptConfig>,
    records: &[SqsMessage],
    deadline: Instant,
) -> anyhow::Result<Vec<String>> {
    let (deliveries, malformed) = read(records);
    let (kept, summary) =
        tokio::join!(keep(shell, &malformed, deadline), interruptions(shell, &deliveries, deadline));
    let mut failed = kept?;
    shell.measure(&[(NODES_INTERRUPTED, summary.ending.len() as f64)]);
    tracing::info!(summary = %serde_json::to_value(&summary)?, malformed = malformed.len(), "handled");
    failed.extend(summary.retry.into_keys());
    Ok(failed)
}

/// What the messages ask for is done, where there is a cluster and a ledger to do it in.
async fn interruptions(
    shell: &Shell<InterruptConfig>,
    deliveries: &[Delivery],
    deadline: Instant,
) -> Summary {
    let settings = InterruptSettings {
        cluster: shell.config.cluster.clone(),
        rebalance: shell.function_config.rebalance,
    };
    match shell.ports().await {
        Ok(ports) => Box::pin(handle(ports, &settings, deliveries, deadline)).await,
        Err(error) => {
            let why = chain(error.as_ref());
            tracing::error!(error = why, "the batch is to be delivered again");
            let retry = deliveries.iter().map(|one| (one.key.clone(), why.clone())).collect();
            Summary { retry, ..Summary::default() }
        }
    }
}

/// A message that cannot be read.
struct Malformed {
    key: String,
    body: String,
    reason: String,
}

/// The messages that can be read, and those that cannot.
fn read(records: &[SqsMessage]) -> (Vec<Delivery>, Vec<Malformed>) {
    let (mut deliveries, mut malformed) = (Vec::new(), Vec::new());
    for record in records {
        let key = record.message_id.clone().unwrap_or_default();
        let body = record.body.as_deref().unwrap_or_default();
        match decode_event(body) {
            Ok(message) => {
                deliveries.push(Delivery { key, count: received(record), message });
            }
            Err(error) => {
                tracing::error!(%error, "the message goes to the dead letters");
                malformed.push(Malformed { key, body: body.to_owned(), reason: error.reason });
            }
        }
    }
    (deliveries, malformed)
}

/// How many times the queue has delivered a message.
fn received(record: &SqsMessage) -> u32 {
    let count = record.attributes.get("ApproximateReceiveCount");
    count.and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// The receipt handles of messages that are to come again, and after how long.
fn again(records: &[SqsMessage], failed: &[String]) -> Vec<(String, Duration)> {
    let failed: BTreeSet<&String> = failed.iter().collect();
    let is_failed = |record: &&SqsMessage| record.message_id.as_ref().is_some_and(|id| failed.contains(id));
    let records = records.iter().filter(is_failed);
    records
        .filter_map(|record| Some((record.receipt_handle.clone()?, retry_delay(received(record)))))
        .collect()
}

/// Losing this costs time: the messages then come again after the queue's own time.
async fn hasten(shell: &Shell<InterruptConfig>, again: &[(String, Duration)]) {
    let noted = async {
        let queue = Queue::new(shell.aws().await?, &shell.function_config.queue);
        Ok(queue.deliver_again(again).await?)
    };
    match noted.await {
        Ok(0) => {}
        Ok(unknown) => tracing::warn!(unknown, "the queue does not know all messages that are to come again"),
        Err(error) => {
            let error: anyhow::Error = error;
            tracing::warn!(error = chain(error.as_ref()), "messages come again after the queue's own time");
        }
    }
}

/// Puts aside what cannot be read; returns what could not be put aside either, which the queue's
/// own redrive will.
async fn keep(
    shell: &Shell<InterruptConfig>,
    malformed: &[Malformed],
    deadline: Instant,
) -> anyhow::Result<Vec<String>> {
    let mut failed = Vec::new();
    if malformed.is_empty() {
        return Ok(failed);
    }
    let dead_letters = DeadLetters::new(shell.aws().await?, &shell.function_config.dead_letters);
    for message in malformed {
        if Instant::now() >= deadline {
            failed.push(message.key.clone());
        } else if let Err(error) = dead_letters.send(&message.body, &message.reason).await {
            tracing::warn!(error = chain(&error), "the message was not put aside");
            failed.push(message.key.clone());
        }
    }
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn messages_are_read_and_the_broken_ones_set_apart() {
        let event = json!({
            "id": "e", "detail-type": "EC2 Instance Rebalance Recommendation", "source": "aws.ec2",
            "time": "2026-11-11T21:29:54Z", "detail": {"instance-id": "i-1"},
        });
        let record = |id: &str, body: serde_json::Value, count: &str| json!({"messageId": id, "receiptHandle": format!("handle of {id}"), "body": body, "attributes": {"ApproximateReceiveCount": count}});
        let text = json!(event.to_string());
        let batch = json!({"Records": [
            record("first", text.clone(), "1"),
            record("later", text, "3"),
            record("broken", json!("{"), "1"),
            record("empty", json!(null), "1"),
        ]});
        let batch: SqsEvent = serde_json::from_value(batch).unwrap();
        let (deliveries, malformed) = read(&batch.records);
        let read: Vec<_> = deliveries.iter().map(|one| (one.key.as_str(), one.count)).collect();
        assert_eq!(read, [("first", 1), ("later", 3)]);
        let again = again(&batch.records, &["later".to_owned(), "first".to_owned()]);
        let expected = [("handle of first", 2), ("handle of later", 8)];
        assert_eq!(again, expected.map(|(handle, after)| (handle.to_owned(), Duration::from_secs(after))));
        let broken: Vec<_> = malformed.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(broken, ["broken", "empty"]);
    }
}
