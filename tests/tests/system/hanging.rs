//! Servers that take every connection and never answer: each function says so within the time that
//! Lambda gives it.

use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use outrigger_stack::{InvocationResult, Options, Stack, scheduled_event};
use outrigger_tests::world::NO_WINDOW;
use serde_json::{Value, json};

/// `template.yaml`'s timeout of `interrupt`, by which the stack would end it.
const INTERRUPT: Duration = Duration::from_secs(10);

/// The address of a server that never answers, `127.0.0.1:port`; it hangs until the process ends.
fn hanging() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let _held: Vec<_> = listener.incoming().collect();
    });
    address
}

/// A batch of one message that asks for something, and one that nobody can read.
fn batch() -> Value {
    let event = json!({
        "version": "0", "id": "e", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
        "time": jiff::Timestamp::now().to_string(), "detail": {"instance-id": "i-1", "instance-action": "terminate"},
    });
    let record = |id: &str, body: &str| {
        json!({
            "messageId": id, "receiptHandle": id, "body": body, "eventSource": "aws:sqs", "md5OfBody": "",
            "attributes": {"ApproximateReceiveCount": "1"}, "messageAttributes": {},
        })
    };
    json!({"Records": [record("asks", &event.to_string()), record("broken", "{")]})
}

/// The messages that are to come again.
fn failures(outcome: InvocationResult) -> Vec<String> {
    let InvocationResult::Answer(answer) = outcome else { panic!("interrupt ended with {outcome:?}") };
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let failures = answer["batchItemFailures"].as_array().unwrap().iter();
    let mut keys: Vec<_> = failures.map(|one| one["itemIdentifier"].as_str().unwrap().to_owned()).collect();
    keys.sort();
    keys
}

#[test]
fn interrupt_asks_for_its_messages_again_in_time() {
    let stack = Stack::start(Options::default()).unwrap();
    let (plain, secure) = (format!("http://{}", hanging()), format!("https://{}", hanging()));
    let cluster = [("OUTRIGGER_API_SERVER", secure.as_str())];
    let ledger = [("AWS_ENDPOINT_URL_DYNAMODB", plain.as_str())];
    let queues = [("AWS_ENDPOINT_URL_SQS", plain.as_str())];
    let all = [&cluster[..], &ledger, &queues].concat();
    for (environment, again) in [
        (&cluster[..], vec!["asks"]),
        (&ledger, vec!["asks"]),
        (&queues, vec!["broken"]),
        (&all, vec!["asks", "broken"]),
    ] {
        let interrupt = stack.start_function("interrupt", environment).unwrap();
        let began = Instant::now();
        assert_eq!(failures(stack.invoke("interrupt", &batch())), again, "{environment:?}");
        assert!(began.elapsed() < INTERRUPT, "{environment:?}");
        drop(interrupt);
    }
}

#[test]
fn ticks_end_by_themselves() {
    let stack = Stack::start(Options::default()).unwrap();
    let url = format!("http://{}", hanging());
    thread::scope(|scope| {
        for function in ["provision", "lifecycle", "disrupt", "refresh"] {
            let (stack, url) = (&stack, &url);
            scope.spawn(move || {
                for variable in ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL_S3"] {
                    let environment = [(variable, url.as_str()), NO_WINDOW];
                    let process = stack.start_function(function, &environment).unwrap();
                    let outcome = stack.invoke(function, &scheduled_event(function));
                    let has_ended =
                        matches!(outcome, InvocationResult::Answer(_) | InvocationResult::Failed(_));
                    assert!(has_ended, "{function}, {variable}: {outcome:?}");
                    drop(process);
                }
            });
        }
    });
}
