//! Pods pointed at nodes and bound to them, and which of them their ReplicaSets end first.

use outrigger_engine::ports::{Binding, ClusterError};
use outrigger_model::configured_object::FIELD_MANAGER;
use outrigger_model::{CostSetter, DeletionCost, NominatedPod, Pod};
use serde_json::{Value, json};

use super::transport::{APPLY_PATCH, Call, JSON_PATCH, Transport};

/// Sets `status.nominatedNodeName` of a pod that still has this uid and is not bound.
///
/// The patch itself tests both, so that nothing can change between looking and writing. A test that
/// fails is 422, a pod that is gone 404; either way there is nothing left to nominate. A refusal
/// that names the field is about the node's name, and is an error.
pub(super) async fn nominate(
    transport: &Transport,
    nominated: &NominatedPod,
    node: &str,
) -> Result<(), ClusterError> {
    let patch = nomination(nominated, node);
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

/// The patch that nominates a pod.
fn nomination(nominated: &NominatedPod, node: &str) -> Value {
    json!([
        { "op": "test", "path": "/metadata/uid", "value": nominated.uid },
        { "op": "test", "path": "/spec/nodeName", "value": null },
        { "op": "add", "path": "/status/nominatedNodeName", "value": node },
    ])
}

/// Binds a pod that still has this uid and no node.
///
/// The API server makes sure of both: the uid in the binding is a precondition, and a pod that has
/// a node is refused, with 409 either way. A call that is sent again because its answer was lost is
/// refused, too, and the pod is where it was to be.
pub(super) async fn bind(
    transport: &Transport,
    planned: &NominatedPod,
    node: &str,
) -> Result<Binding, ClusterError> {
    let pod = &planned.pod;
    let path = format!("/api/v1/namespaces/{}/pods/{}/binding", pod.namespace, pod.name);
    let call = Call::post(format!("bind the pod {pod} to the node {node}"), path, &binding(planned, node));
    match transport.send(&call).await {
        Ok(_) => Ok(Binding::Made),
        Err(ClusterError::Refused { status: 404 | 409, message, .. }) => {
            tracing::debug!(%pod, node, message, "the pod is not bound");
            Ok(Binding::Missed)
        }
        Err(error) => Err(error),
    }
}

/// The binding of a pod.
fn binding(planned: &NominatedPod, node: &str) -> Value {
    let pod = &planned.pod;
    json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": { "namespace": pod.namespace, "name": pod.name, "uid": planned.uid },
        "target": { "apiVersion": "v1", "kind": "Node", "name": node },
    })
}

/// Applies our annotations about a pod's deletion cost, or none, so that what we applied before
/// goes.
///
/// The status is applied, not the pod: there the API server takes changes of annotations and
/// ignores those of the spec, so that a right to it is none to change images. A value that somebody
/// else has set is a conflict, 409, and a pod that is gone 404. The uid is a precondition: another
/// pod of the name is refused with 422, since a uid cannot be changed.
pub(super) async fn set_deletion_cost(
    transport: &Transport,
    pod: &Pod,
    cost: Option<i32>,
) -> Result<(), ClusterError> {
    let id = &pod.id;
    let ours = cost.map(|cost| DeletionCost { cost, set_by: CostSetter::Outrigger }.annotations());
    let body = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": id.namespace,
            "name": id.name,
            "uid": pod.uid,
            "annotations": ours.unwrap_or_default(),
        },
    });
    let status =
        format!("/api/v1/namespaces/{}/pods/{}/status?fieldManager={FIELD_MANAGER}", id.namespace, id.name);
    let call = Call::patch(format!("set the deletion cost of the pod {id}"), status, APPLY_PATCH, &body);
    match transport.send(&call).await {
        Err(ClusterError::Refused { status, message, .. })
            if matches!(status, 404 | 409) || status == 422 && message.contains("metadata.uid") =>
        {
            tracing::debug!(pod = %id, message, "the pod keeps its deletion cost");
            Ok(())
        }
        answer => answer.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::PodRef;

    /// A StatefulSet makes its pods again under their names: without the uid a successor would be
    /// taken for the pod.
    #[test]
    fn a_pod_is_bound_and_nominated_by_its_uid() {
        let pod = PodRef { namespace: "default".into(), name: "db-0".into() };
        let planned = NominatedPod { pod, uid: "first".into() };
        assert_eq!(binding(&planned, "n").pointer("/metadata/uid"), Some(&json!("first")));
        let nomination = nomination(&planned, "n");
        let test = json!({ "op": "test", "path": "/metadata/uid", "value": "first" });
        assert_eq!(nomination.pointer("/0"), Some(&test));
    }
}
