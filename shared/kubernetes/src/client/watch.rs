//! Changes of nodes and pods as they happen: two watches merged into one stream, which ends when
//! either does.
//!
//! No server that is in use compresses them.

use std::future::ready;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core;
use kube::core::WatchEvent;
use outrigger_engine::ports::{ClusterChange, ClusterError, Cursor};
use serde_json::Value;

use super::list::{Collection, nodes_of, pods_of, skip};
use super::transport::{Call, Transport, cause, refused};
use super::{lock, unreadable};
use crate::convert::{self, Interner};
use crate::wire;

/// The server ends the watch by then; the load balancers in front of API servers cut idle
/// connections at 350 s.
const SERVER_TIMEOUT_SECONDS: u32 = 290;
/// A watch that is open this long has lost its server.
const CLIENT_TIMEOUT: Duration = Duration::from_mins(5);

type Changes = BoxStream<'static, Result<ClusterChange, ClusterError>>;

/// Changes from the cursor on.
pub(super) async fn changes(
    transport: &Transport,
    interner: &Arc<Mutex<Interner>>,
    cursor: &Cursor,
) -> Result<Changes, ClusterError> {
    let nodes = open(transport, nodes_of(cursor.scope), "watch nodes", &cursor.nodes, node_change).await?;
    let interner = Arc::clone(interner);
    let pod = move |gone: bool, object: &Value| pod_change(gone, object, &interner);
    let pods = match pods_of(cursor.scope) {
        Some(collection) => open(transport, collection, "watch pods", &cursor.pods, pod).await?,
        None => stream::pending().boxed(),
    };
    let merged = stream::select(until_end(nodes), until_end(pods));
    let merged = merged.take_while(|change| ready(change.is_some())).filter_map(ready);
    let deadline = tokio::time::sleep(CLIENT_TIMEOUT);
    Ok(merged.take_until(deadline).boxed())
}

/// A watch of one collection. It ends after the first error.
async fn open(
    transport: &Transport,
    collection: &Collection<'_>,
    attempted: &'static str,
    version: &str,
    convert: impl Fn(bool, &Value) -> Option<ClusterChange> + Send + 'static,
) -> Result<Changes, ClusterError> {
    let call = Call::get(attempted, path(collection, version));
    let events = transport.watch(&call).await.map_err(|error| expired(error, attempted))?;
    let server = transport.server().to_owned();
    let changes = events.map(move |event| match event {
        Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => Ok(convert(false, &object)),
        Ok(WatchEvent::Deleted(object)) => Ok(convert(true, &object)),
        Ok(WatchEvent::Bookmark(_)) => Ok(None),
        Ok(WatchEvent::Error(status)) => Err(expired(refused(&call, status.code, status.message), attempted)),
        Err(kube::Error::Api(status)) => {
            Err(expired(refused(&call, status.code, status.message.clone()), attempted))
        }
        Err(kube::Error::SerdeError(error)) => Err(unreadable(attempted.into(), error.into())),
        Err(error) => Err(ClusterError::Unreachable {
            server: server.clone(),
            attempted: attempted.into(),
            source: cause(error),
        }),
    });
    let until_error = changes.scan(false, |failed, change| {
        let over = std::mem::replace(failed, change.is_err());
        ready((!over).then_some(change))
    });
    Ok(until_error.filter_map(|change| ready(change.transpose())).boxed())
}

fn path(collection: &Collection<'_>, version: &str) -> String {
    let seconds = SERVER_TIMEOUT_SECONDS.to_string();
    collection.address(&[
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", &seconds),
        ("resourceVersion", version),
    ])
}

/// Marks the end, so that the merged stream can see that one of its parts is over.
fn until_end(changes: Changes) -> impl futures::Stream<Item = Option<Result<ClusterChange, ClusterError>>> {
    changes.map(Some).chain(stream::once(ready(None)))
}

/// 410 says that the server no longer remembers the cursor's version.
fn expired(error: ClusterError, attempted: &str) -> ClusterError {
    match error {
        ClusterError::Refused { status: 410, .. } => {
            ClusterError::Changed { what: format!("the state from which to {attempted}") }
        }
        other => other,
    }
}

fn node_change(gone: bool, object: &Value) -> Option<ClusterChange> {
    if gone {
        return text_at(object, "/metadata/name").map(|name| ClusterChange::NodeGone { name });
    }
    let node = wire::read_value_in_part::<core::v1::Node>("Node", object).and_then(convert::node_in_part);
    let node = node.map_err(|invalid| skip(&invalid)).ok()?;
    Some(ClusterChange::Node(Arc::new(node)))
}

fn pod_change(gone: bool, object: &Value, interner: &Mutex<Interner>) -> Option<ClusterChange> {
    if gone {
        return text_at(object, "/metadata/uid").map(|uid| ClusterChange::PodGone { uid });
    }
    let pod = wire::read_value_in_part::<core::v1::Pod>("Pod", object);
    let pod = pod.and_then(|pod| convert::pod_in_part(pod, &mut lock(interner)));
    let pod = pod.map_err(|invalid| skip(&invalid)).ok()?;
    Some(ClusterChange::Pod(Box::new(pod)))
}

fn text_at(object: &Value, pointer: &str) -> Option<String> {
    object.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}
