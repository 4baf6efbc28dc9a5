//! Deleting what our finalizer keeps.

use outrigger_engine::ports::ClusterError;
use outrigger_model::labels;
use serde_json::{Value, json};

use super::transport::{Call, MERGE_PATCH, Transport};
use super::{parse, refusal};

/// Deletes an object and takes our finalizer off it; finalizers of others stay. An object that is gone, or another one under
/// the same name where the call names a uid, is fine.
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
    let finalizers = deleted.pointer("/metadata/finalizers").and_then(Value::as_array);
    let finalizers = finalizers.map(Vec::as_slice).unwrap_or_default();
    let others: Vec<&Value> =
        finalizers.iter().filter(|finalizer| *finalizer != labels::TERMINATION_FINALIZER).collect();
    if others.len() == finalizers.len() {
        return Ok(());
    }
    let version = deleted.pointer("/metadata/resourceVersion");
    let without = json!({ "metadata": { "resourceVersion": version, "finalizers": others } });
    match transport.send(&Call::patch(call.attempted, path, MERGE_PATCH, &without)).await {
        Err(error) if refusal(&error) == Some(404) => Ok(()),
        Err(error) if refusal(&error) == Some(409) => Err(ClusterError::Changed { what }),
        answer => answer.map(drop),
    }
}
