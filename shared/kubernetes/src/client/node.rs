//! Single nodes: read, changed, and released at their end.

use k8s_openapi::api::core;
use outrigger_engine::ports::{ClusterError, NodeChange};
use outrigger_model::Node;
use serde_json::{Map, Value, json};

use super::transport::{Call, MERGE_PATCH, Transport};
use super::{finalizer, refusal, unreadable};
use crate::{convert, wire};

/// One node; `None` when there is none of this name.
pub(super) async fn read(transport: &Transport, name: &str) -> Result<Option<Node>, ClusterError> {
    let call = Call::get(format!("read the node {name}"), format!("/api/v1/nodes/{name}"));
    let body = match transport.send(&call).await {
        Err(error) if refusal(&error) == Some(404) => return Ok(None),
        answer => answer?,
    };
    let unreadable = |source| unreadable(call.attempted.clone(), source);
    let json = std::str::from_utf8(&body).map_err(|error| unreadable(error.into()))?;
    let node = wire::read_in_part::<core::v1::Node>("Node", json).and_then(convert::node_in_part);
    node.map(Some).map_err(|invalid| unreadable(invalid.into()))
}

/// Changes a node while it still has the version that was read.
///
/// A merge patch replaces taints and finalizers whole. A strategic patch would merge them by key, and lose one of two
/// taints that differ only in their effect. Taints that nobody here understands are written back as they were read.
pub(super) async fn change(transport: &Transport, change: &NodeChange) -> Result<(), ClusterError> {
    // A merge patch removes what it sets to null.
    let set = change.labels.iter().map(|(key, value)| (key.as_str(), json!(value)));
    let labels: Map<String, Value> = set
        .chain(change.gone_labels.iter().map(|key| (key.as_str(), Value::Null)))
        .map(|(k, v)| (k.to_owned(), v))
        .collect();
    let foreign = change.foreign_taints.iter().map(|taint| json!(taint));
    let taints: Vec<Value> = change.taints.iter().map(|taint| json!(taint)).chain(foreign).collect();
    let patch = json!({
        "metadata": {
            "resourceVersion": change.resource_version,
            "labels": labels,
            "annotations": change.annotations,
            "finalizers": change.finalizers,
        },
        "spec": { "taints": taints },
    });
    let attempted = format!("change the node {}", change.name);
    let call = Call::patch(attempted, format!("/api/v1/nodes/{}", change.name), MERGE_PATCH, &patch);
    match transport.send(&call).await {
        Err(error) if matches!(refusal(&error), Some(404 | 409)) => {
            Err(ClusterError::Changed { what: format!("the node {}", change.name) })
        }
        answer => answer.map(drop),
    }
}

/// Deletes the node of this uid, and takes our finalizer off it.
pub(super) async fn release(transport: &Transport, name: &str, uid: &str) -> Result<(), ClusterError> {
    let path = format!("/api/v1/nodes/{name}");
    let options = json!({ "preconditions": { "uid": uid } });
    let call = Call::delete(format!("release the node {name}"), &path, &options);
    finalizer::delete(transport, call, &path, format!("the node {name}")).await
}
