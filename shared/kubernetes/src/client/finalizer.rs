//! Deleting what our finalizer keeps.

use outrigger_engine::ports::ClusterError;
use outrigger_model::labels;
use serde_json::{Value, json};

use super::transport::{Call, MERGE_PATCH, Transport};
use super::{parse, refusal};

/// Deletes an object and takes our finalizer off it; finalizers of others stay. An object that is
/// gone, or another one under the same name where the call names a uid, is fine.
pub(super) async fn delete(
    transport: &Transport,
    call: Call,
    path: &str,
    what: String,
) -> Result<(), ClusterError> {
    let body = match transport.send(&call).await {
        Err(error) if matches!(refusal(&error), Some(404 | 409)) => return Ok(()),
        answer => answer?,
    };
    let deleted: Value = parse(&call, &body)?;
    without_ours(transport, &deleted, call.attempted, path, what).await
}

/// Takes our finalizer off an object that stays. One that is gone is fine.
pub(super) async fn take_off(transport: &Transport, attempted: &str, path: &str) -> Result<(), ClusterError> {
    let call = Call::get(attempted, path);
    let body = match transport.send(&call).await {
        Err(error) if refusal(&error) == Some(404) => return Ok(()),
        answer => answer?,
    };
    let object: Value = parse(&call, &body)?;
    without_ours(transport, &object, call.attempted, path, "the object".into()).await
}

async fn without_ours(
    transport: &Transport,
    object: &Value,
    attempted: String,
    path: &str,
    what: String,
) -> Result<(), ClusterError> {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    let finalizers = finalizers.map(Vec::as_slice).unwrap_or_default();
    let others: Vec<&Value> =
        finalizers.iter().filter(|finalizer| *finalizer != labels::TERMINATION_FINALIZER).collect();
    if others.len() == finalizers.len() {
        return Ok(());
    }
    let version = object.pointer("/metadata/resourceVersion");
    let without = json!({ "metadata": { "resourceVersion": version, "finalizers": others } });
    match transport.send(&Call::patch(attempted, path, MERGE_PATCH, &without)).await {
        Err(error) if refusal(&error) == Some(404) => Ok(()),
        Err(error) if refusal(&error) == Some(409) => Err(ClusterError::Changed { what }),
        answer => answer.map(drop),
    }
}
