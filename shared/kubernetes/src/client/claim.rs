//! NodeClaim objects, through which people see what the ledger knows.

use std::collections::BTreeMap;

use outrigger_engine::adopt::NodeClaimRef;
use outrigger_engine::ports::{ClusterError, GoingDefinitions, Mirror};
use outrigger_model::configured_object::FIELD_MANAGER;
use outrigger_model::{NodeClaim, NodeClaimObject, OwnerReference, labels, node_claim_object};
use serde::Deserialize;
use serde_json::{Value, json};

use super::list::{Collection, collect};
use super::transport::{APPLY_PATCH, Call, MERGE_PATCH, Transport};
use super::{finalizer, parse, refusal, unreadable};

pub(super) const NODE_CLAIMS: Collection<'_> =
    Collection::new("list NodeClaims", "/apis/karpenter.sh/v1/nodeclaims");

/// Our objects and what they show; none where the definition is not installed. A version that is no
/// number counts as 0, which is older than any, so that the object is written again.
pub(super) async fn mirrors(transport: &Transport) -> Result<BTreeMap<String, Mirror>, ClusterError> {
    gather(transport, |mirrors: &mut BTreeMap<String, Mirror>, object| {
        let metadata = object.get("metadata");
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let field = |name: &str| text(metadata.and_then(|metadata| metadata.get(name)));
        let annotation = |key: &str| text(metadata.and_then(|m| m.get("annotations")?.get(key)));
        let version = annotation(labels::CLAIM_VERSION);
        if let (Some(name), Some(version)) = (field("name"), version) {
            let mirror = Mirror {
                uid: field("uid").unwrap_or_default(),
                version: version.parse().unwrap_or(0),
                deleting: field("deletionTimestamp").is_some(),
                do_not_disrupt: annotation(labels::DO_NOT_DISRUPT),
                delete_anyway: annotation(labels::DELETE_ANYWAY).as_deref() == Some("true"),
                owner: owners(object).into_iter().next().map(|owner| owner.uid),
            };
            mirrors.insert(name, mirror);
        }
    })
    .await
}

/// All objects, whosever they are; none where the definition is not installed.
pub(super) async fn all(transport: &Transport) -> Result<Vec<NodeClaimRef>, ClusterError> {
    gather(transport, |claims: &mut Vec<NodeClaimRef>, object| {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        claims.push(NodeClaimRef {
            name: text("/metadata/name").unwrap_or_default(),
            provider_id: text("/status/providerID").unwrap_or_default(),
            deleting: text("/metadata/deletionTimestamp").is_some(),
        });
    })
    .await
}

/// What is taken of each object; nothing where the definition is not installed.
async fn gather<T: Default + Send>(
    transport: &Transport,
    take: impl Fn(&mut T, &Value) + Send + Sync,
) -> Result<T, ClusterError> {
    let read = |gathered: &mut T, json: &str| {
        let object = serde_json::from_str(json)
            .map_err(|error| unreadable(NODE_CLAIMS.attempted.into(), error.into()))?;
        take(gathered, &object);
        Ok(())
    };
    match collect(transport, &NODE_CLAIMS, read).await {
        Ok((gathered, _)) => Ok(gathered),
        Err(error) if refusal(&error) == Some(404) => Ok(T::default()),
        Err(error) => Err(error),
    }
}

/// Which definitions are being deleted, or are gone.
pub(super) async fn going_definitions(transport: &Transport) -> Result<GoingDefinitions, ClusterError> {
    Ok(GoingDefinitions {
        node_claims: is_going(transport, "nodeclaims.karpenter.sh").await?,
        node_pools: is_going(transport, "nodepools.karpenter.sh").await?,
    })
}

async fn is_going(transport: &Transport, definition: &str) -> Result<bool, ClusterError> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{definition}");
    let call = Call::get(format!("read the CustomResourceDefinition {definition}"), path);
    let definition_object: Value = match transport.send(&call).await {
        Err(error) if refusal(&error) == Some(404) => return Ok(true),
        answer => parse(&call, &answer?)?,
    };
    Ok(definition_object.pointer("/metadata/deletionTimestamp").is_some())
}

/// The NodePools that own an object.
fn owners(object: &Value) -> Vec<OwnerReference> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let read = references.into_iter().flatten().filter_map(|one| OwnerReference::deserialize(one).ok());
    read.filter(OwnerReference::is_node_pool).collect()
}

/// Applies the status, then the object with the claim's version, as the one who owns all that is
/// said in them. The version comes last, so that what fails in between is written again.
pub(super) async fn mirror(
    transport: &Transport,
    claim: &NodeClaim,
    owner: Option<&OwnerReference>,
) -> Result<(), ClusterError> {
    let attempted = format!("mirror the NodeClaim {}", claim.name);
    let mut object = node_claim_object::mirror(claim);
    object.metadata.owner_references.extend(owner.cloned());
    let path = path(&claim.name);
    let apply = |part: &str, body: &Value| {
        let path = format!("{path}{part}?fieldManager={FIELD_MANAGER}&force=true");
        Call::patch(attempted.clone(), path, APPLY_PATCH, body)
    };
    let show = apply("/status", &status_of(&object));
    let shown = match transport.send(&show).await {
        Err(error) if refusal(&error) == Some(404) => {
            // Older than any claim: it shows nothing yet.
            transport.send(&apply("", &without_status(&object, 0))).await?;
            transport.send(&show).await?
        }
        answer => answer?,
    };
    let next = next(object, parse(&show, &shown)?, claim.version);
    transport.send(&apply("", &next)).await.map(drop)
}

/// What is applied to an object that is there. What an apply leaves out goes, so it names what must
/// stay: the spec, which may not be changed although the claim's requests grow, and the NodePools
/// that own it. Whoever takes an owner off meanwhile changes the version, and the apply is refused.
fn next(mut object: NodeClaimObject, mut shown: Value, version: u64) -> Value {
    let owners = owners(&shown);
    if !owners.is_empty() {
        object.metadata.owner_references = owners;
    }
    let mut next = without_status(&object, version);
    if let Some(spec) = shown.get_mut("spec") {
        next["spec"] = spec.take();
    }
    if let Some(version) = shown.pointer("/metadata/resourceVersion") {
        next["metadata"]["resourceVersion"] = version.clone();
    }
    next
}

fn status_of(object: &NodeClaimObject) -> Value {
    let NodeClaimObject { api_version, kind, metadata, status, .. } = object;
    json!({ "apiVersion": api_version, "kind": kind, "metadata": { "name": metadata.name }, "status": status })
}

fn without_status(object: &NodeClaimObject, version: u64) -> Value {
    let NodeClaimObject { api_version, kind, metadata, spec, .. } = object;
    let mut metadata = metadata.clone();
    metadata.annotations.insert(labels::CLAIM_VERSION.into(), version.to_string());
    json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec })
}

/// Deletes the object, and takes our finalizer off it; finalizers of others stay.
pub(super) async fn remove(transport: &Transport, name: &str) -> Result<(), ClusterError> {
    let attempted = format!("remove the NodeClaim {name}");
    let call = Call::delete(&attempted, path(name), &json!({}));
    let gone = format!("the NodeClaim {name}");
    finalizer::delete(transport, call, &path(name), gone).await
}

/// Says that the end of the object is meant, deletes it, and no more: our finalizer keeps it until
/// its node has ended.
pub(super) async fn delete(transport: &Transport, name: &str) -> Result<(), ClusterError> {
    let meant = json!({ "metadata": { "annotations": { labels::DELETE_ANYWAY: "true" } } });
    let mean = Call::patch(format!("delete the NodeClaim {name}"), path(name), MERGE_PATCH, &meant);
    gone_is_fine(transport.send(&mean).await)?;
    let call = Call::delete(format!("delete the NodeClaim {name}"), path(name), &json!({}));
    gone_is_fine(transport.send(&call).await)
}

/// Takes our finalizer off the object first, so that it is gone as soon as it is deleted.
pub(super) async fn forget(transport: &Transport, name: &str) -> Result<(), ClusterError> {
    let attempted = format!("forget the NodeClaim {name}");
    finalizer::take_off(transport, &attempted, &path(name)).await?;
    gone_is_fine(transport.send(&Call::delete(&attempted, path(name), &json!({}))).await)
}

fn gone_is_fine<T>(answer: Result<T, ClusterError>) -> Result<(), ClusterError> {
    match answer {
        Err(error) if refusal(&error) == Some(404) => Ok(()),
        answer => answer.map(drop),
    }
}

fn path(name: &str) -> String {
    format!("/apis/karpenter.sh/v1/nodeclaims/{name}")
}
