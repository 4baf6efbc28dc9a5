//! The queue of messages that nobody could make sense of, each with the reason.

use aws_sdk_sqs::types::MessageAttributeValue;
use outrigger_engine::ports::CloudError;

use crate::{Aws, errors};

/// The longest part of a message that is kept: with its attributes it must fit into one.
const LONGEST_BYTES: usize = 128 * 1024;
/// SQS takes no empty message.
const EMPTY: &str = "(empty)";

/// A dead-letter queue.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    client: aws_sdk_sqs::Client,
    url: String,
}

impl DeadLetters {
    /// The queue with this URL.
    pub fn new(aws: &Aws, url: impl Into<String>) -> Self {
        Self { client: aws_sdk_sqs::Client::new(&aws.config), url: url.into() }
    }

    /// Keeps a message, with the reason in its attribute `reason`. What is too long loses its end.
    pub async fn send(&self, body: &str, reason: &str) -> Result<(), CloudError> {
        let attempted = "send a dead letter";
        let reason = MessageAttributeValue::builder().data_type("String").string_value(reason).build();
        let reason = reason.map_err(|error| CloudError::Unusable {
            what: "the reason of a dead letter".into(),
            why: error.to_string(),
        })?;
        let kept = if body.is_empty() { EMPTY } else { &body[..body.floor_char_boundary(LONGEST_BYTES)] };
        let request = self.client.send_message().queue_url(&self.url).message_body(kept);
        let answer = request.message_attributes("reason", reason).send().await;
        answer.map(drop).map_err(|error| errors::cloud("SQS", attempted, error))
    }
}
