//! Changes of nodes.

use outrigger_engine::ports::{ClusterError, NodeChange};
use serde_json::json;

use super::refusal;
use super::transport::{Call, MERGE_PATCH, Transport};

/// Changes a node while it still has the version that was read.
///
/// A merge patch replaces the taints whole. A strategic patch would merge them by key, and lose one of two taints that
/// differ only in their effect.
pub(super) async fn change(transport: &Transport, change: &NodeChange) -> Result<(), ClusterError> {
    let patch = json!({
        "metadata": {
            "resourceVersion": change.resource_version,
            "labels": change.labels,
            "annotations": change.annotations,
        },
        "spec": { "taints": change.taints },
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
