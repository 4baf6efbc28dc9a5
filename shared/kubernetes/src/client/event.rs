//! Events about pods, nodes, NodeClaims and what users wrote, as `kubectl describe` shows them.

use jiff::Timestamp;
use outrigger_engine::ports::{ClusterError, Event, Subject};
use outrigger_model::configured_object::FIELD_MANAGER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::transport::{Call, MERGE_PATCH, Transport};
use super::{parse, refusal};

/// The API server takes no longer message.
const MAX_MESSAGE_BYTES: usize = 1_024;
/// Leaves room for the hash in a name of at most 253.
const MAX_NAME_BYTES: usize = 230;

/// Makes an event, or raises the count of the one that says the same already. Losing a race for the
/// count is fine: whoever won it has said the same.
pub(super) async fn publish(transport: &Transport, event: &Event) -> Result<(), ClusterError> {
    let attempted = format!("publish an event about {}", event.about);
    let events = format!("/api/v1/namespaces/{}/events", Involved::new(&event.about).events_in);
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let call = Call::create(&attempted, &events, &object(event, &now));
    match transport.send(&call).await {
        Err(error) if refusal(&error) == Some(409) => {}
        answer => return answer.map(drop),
    }
    let address = format!("{events}/{}", name(event));
    let call = Call::get(&attempted, &address);
    let present: Value = match transport.send(&call).await {
        // It has just expired; the next time makes it anew.
        Err(error) if refusal(&error) == Some(404) => return Ok(()),
        answer => parse(&call, &answer?)?,
    };
    let count = present.get("count").and_then(Value::as_i64).unwrap_or(1);
    let patch = json!({
        "metadata": { "resourceVersion": present.pointer("/metadata/resourceVersion") },
        "count": count.saturating_add(1),
        "lastTimestamp": now,
    });
    match transport.send(&Call::patch(attempted, address, MERGE_PATCH, &patch)).await {
        Err(error) if matches!(refusal(&error), Some(404 | 409)) => Ok(()),
        answer => answer.map(drop),
    }
}

/// An object as an event names it.
struct Involved<'a> {
    api_version: &'a str,
    kind: &'a str,
    namespace: Option<&'a str>,
    name: &'a str,
    uid: &'a str,
    /// The namespace of the event itself: that of the object, or `default` for those that have
    /// none.
    events_in: &'a str,
}

impl<'a> Involved<'a> {
    fn new(about: &'a Subject) -> Self {
        let of_cluster = |api_version, kind, name: &'a str, uid: &'a str| Self {
            api_version,
            kind,
            namespace: None,
            name,
            uid,
            events_in: "default",
        };
        match about {
            Subject::Pod { id, uid } => Self {
                api_version: "v1",
                kind: "Pod",
                namespace: Some(&id.namespace),
                name: &id.name,
                uid,
                events_in: &id.namespace,
            },
            Subject::Node { name, uid } => of_cluster("v1", "Node", name, uid),
            Subject::NodeClaim { name, uid } => of_cluster("karpenter.sh/v1", "NodeClaim", name, uid),
            Subject::Configured(object) => Self {
                api_version: &object.api_version,
                kind: object.kind.as_str(),
                namespace: object.namespace.as_deref(),
                name: &object.name,
                uid: &object.uid,
                events_in: object.namespace.as_deref().unwrap_or("default"),
            },
        }
    }
}

fn object(event: &Event, now: &str) -> Value {
    let involved = Involved::new(&event.about);
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "namespace": involved.events_in, "name": name(event) },
        "involvedObject": {
            "apiVersion": involved.api_version,
            "kind": involved.kind,
            "namespace": involved.namespace,
            "name": involved.name,
            "uid": involved.uid,
        },
        "type": if event.reason.is_warning() { "Warning" } else { "Normal" },
        "reason": event.reason.into_str(),
        "message": cut(&event.message, MAX_MESSAGE_BYTES),
        "source": { "component": FIELD_MANAGER },
        "reportingComponent": FIELD_MANAGER,
        "reportingInstance": FIELD_MANAGER,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    })
}

/// The object's name and a hash of its uid and of what is said: the same again is the same object.
fn name(event: &Event) -> String {
    let involved = Involved::new(&event.about);
    let digest: [u8; 32] = Sha256::new()
        .chain_update(involved.uid.as_bytes())
        .chain_update([0])
        .chain_update(event.reason.into_str().as_bytes())
        .chain_update([0])
        .chain_update(event.message.as_bytes())
        .finalize()
        .into();
    let hash = digest.iter().take(8).fold(0_u64, |hash, byte| hash << 8 | u64::from(*byte));
    let object = cut(involved.name, MAX_NAME_BYTES).trim_end_matches(['.', '-']);
    format!("{object}.{hash:016x}")
}

fn cut(text: &str, max_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(max_bytes)]
}
