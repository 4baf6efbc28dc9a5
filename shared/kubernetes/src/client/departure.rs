//! Pods that have to leave their node.

use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core;
use outrigger_engine::ports::{ClusterError, Eviction, PodOnNode};
use outrigger_model::{Invalid, Pod};
use serde_json::json;

use super::list::{Collection, collect, skip};
use super::transport::{Call, Transport};
use super::{lock, refusal};
use crate::convert::{self, Interner};
use crate::wire::{self, Part};

/// What the API server gives a pod that says nothing of it.
const DEFAULT_GRACE_SECONDS: i64 = 30;

/// All pods of a node. One that cannot be read whole is degraded, and leaves as any other.
pub(super) async fn pods_on(
    transport: &Transport,
    interner: &Mutex<Interner>,
    node: &str,
) -> Result<Vec<PodOnNode>, ClusterError> {
    let attempted = format!("list the pods of the node {node}");
    let fields = format!("spec.nodeName={node}");
    let pods = Collection { fields: &fields, ..Collection::new(&attempted, "/api/v1/pods") };
    let take = |pods: &mut Vec<PodOnNode>, json: &str| {
        let read = wire::read_in_part::<core::v1::Pod>("Pod", json);
        match read.and_then(|pod| pod_on_node(pod, &mut lock(interner))) {
            Ok(on) => pods.push(on),
            Err(invalid) => skip(&invalid),
        }
        Ok(())
    };
    collect(transport, &pods, take).await.map(|(pods, _)| pods)
}

fn pod_on_node(read: Part<core::v1::Pod>, interner: &mut Interner) -> Result<PodOnNode, Invalid> {
    let wire = &read.object;
    let grace = wire.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    Ok(PodOnNode {
        deleting_until: wire.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        grace: Duration::from_secs(u64::try_from(grace.unwrap_or(DEFAULT_GRACE_SECONDS)).unwrap_or(0)),
        pod: convert::pod_in_part(read, interner)?,
    })
}

/// Asks a pod to leave. 429 is a budget that has nothing to give, unless the server is only busy;
/// 500 with these words is several budgets for one pod; 404 and 409 are a pod that is gone, or
/// another of its name.
pub(super) async fn evict(transport: &Transport, pod: &Pod) -> Result<Eviction, ClusterError> {
    let id = &pod.id;
    let path = format!("/api/v1/namespaces/{}/pods/{}/eviction", id.namespace, id.name);
    let eviction = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": { "namespace": id.namespace, "name": id.name },
        "deleteOptions": { "preconditions": { "uid": pod.uid } },
    });
    match transport.send(&Call::create(format!("evict the pod {id}"), path, &eviction)).await {
        Ok(_) => Ok(Eviction::Accepted),
        Err(ClusterError::Refused { status: 404 | 409, .. }) => Ok(Eviction::Gone),
        Err(ClusterError::Refused { status: 429, message, .. }) if message.contains("disruption budget") => {
            Ok(Eviction::Blocked { why: message })
        }
        Err(ClusterError::Refused { status: 500, message, .. })
            if message.contains("PodDisruptionBudget") =>
        {
            Ok(Eviction::Blocked { why: message })
        }
        Err(error) => Err(error),
    }
}

/// Deletes a pod whatever protects it.
pub(super) async fn delete(transport: &Transport, pod: &Pod, grace: Duration) -> Result<(), ClusterError> {
    let id = &pod.id;
    let options = json!({
        "gracePeriodSeconds": grace.as_secs().max(1),
        "preconditions": { "uid": pod.uid },
    });
    let path = format!("/api/v1/namespaces/{}/pods/{}", id.namespace, id.name);
    match transport.send(&Call::delete(format!("delete the pod {id}"), path, &options)).await {
        Err(error) if matches!(refusal(&error), Some(404 | 409)) => Ok(()),
        answer => answer.map(drop),
    }
}
