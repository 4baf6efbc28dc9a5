//! `interrupt`: a batch of the queue -> the engine's messages -> which of them the queue is to deliver again.

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use lambda_runtime::Error;
use outrigger_aws::decode_event;
use outrigger_engine::interrupt::{Delivery, Settings, Summary, handle};

use crate::functions::{Shell, serve_event};

/// After so many deliveries the queue gives a message up (`maxReceiveCount` in template.yaml).
const MOST_DELIVERIES: u32 = 3;

/// Runs `interrupt` until Lambda ends the process.
pub async fn interrupt() -> Result<(), Error> {
    serve_event(outrigger_engine::interrupt::FUNCTION, async |shell, payload, _, deadline| {
        let event: SqsEvent = serde_json::from_value(payload)?;
        let (deliveries, malformed) = read(&event.records);
        let mut failed = Box::pin(keep(shell, &malformed)).await?;
        let kept = malformed.len() - failed.len();
        let settings = Settings { cluster: shell.config.cluster.clone(), rebalance: shell.config.rebalance };
        let summary = Box::pin(handle(shell.ports().await?, &settings, &deliveries, deadline)).await;
        measure(shell, &summary, kept);
        tracing::info!(summary = %serde_json::to_value(&summary)?, malformed = malformed.len(), "handled");
        failed.extend(summary.retry.into_keys());
        let mut response = SqsBatchResponse::default();
        for key in failed {
            response.add_failure(key);
        }
        Ok(serde_json::to_value(response)?)
    })
    .await
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
                let received = record.attributes.get("ApproximateReceiveCount");
                let received: u32 = received.and_then(|count| count.parse().ok()).unwrap_or(1);
                deliveries.push(Delivery { key, is_last: received >= MOST_DELIVERIES, message });
            }
            Err(error) => {
                tracing::error!(%error, "the message goes to the dead letters");
                malformed.push(Malformed { key, body: body.to_owned(), reason: error.reason });
            }
        }
    }
    (deliveries, malformed)
}

/// Puts aside what cannot be read; returns what could not be put aside either, which the queue's own redrive will.
async fn keep(shell: &Shell, malformed: &[Malformed]) -> anyhow::Result<Vec<String>> {
    let mut failed = Vec::new();
    for message in malformed {
        let dead_letters = shell.dead_letters().await?;
        if let Err(error) = dead_letters.send(&message.body, &message.reason).await {
            let error = format!("{:#}", anyhow::Error::from(error));
            tracing::warn!(error, "the message was not put aside");
            failed.push(message.key.clone());
        }
    }
    Ok(failed)
}

fn measure(shell: &Shell, summary: &Summary, malformed: usize) {
    shell.measure(&[
        ("NodesInterrupted", summary.ending.len() as f64),
        ("NodesToReplace", summary.replacing.len() as f64),
        ("NodesClosed", summary.closed as f64),
        ("MessagesForeign", summary.foreign as f64),
        ("MessagesRepeated", summary.repeated as f64),
        ("MessagesOld", summary.old as f64),
        ("MessagesPointless", summary.pointless as f64),
        ("MessagesRetried", summary.retry.len() as f64),
        ("MessagesMalformed", malformed as f64),
    ]);
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
        let record = |id: &str, body: serde_json::Value, count: &str| json!({"messageId": id, "body": body, "attributes": {"ApproximateReceiveCount": count}});
        let text = json!(event.to_string());
        let batch = json!({"Records": [
            record("first", text.clone(), "1"),
            record("last", text, "3"),
            record("broken", json!("{"), "1"),
            record("empty", json!(null), "1"),
        ]});
        let batch: SqsEvent = serde_json::from_value(batch).unwrap();
        let (deliveries, malformed) = read(&batch.records);
        let read: Vec<_> = deliveries.iter().map(|one| (one.key.as_str(), one.is_last)).collect();
        assert_eq!(read, [("first", false), ("last", true)]);
        let broken: Vec<_> = malformed.iter().map(|one| one.key.as_str()).collect();
        assert_eq!(broken, ["broken", "empty"]);
    }
}
