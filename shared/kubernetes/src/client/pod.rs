//! Nominations of pods.

use outrigger_engine::ports::ClusterError;
use outrigger_model::NominatedPod;
use serde_json::json;

use super::transport::{Call, JSON_PATCH, Transport};

/// Sets `status.nominatedNodeName` of a pod that still has this uid and is not bound.
///
/// The patch itself tests both, so that nothing can change between looking and writing. A test that fails is 422, a pod
/// that is gone 404; either way there is nothing left to nominate. A refusal that names the field is about the node's
/// name, and is an error.
pub(super) async fn nominate(
    transport: &Transport,
    nominated: &NominatedPod,
    node: &str,
) -> Result<(), ClusterError> {
    let patch = json!([
        { "op": "test", "path": "/metadata/uid", "value": nominated.uid },
        { "op": "test", "path": "/spec/nodeName", "value": null },
        { "op": "add", "path": "/status/nominatedNodeName", "value": node },
    ]);
    let pod = &nominated.pod;
    let status = format!("/api/v1/namespaces/{}/pods/{}/status", pod.namespace, pod.name);
    let call = Call::patch(format!("nominate the pod {pod} for the node {node}"), status, JSON_PATCH, &patch);
    match transport.send(&call).await {
        Err(ClusterError::Refused { status: 404 | 409 | 422, message, .. })
            if !message.contains("nominatedNodeName") =>
        {
            tracing::debug!(%pod, node, message, "the pod is not nominated");
            Ok(())
        }
        answer => answer.map(drop),
    }
}
