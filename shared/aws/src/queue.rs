//! When a queue delivers messages again that could not be handled.

use std::time::Duration;

use aws_sdk_sqs::types::ChangeMessageVisibilityBatchRequestEntry;
use outrigger_engine::ports::CloudError;

use crate::{Aws, errors};

/// How many messages one request may name.
const BATCH: usize = 10;

/// A queue whose messages somebody else receives and deletes.
#[derive(Clone, Debug)]
pub struct Queue {
    client: aws_sdk_sqs::Client,
    url: String,
}

impl Queue {
    /// The queue with this URL.
    pub fn new(aws: &Aws, url: impl Into<String>) -> Self {
        Self { client: aws_sdk_sqs::Client::new(&aws.config), url: url.into() }
    }

    /// Lets messages, named by the receipt handles of their deliveries, come again after so long
    /// instead of after the queue's own time, in whole seconds. Returns how many the queue did not
    /// know any more.
    pub async fn deliver_again(&self, messages: &[(String, Duration)]) -> Result<usize, CloudError> {
        let attempted = "change when messages come again";
        let mut unknown = 0;
        for batch in messages.chunks(BATCH) {
            let entries: Result<Vec<_>, _> = batch.iter().enumerate().map(entry).collect();
            let entries = entries.map_err(|error| CloudError::Unusable {
                what: "the delivery of a message".into(),
                why: error.to_string(),
            })?;
            let request = self.client.change_message_visibility_batch().queue_url(&self.url);
            let answer = request.set_entries(Some(entries)).send().await;
            let answer = answer.map_err(|error| errors::cloud("SQS", attempted, error))?;
            unknown += answer.failed().len();
        }
        Ok(unknown)
    }
}

fn entry(
    (index, (receipt, after)): (usize, &(String, Duration)),
) -> Result<ChangeMessageVisibilityBatchRequestEntry, aws_sdk_sqs::error::BuildError> {
    ChangeMessageVisibilityBatchRequestEntry::builder()
        .id(index.to_string())
        .receipt_handle(receipt)
        .visibility_timeout(i32::try_from(after.as_secs()).unwrap_or(i32::MAX))
        .build()
}
