//! Lambda's pollers: messages of a queue are gathered and given to a function; what it does not
//! answer for comes again.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::{Value, json};

use crate::aws::{ACCOUNT, Aws, REGION};
use crate::http::Answer;
use crate::schedule::{BATCH, VISIBILITY_SECONDS, WINDOW};
use crate::ticker::Line;

/// SQS gives no more at once.
const MOST_AT_ONCE: usize = 10;

impl Line {
    /// Polls the queue until the ticker stops.
    pub(crate) fn run_queue(&self, aws: &Aws, queue: &str) {
        let url = format!("http://queue/{ACCOUNT}/{queue}");
        while !self.stopped() {
            if self.full() {
                thread::sleep(Duration::from_millis(20));
                continue;
            }
            match self.gather(aws, &url) {
                Ok(messages) if messages.is_empty() => {}
                Ok(messages) => self.give(aws, &url, &messages),
                Err(error) => {
                    eprintln!("ticker: the queue of {}: {error:#}", self.function.name);
                    thread::sleep(Duration::from_millis(500));
                }
            }
        }
    }

    /// Up to a batch of messages, of which the first was there a window ago.
    fn gather(&self, aws: &Aws, url: &str) -> Result<Vec<Value>> {
        let mut messages: Vec<Value> = Vec::new();
        let mut closes = None;
        while messages.len() < BATCH && !self.stopped() {
            if closes.is_some_and(|closes| Instant::now() >= closes) {
                break;
            }
            let ask = json!({
                "QueueUrl": url, "MaxNumberOfMessages": MOST_AT_ONCE.min(BATCH - messages.len()),
                "WaitTimeSeconds": u8::from(messages.is_empty()), "VisibilityTimeout": VISIBILITY_SECONDS,
                "AttributeNames": ["ApproximateReceiveCount", "SentTimestamp"],
            });
            let answer = aws.json("sqs", "AmazonSQS.ReceiveMessage", &ask)?;
            let received = answer["Messages"].as_array().cloned().unwrap_or_default();
            if messages.is_empty() && received.is_empty() {
                break;
            }
            if received.is_empty() {
                thread::sleep(Duration::from_millis(50));
            }
            closes = closes.or_else(|| Some(Instant::now() + WINDOW));
            messages.extend(received);
        }
        Ok(messages)
    }

    /// Gives a batch to the function, and deletes what it does not ask for again.
    fn give(&self, aws: &Aws, url: &str, messages: &[Value]) {
        let event = queue_event(messages);
        let (aws, url, messages) = (aws.clone(), url.to_owned(), messages.to_vec());
        self.post(event, move |answer| {
            let Some(failed) = failures(answer) else { return };
            let done =
                messages.iter().filter(|message| !failed.iter().any(|id| message["MessageId"] == **id));
            let entries: Vec<Value> = done
                .enumerate()
                .map(|(at, message)| json!({"Id": at.to_string(), "ReceiptHandle": message["ReceiptHandle"]}))
                .collect();
            for some in entries.chunks(MOST_AT_ONCE) {
                let delete = json!({"QueueUrl": url, "Entries": some});
                if let Err(error) = aws.json("sqs", "AmazonSQS.DeleteMessageBatch", &delete) {
                    eprintln!("ticker: messages that were handled stay in their queue: {error:#}");
                }
            }
        });
    }
}

/// Messages, as SQS gives them, in the event that a function gets.
pub fn queue_event(messages: &[Value]) -> Value {
    let record = |message: &Value| {
        json!({
            "messageId": message["MessageId"], "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"], "attributes": message["Attributes"], "messageAttributes": {},
            "md5OfBody": message["MD5OfBody"], "eventSource": "aws:sqs", "awsRegion": REGION,
            "eventSourceARN": format!("arn:aws:sqs:{REGION}:{ACCOUNT}:interruptions"),
        })
    };
    json!({ "Records": messages.iter().map(record).collect::<Vec<_>>() })
}

/// The messages that a function asks for again; `None` when it failed and all of them come again.
fn failures(answer: &Answer) -> Option<Vec<String>> {
    if answer.status >= 300 || answer.function_error.is_some() {
        return None;
    }
    let answer: Value = serde_json::from_str(&answer.body).ok()?;
    let failures = answer["batchItemFailures"].as_array().cloned().unwrap_or_default();
    Some(failures.iter().filter_map(|one| one["itemIdentifier"].as_str()).map(str::to_owned).collect())
}
