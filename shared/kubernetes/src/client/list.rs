//! Lists, page by page: each page is turned into the model and dropped before the next one is asked
//! for.
//!
//! The server compresses what is larger than 128 KiB, since kube asks for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::{apps, core};
use outrigger_engine::ports::{ClusterError, ClusterState, Cursor, Scope};
use outrigger_model::{DaemonSet, Invalid, Node, Pod, labels};
use serde::Deserialize;
use serde_json::value::RawValue;
use url::form_urlencoded;

use super::transport::{Call, Transport};
use super::{lock, refusal, unreadable};
use crate::convert::{self, Interner};
use crate::wire;

/// Pods that use nothing any more are left on the server; to a watch, a pod that finishes is gone.
pub(super) const UNFINISHED: &str = "status.phase!=Succeeded,status.phase!=Failed";
/// The same without a node: to a watch, a pod that gets one is gone.
const UNSCHEDULED: &str = "spec.nodeName=,status.phase!=Succeeded,status.phase!=Failed";

const PAGE_SIZE: &str = "500";
/// How often a list starts again after its continue token has expired.
const MAX_RESTARTS: u32 = 2;

/// Something that can be listed.
pub(super) struct Collection<'a> {
    /// In words, as `list pods`.
    pub(super) attempted: &'a str,
    /// The path.
    pub(super) path: &'a str,
    /// The field selector; empty for everything.
    pub(super) fields: &'a str,
    /// The label selector; empty for everything.
    pub(super) labels: &'a str,
}

impl<'a> Collection<'a> {
    /// All objects under a path.
    pub(super) const fn new(attempted: &'a str, path: &'a str) -> Self {
        Self { attempted, path, fields: "", labels: "" }
    }

    /// Its address with further parameters of the query.
    pub(super) fn address(&self, parameters: &[(&str, &str)]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(parameters);
        let selectors = [("fieldSelector", self.fields), ("labelSelector", self.labels)];
        query.extend_pairs(selectors.iter().filter(|(_, selector)| !selector.is_empty()));
        format!("{}?{}", self.path, query.finish())
    }
}

pub(super) const NODES: Collection<'_> = Collection::new("list nodes", "/api/v1/nodes");
const CLOSED_NODES: Collection<'_> = Collection { labels: labels::EXCLUDE_FROM_LOAD_BALANCERS, ..NODES };
pub(super) const PODS: Collection<'_> =
    Collection { fields: UNFINISHED, ..Collection::new("list pods", "/api/v1/pods") };
const UNSCHEDULED_PODS: Collection<'_> = Collection { fields: UNSCHEDULED, ..PODS };
pub(super) const DAEMON_SETS: Collection<'_> = Collection::new("list daemonsets", "/apis/apps/v1/daemonsets");

/// The nodes of a scope.
pub(super) const fn nodes_of(scope: Scope) -> &'static Collection<'static> {
    match scope {
        Scope::Unscheduled => &CLOSED_NODES,
        Scope::Nodes | Scope::Everything => &NODES,
    }
}

/// The pods of a scope, where it has any.
pub(super) const fn pods_of(scope: Scope) -> Option<&'static Collection<'static>> {
    match scope {
        Scope::Unscheduled => Some(&UNSCHEDULED_PODS),
        Scope::Nodes => None,
        Scope::Everything => Some(&PODS),
    }
}

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageMetadata {
    resource_version: String,
    #[serde(rename = "continue")]
    next: String,
}

/// Nodes before pods: what changes in between then makes the plan buy too little rather than too
/// much.
pub(super) async fn cluster(
    transport: &Transport,
    interner: &Mutex<Interner>,
    scope: Scope,
) -> Result<(ClusterState, Cursor), ClusterError> {
    let (nodes, nodes_version) = nodes(transport, nodes_of(scope)).await?;
    let (pods, pods_version) = match pods_of(scope) {
        Some(collection) => pods(transport, interner, collection).await?,
        None => Default::default(),
    };
    let daemon_sets = match scope {
        Scope::Everything => daemon_sets(transport, interner).await?,
        Scope::Unscheduled | Scope::Nodes => Vec::new(),
    };
    let cursor = Cursor { scope, nodes: nodes_version, pods: pods_version };
    Ok((ClusterState { nodes, pods, daemon_sets }, cursor))
}

async fn pods(
    transport: &Transport,
    interner: &Mutex<Interner>,
    collection: &Collection<'_>,
) -> Result<(BTreeMap<String, Pod>, String), ClusterError> {
    let take = |pods: &mut BTreeMap<String, Pod>, json: &str| {
        let read = wire::read_in_part::<core::v1::Pod>("Pod", json);
        match read.and_then(|pod| convert::pod_in_part(pod, &mut lock(interner))) {
            Ok(pod) => drop(pods.insert(pod.uid.clone(), pod)),
            Err(invalid) => skip(&invalid),
        }
        Ok(())
    };
    collect(transport, collection, take).await
}

async fn daemon_sets(
    transport: &Transport,
    interner: &Mutex<Interner>,
) -> Result<Vec<DaemonSet>, ClusterError> {
    let take = |daemon_sets: &mut Vec<DaemonSet>, json: &str| {
        let read = wire::read_in_part::<apps::v1::DaemonSet>("DaemonSet", json);
        match read.and_then(|set| convert::daemon_set_in_part(set, &mut lock(interner))) {
            Ok(set) => daemon_sets.push(set),
            Err(invalid) => skip(&invalid),
        }
        Ok(())
    };
    collect(transport, &DAEMON_SETS, take).await.map(|(daemon_sets, _)| daemon_sets)
}

/// Nodes by name, and the version of the list. One that cannot be read whole is degraded and fails
/// nothing.
pub(super) async fn nodes(
    transport: &Transport,
    collection: &Collection<'_>,
) -> Result<(BTreeMap<String, Arc<Node>>, String), ClusterError> {
    let take = |nodes: &mut BTreeMap<String, Arc<Node>>, json: &str| {
        match wire::read_in_part::<core::v1::Node>("Node", json).and_then(convert::node_in_part) {
            Ok(node) => drop(nodes.insert(node.name.clone(), Arc::new(node))),
            Err(invalid) => skip(&invalid),
        }
        Ok(())
    };
    collect(transport, collection, take).await
}

/// An unusable object is left out, and said so.
pub(super) fn skip(invalid: &Invalid) {
    tracing::warn!(object = invalid.object, %invalid, "the object cannot be used and is left out");
}

/// All items of a collection, and its version. A page that fails fails the list; an expired
/// continue token starts it again, so that pages of two versions are never mixed.
pub(super) async fn collect<T: Default + Send>(
    transport: &Transport,
    collection: &Collection<'_>,
    mut take: impl FnMut(&mut T, &str) -> Result<(), ClusterError> + Send,
) -> Result<(T, String), ClusterError> {
    for _ in 0..=MAX_RESTARTS {
        match collect_once(transport, collection, &mut take).await {
            Err(error) if refusal(&error) == Some(410) => {
                tracing::info!(attempted = collection.attempted, "the list took too long and starts again");
            }
            Ok(None) => {
                tracing::info!(
                    attempted = collection.attempted,
                    "the list changed its version and starts again"
                );
            }
            Ok(Some(collected)) => return Ok(collected),
            Err(error) => return Err(error),
        }
    }
    Err(ClusterError::Changed { what: format!("what it takes to {}", collection.attempted) })
}

async fn collect_once<T: Default + Send>(
    transport: &Transport,
    collection: &Collection<'_>,
    take: &mut (impl FnMut(&mut T, &str) -> Result<(), ClusterError> + Send),
) -> Result<Option<(T, String)>, ClusterError> {
    let mut collected = T::default();
    let take = |_: &[u8], items: Vec<&RawValue>| {
        items.into_iter().try_for_each(|item| take(&mut collected, item.get()))
    };
    let version = pages(transport, collection, take).await?;
    Ok(version.map(|version| (collected, version)))
}

/// Hands on each page of a collection, whole and as its items. Returns the version of the list;
/// `None` where that is not the same for all pages.
pub(super) async fn pages(
    transport: &Transport,
    collection: &Collection<'_>,
    mut take: impl FnMut(&[u8], Vec<&RawValue>) -> Result<(), ClusterError> + Send,
) -> Result<Option<String>, ClusterError> {
    let mut version: Option<String> = None;
    let mut next = String::new();
    loop {
        let mut parameters = vec![("limit", PAGE_SIZE)];
        parameters.extend((!next.is_empty()).then_some(("continue", next.as_str())));
        let call = Call::get(collection.attempted, collection.address(&parameters));
        let body = transport.send(&call).await?;
        let page: Page<'_> =
            serde_json::from_slice(&body).map_err(|error| unreadable(call.attempted, error.into()))?;
        let page_version = page.metadata.resource_version;
        if version.get_or_insert_with(|| page_version.clone()) != &page_version {
            return Ok(None);
        }
        take(&body, page.items.unwrap_or_default())?;
        next = page.metadata.next;
        if next.is_empty() {
            return Ok(Some(page_version));
        }
    }
}
