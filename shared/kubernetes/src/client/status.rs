//! What people see of the objects that they wrote, and the Lease of a Karpenter that may write it
//! too.

use outrigger_engine::ports::ClusterError;
use outrigger_model::configured_object::FIELD_MANAGER;
use outrigger_model::karpenter_lease::{NAME, NAMESPACE};
use outrigger_model::{ConfiguredRef, ConfiguredStatus, LeaderLease};
use serde_json::{Value, json};

use super::transport::{APPLY_PATCH, Call, Transport};
use super::{parse, refusal, unreadable};

/// Applies the status: conditions are ours by their type, and those of others stay. One that is
/// made anew under the same name shows it until the next tick, since the API server does not look
/// at the uid here.
pub(super) async fn write(
    transport: &Transport,
    object: &ConfiguredRef,
    status: &ConfiguredStatus,
) -> Result<(), ClusterError> {
    let ConfiguredRef { kind, api_version, namespace, name, .. } = object;
    let within = namespace.as_ref().map(|namespace| format!("namespaces/{namespace}/")).unwrap_or_default();
    let path = format!(
        "/apis/{api_version}/{within}{}/{name}/status?fieldManager={FIELD_MANAGER}&force=true",
        kind.plural()
    );
    let mut metadata = json!({"name": name});
    if let (Some(namespace), Some(metadata)) = (namespace, metadata.as_object_mut()) {
        metadata.insert("namespace".into(), json!(namespace));
    }
    let body =
        json!({"apiVersion": api_version, "kind": kind.as_str(), "metadata": metadata, "status": status});
    let call = Call::patch(format!("write the status of {object}"), path, APPLY_PATCH, &body);
    match transport.send(&call).await {
        Err(error) if refusal(&error) == Some(404) => Ok(()),
        answer => answer.map(drop),
    }
}

/// The Lease of Karpenter's leader.
pub(super) async fn karpenter_lease(transport: &Transport) -> Result<Option<LeaderLease>, ClusterError> {
    let call = karpenter_lease_call();
    let body = match transport.send(&call).await {
        Err(error) if refusal(&error) == Some(404) => return Ok(None),
        answer => answer?,
    };
    let object: Value = parse(&call, &body)?;
    LeaderLease::read(&object).map(Some).map_err(|error| unreadable(call.attempted, error.into()))
}

/// The call that reads it.
pub(super) fn karpenter_lease_call() -> Call {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}");
    Call::get("read Karpenter's Lease", path)
}
