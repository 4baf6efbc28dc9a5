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
/// A merge patch replaces taints and finalizers whole. A strategic patch would merge them by key,
/// and lose one of two taints that differ only in their effect. Taints that nobody here understands
/// are written back as they were read.
pub(super) async fn change(transport: &Transport, change: &NodeChange) -> Result<(), ClusterError> {
    let attempted = format!("change the node {}", change.name);
    let path = format!("/api/v1/nodes/{}", change.name);
    match transport.send(&Call::patch(attempted, path, MERGE_PATCH, &patch(change))).await {
        Err(error) if matches!(refusal(&error), Some(404 | 409)) => {
            Err(ClusterError::Changed { what: format!("the node {}", change.name) })
        }
        answer => answer.map(drop),
    }
}

/// A change as the API server is told of it.
fn patch(change: &NodeChange) -> Value {
    // A merge patch removes what it sets to null.
    let set = change.labels.iter().map(|(key, value)| (key.as_str(), json!(value)));
    let labels: Map<String, Value> = set
        .chain(change.gone_labels.iter().map(|key| (key.as_str(), Value::Null)))
        .map(|(k, v)| (k.to_owned(), v))
        .collect();
    let foreign = change.foreign_taints.iter().map(|taint| json!(taint));
    let taints: Vec<Value> = change.taints.iter().map(|taint| json!(taint)).chain(foreign).collect();
    json!({
        "metadata": {
            "resourceVersion": change.resource_version,
            "labels": labels,
            "annotations": change.annotations,
            "finalizers": change.finalizers,
        },
        "spec": { "taints": taints },
    })
}

/// Deletes the node of this uid, and takes our finalizer off it.
pub(super) async fn release(transport: &Transport, name: &str, uid: &str) -> Result<(), ClusterError> {
    let path = format!("/api/v1/nodes/{name}");
    let call = Call::delete(format!("release the node {name}"), &path, &only(uid));
    finalizer::delete(transport, call, &path, format!("the node {name}")).await
}

/// Deletes the node of this uid, and no other of its name.
fn only(uid: &str) -> Value {
    json!({ "preconditions": { "uid": uid } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// Without these the API server would take a change of an old reading, or delete another node
    /// of the name.
    #[test]
    fn a_change_names_the_version_that_was_read_and_a_deletion_the_uid() {
        let change = NodeChange {
            name: "n".into(),
            resource_version: "7".into(),
            labels: BTreeMap::new(),
            gone_labels: BTreeSet::new(),
            annotations: BTreeMap::new(),
            finalizers: Vec::new(),
            taints: Vec::new(),
            foreign_taints: Vec::new(),
        };
        assert_eq!(patch(&change).pointer("/metadata/resourceVersion"), Some(&json!("7")));
        assert_eq!(only("u").pointer("/preconditions/uid"), Some(&json!("u")));
    }
}
