//! EventBridge's events about instances -> the engine's messages.
//!
//! What cannot be read is told by its size and its hash alone: nobody knows what it holds.

use jiff::Timestamp;
use outrigger_engine::interruption::{Message, News};
use outrigger_engine::ports::InstanceState;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::hash::hex_of_sha256;

/// No event is larger (EventBridge and SQS take 256 KiB).
const LARGEST_BYTES: usize = 256 * 1024;

/// A message that is no event. Its text stays out of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message of {bytes} bytes with SHA-256 {sha256} is no event: {reason}")]
pub struct MalformedEvent {
    /// What is wrong with it.
    pub reason: String,
    /// How long it is.
    pub bytes: usize,
    /// The SHA-256 of it.
    pub sha256: String,
}

/// The envelope of every event.
#[derive(Deserialize)]
struct Envelope<'a> {
    id: String,
    #[serde(rename = "detail-type")]
    kind: String,
    source: String,
    time: Timestamp,
    #[serde(borrow)]
    detail: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct AboutInstance {
    instance_id: String,
    #[serde(default)]
    instance_action: String,
    #[serde(default)]
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HealthEvent {
    #[serde(default)]
    service: String,
    #[serde(default)]
    event_type_category: String,
    #[serde(default)]
    event_type_code: String,
    #[serde(default)]
    status_code: String,
    #[serde(default)]
    affected_entities: Vec<AffectedEntity>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AffectedEntity {
    #[serde(default)]
    entity_value: String,
}

/// Reads the body of a message. An event of a kind that nobody acts on is [`News::Other`].
pub fn decode_event(body: &str) -> Result<Message, MalformedEvent> {
    decode(body).map_err(|reason| MalformedEvent {
        reason,
        bytes: body.len(),
        sha256: hex_of_sha256(body.as_bytes(), 32),
    })
}

fn decode(body: &str) -> Result<Message, String> {
    if body.len() > LARGEST_BYTES {
        return Err(format!("it is larger than {LARGEST_BYTES} bytes"));
    }
    let envelope: Envelope<'_> = read("the event", body)?;
    let (news, instances) = news(&envelope)?;
    Ok(Message { id: envelope.id, at: envelope.time, news, instances })
}

fn news(envelope: &Envelope<'_>) -> Result<(News, Vec<String>), String> {
    let other = || (News::Other { what: format!("{} {}", envelope.source, envelope.kind) }, Vec::new());
    let make: fn(&AboutInstance) -> Option<News> = match (envelope.source.as_str(), envelope.kind.as_str()) {
        ("aws.ec2", "EC2 Spot Instance Interruption Warning") => {
            |about| Some(News::SpotInterruption { action: about.instance_action.clone() })
        }
        ("aws.ec2", "EC2 Instance Rebalance Recommendation") => |_| Some(News::RebalanceRecommendation),
        ("aws.ec2", "EC2 Instance State-change Notification") => |about| state(&about.state),
        ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning") => {
            |_| Some(News::ReservationInterruption)
        }
        ("aws.health", "AWS Health Event") => {
            return Ok(health(&read("its detail", envelope.detail.get())?).unwrap_or_else(other));
        }
        _ => return Ok(other()),
    };
    let about: AboutInstance = read("its detail", envelope.detail.get())?;
    Ok(make(&about).map_or_else(other, |news| (news, vec![about.instance_id])))
}

fn state(name: &str) -> Option<News> {
    let state = match name {
        "pending" => InstanceState::Pending,
        "running" => InstanceState::Running,
        "stopping" => InstanceState::Stopping,
        "stopped" => InstanceState::Stopped,
        "shutting-down" => InstanceState::ShuttingDown,
        "terminated" => InstanceState::Terminated,
        _ => return None,
    };
    Some(News::StateChange(state))
}

/// Only changes of instances that are still to come.
fn health(event: &HealthEvent) -> Option<(News, Vec<String>)> {
    let counts = event.service == "EC2"
        && event.event_type_category == "scheduledChange"
        && event.status_code != "closed";
    let values = event.affected_entities.iter().map(|entity| entity.entity_value.clone());
    let instances = values.filter(|value| value.starts_with("i-")).collect();
    counts.then(|| (News::ScheduledChange { code: event.event_type_code.clone() }, instances))
}

/// Reads JSON, at most as deep as serde_json goes (128). The error says where, and not what stands
/// there.
fn read<'a, T: Deserialize<'a>>(what: &str, json: &'a str) -> Result<T, String> {
    serde_json::from_str(json).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        format!("{what} cannot be read ({:?} error at line {line}, column {column})", error.classify())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(source: &str, kind: &str, detail: &Value) -> String {
        let event = json!({
            "version": "0", "id": "7bf73129-1428-4cd3-a780-95db273d1602", "detail-type": kind, "source": source,
            "account": "123456789012", "time": "2026-11-11T21:29:54Z", "region": "us-east-1",
            "resources": ["arn:aws:ec2:us-east-1:123456789012:instance/i-1"], "detail": detail,
        });
        event.to_string()
    }

    fn other(what: &str) -> (News, Vec<String>) {
        (News::Other { what: what.into() }, Vec::new())
    }

    #[test]
    fn the_five_kinds_are_read_and_the_rest_asks_for_nothing() {
        let ec2 = |kind: &str, detail: Value| event("aws.ec2", kind, &detail);
        let health = |service: &str, category: &str, status: &str| {
            let detail = json!({
                "eventArn": "arn", "service": service, "eventTypeCode": "AWS_EC2_INSTANCE_RETIREMENT",
                "eventTypeCategory": category, "statusCode": status,
                "affectedEntities": [{"entityValue": "i-1"}, {"entityValue": "i-2"}, {"entityValue": "vol-1"}],
            });
            event("aws.health", "AWS Health Event", &detail)
        };
        let one = |news: News| (news, vec!["i-1".to_owned()]);
        let change = "EC2 Instance State-change Notification";
        let code = "AWS_EC2_INSTANCE_RETIREMENT".to_owned();
        let table = [
            (
                ec2(
                    "EC2 Spot Instance Interruption Warning",
                    json!({"instance-id": "i-1", "instance-action": "terminate"}),
                ),
                one(News::SpotInterruption { action: "terminate".into() }),
            ),
            (
                ec2("EC2 Instance Rebalance Recommendation", json!({"instance-id": "i-1"})),
                one(News::RebalanceRecommendation),
            ),
            (
                ec2(change, json!({"instance-id": "i-1", "state": "shutting-down"})),
                one(News::StateChange(InstanceState::ShuttingDown)),
            ),
            (
                ec2(change, json!({"instance-id": "i-1", "state": "dreaming"})),
                other("aws.ec2 EC2 Instance State-change Notification"),
            ),
            (
                ec2(
                    "EC2 Capacity Reservation Instance Interruption Warning",
                    json!({"instance-id": "i-1", "instance-action": "terminate"}),
                ),
                one(News::ReservationInterruption),
            ),
            (
                health("EC2", "scheduledChange", "upcoming"),
                (News::ScheduledChange { code }, vec!["i-1".to_owned(), "i-2".to_owned()]),
            ),
            (health("EC2", "scheduledChange", "closed"), other("aws.health AWS Health Event")),
            (health("EC2", "issue", "open"), other("aws.health AWS Health Event")),
            (health("RDS", "scheduledChange", "open"), other("aws.health AWS Health Event")),
            (event("aws.autoscaling", "EC2 Instance Launch Successful", &json!({})), {
                other("aws.autoscaling EC2 Instance Launch Successful")
            }),
        ];
        for (body, expected) in table {
            let message = decode_event(&body).unwrap();
            assert_eq!((message.news, message.instances), expected, "{body}");
            assert_eq!(message.at.to_string(), "2026-11-11T21:29:54Z");
        }
    }

    #[test]
    fn what_is_no_event_is_refused_without_telling_what_it_holds() {
        let secret = "hunter2";
        let deep = format!("{{\"detail\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let no_id = event("aws.ec2", "EC2 Instance Rebalance Recommendation", &json!({"id": secret}));
        let bodies = [
            String::new(),
            secret.to_owned(),
            "null".to_owned(),
            "[]".to_owned(),
            format!("{{\"id\": \"{secret}\"}}"),
            format!("{{\"id\": 1, \"detail-type\": \"{secret}\"}}"),
            no_id,
            deep,
            "x".repeat(LARGEST_BYTES + 1),
            event("aws.ec2", "a", &json!({})).replace("2026-11-11T21:29:54Z", secret),
        ];
        for body in bodies {
            let refused = decode_event(&body).unwrap_err();
            assert!(!refused.to_string().contains(secret), "{refused}");
            assert_eq!((refused.bytes, refused.sha256.len()), (body.len(), 64));
        }
    }

    /// Whatever becomes of a message on the way, reading it ends in an answer.
    #[test]
    fn cut_and_garbled_messages_are_answered() {
        let body = event("aws.ec2", "EC2 Spot Instance Interruption Warning", &json!({"instance-id": "i-1"}));
        for length in 0..body.len() {
            assert!(decode_event(&body[..length]).is_err(), "{length}");
            let garbled = format!("{}\u{0}{}", &body[..length], &body[length..]);
            let _ = decode_event(&garbled);
        }
    }
}
