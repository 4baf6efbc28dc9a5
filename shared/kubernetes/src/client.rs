//! The [`Cluster`] port on kube-rs.

mod access;
mod claim;
mod clock;
mod configuration;
mod departure;
mod dump;
mod event;
mod finalizer;
mod glance;
mod list;
mod node;
mod pod;
mod related;
mod rights;
mod service_account;
mod status;
mod token;
mod transport;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::SignedDuration;
use outrigger_engine::adopt::NodeClaimRef;
use outrigger_engine::ports::{
    Attachment, Binding, Cluster, ClusterChange, ClusterError, ClusterState, Configuration, Cursor, Event,
    Eviction, Glance, GoingDefinitions, Mirror, NodeChange, PodOnNode, Scope, Volumes,
};
use outrigger_model::{
    ConfiguredRef, ConfiguredStatus, LeaderLease, Node, NodeClaim, NominatedPod, OwnerReference, Pod,
    PodDisruptionBudget, PodRef,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::convert::Interner;
use crate::dump::{Dump, DumpReader};
use crate::rights::Right;

pub use access::{Access, AccessError};
pub use service_account::{ServiceAccount, TokenClaims};
pub use token::{Token, TokenSource};
use transport::{Call, Transport};

/// A live cluster.
///
/// One of these may serve many ticks: what pods have in common is kept from one list to the next,
/// and a token until it is due.
pub struct KubernetesCluster {
    transport: Transport,
    interner: Arc<Mutex<Interner>>,
}

impl KubernetesCluster {
    /// How long one call may take where nobody is in a hurry, its repetitions and the answer read.
    pub const CALL_LIMIT: Duration = Duration::from_secs(15);

    /// A cluster behind an address, with tokens. Must be called within a tokio runtime.
    pub fn connect(access: Access) -> Result<Self, AccessError> {
        Ok(Self::over(access.transport()?))
    }

    /// A context of kubeconfig files, by default the current one. Of what several files say the
    /// first one counts, as with kubectl. Must be called within a tokio runtime.
    pub async fn from_kubeconfig(files: &[PathBuf], context: Option<&str>) -> Result<Self, AccessError> {
        Ok(Self::over(access::from_kubeconfig(files, context).await?))
    }

    /// The same with another limit for each call.
    #[must_use]
    pub fn with_call_limit(mut self, limit: Duration) -> Self {
        self.transport.set_call_limit(limit);
        self
    }

    /// A new token of a service account, which is good for `life`, at least 10 minutes. A server
    /// that bounds the lives of tokens makes one that ends earlier.
    pub async fn issue_token(&self, account: &ServiceAccount, life: Duration) -> Result<Token, ClusterError> {
        service_account::issue(&self.transport, account, life).await
    }

    /// Whether the API server takes a token.
    pub async fn is_accepted(&self, token: &str) -> Result<bool, ClusterError> {
        service_account::is_accepted(&self.transport, token).await
    }

    /// What rbac.yaml gives the group of a function, as `provision`, and the API server does not
    /// grant to us; in order.
    pub async fn missing_rights(&self, function: &str) -> Result<Vec<Right>, ClusterError> {
        rights::missing(&self.transport, function).await
    }

    /// All NodeClaim objects, whosever they are; none where the definition is not installed.
    pub async fn node_claims(&self) -> Result<Vec<NodeClaimRef>, ClusterError> {
        claim::all(&self.transport).await
    }

    /// All that a decision hangs on, beside what `reader` has taken in before; and what we lack the
    /// right to read, without which it is decided.
    pub async fn dump(&self, reader: DumpReader) -> Result<(Dump, Vec<ClusterError>), ClusterError> {
        dump::read(&self.transport, reader).await
    }

    fn over(transport: Transport) -> Self {
        Self { transport, interner: Arc::default() }
    }
}

/// Shows where the cluster is, never how one gets in.
impl fmt::Debug for KubernetesCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesCluster").field("server", &self.transport.server()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Cluster for KubernetesCluster {
    fn clock_difference(&self) -> Option<SignedDuration> {
        self.transport.clock_difference()
    }

    async fn uid(&self) -> Result<String, ClusterError> {
        let call = Call::get("read the namespace kube-system", "/api/v1/namespaces/kube-system");
        let namespace: Value = parse(&call, &self.transport.send(&call).await?)?;
        let uid = namespace.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        if uid.is_empty() {
            return Err(unreadable(call.attempted, "the namespace has no uid".into()));
        }
        Ok(uid.to_owned())
    }

    async fn configuration(&self) -> Result<Configuration, ClusterError> {
        configuration::read(&self.transport).await
    }

    async fn write_status(
        &self,
        object: &ConfiguredRef,
        status: &ConfiguredStatus,
    ) -> Result<(), ClusterError> {
        status::write(&self.transport, object, status).await
    }

    async fn karpenter_lease(&self) -> Result<Option<LeaderLease>, ClusterError> {
        status::karpenter_lease(&self.transport).await
    }

    async fn list(&self, scope: Scope) -> Result<(ClusterState, Cursor), ClusterError> {
        lock(&self.interner).forget_unused();
        list::cluster(&self.transport, &self.interner, scope).await
    }

    async fn watch(
        &self,
        cursor: Cursor,
    ) -> Result<BoxStream<'static, Result<ClusterChange, ClusterError>>, ClusterError> {
        watch::changes(&self.transport, &self.interner, &cursor).await
    }

    async fn volumes(&self, mounted: &BTreeSet<PodRef>) -> Result<Volumes, ClusterError> {
        related::volumes(&self.transport, mounted).await
    }

    async fn namespaces(&self) -> Result<BTreeMap<String, BTreeMap<String, String>>, ClusterError> {
        related::namespaces(&self.transport).await
    }

    async fn glance(&self) -> Result<Glance, ClusterError> {
        glance::glance(&self.transport).await
    }

    async fn nodes(&self) -> Result<Vec<Node>, ClusterError> {
        let (nodes, _) = list::nodes(&self.transport, &list::NODES).await?;
        Ok(nodes.into_values().map(Arc::unwrap_or_clone).collect())
    }

    async fn node(&self, name: &str) -> Result<Option<Node>, ClusterError> {
        node::read(&self.transport, name).await
    }

    async fn change_node(&self, change: &NodeChange) -> Result<(), ClusterError> {
        node::change(&self.transport, change).await
    }

    async fn release_node(&self, name: &str, uid: &str) -> Result<(), ClusterError> {
        node::release(&self.transport, name, uid).await
    }

    async fn pods_on(&self, node: &str) -> Result<Vec<PodOnNode>, ClusterError> {
        departure::pods_on(&self.transport, &self.interner, node).await
    }

    async fn evict(&self, pod: &Pod) -> Result<Eviction, ClusterError> {
        departure::evict(&self.transport, pod).await
    }

    async fn delete_pod(&self, pod: &Pod, grace: Duration) -> Result<(), ClusterError> {
        departure::delete(&self.transport, pod, grace).await
    }

    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, ClusterError> {
        related::disruption_budgets(&self.transport).await
    }

    async fn attachments(&self, nodes: &BTreeSet<String>) -> Result<Vec<Attachment>, ClusterError> {
        related::attachments(&self.transport, nodes).await
    }

    async fn nominate(&self, pod: &NominatedPod, node: &str) -> Result<(), ClusterError> {
        pod::nominate(&self.transport, pod, node).await
    }

    async fn bind(&self, pod: &NominatedPod, node: &str) -> Result<Binding, ClusterError> {
        pod::bind(&self.transport, pod, node).await
    }

    async fn set_deletion_cost(&self, pod: &Pod, cost: Option<i32>) -> Result<(), ClusterError> {
        pod::set_deletion_cost(&self.transport, pod, cost).await
    }

    async fn mirrors(&self) -> Result<BTreeMap<String, Mirror>, ClusterError> {
        claim::mirrors(&self.transport).await
    }

    async fn going_definitions(&self) -> Result<GoingDefinitions, ClusterError> {
        claim::going_definitions(&self.transport).await
    }

    async fn node_pool_uids(&self) -> Result<BTreeMap<String, String>, ClusterError> {
        configuration::node_pool_uids(&self.transport).await
    }

    async fn mirror_claim(
        &self,
        claim: &NodeClaim,
        owner: Option<&OwnerReference>,
    ) -> Result<(), ClusterError> {
        claim::mirror(&self.transport, claim, owner).await
    }

    async fn remove_mirror(&self, claim: &str) -> Result<(), ClusterError> {
        claim::remove(&self.transport, claim).await
    }

    async fn delete_mirror(&self, claim: &str) -> Result<(), ClusterError> {
        claim::delete(&self.transport, claim).await
    }

    async fn forget_mirror(&self, claim: &str) -> Result<(), ClusterError> {
        claim::forget(&self.transport, claim).await
    }

    async fn publish_event(&self, event: &Event) -> Result<(), ClusterError> {
        event::publish(&self.transport, event).await
    }
}

/// Reads an answer.
fn parse<T: DeserializeOwned>(call: &Call, body: &[u8]) -> Result<T, ClusterError> {
    serde_json::from_slice(body).map_err(|error| unreadable(call.attempted.clone(), error.into()))
}

fn unreadable(attempted: String, source: Box<dyn std::error::Error + Send + Sync>) -> ClusterError {
    ClusterError::Unreadable { attempted, source }
}

/// The HTTP status with which a call was refused.
fn refusal(error: &ClusterError) -> Option<u16> {
    match error {
        ClusterError::Refused { status, .. } => Some(*status),
        _ => None,
    }
}

/// An interner holds no state that a panic elsewhere could have left half done.
fn lock(interner: &Mutex<Interner>) -> MutexGuard<'_, Interner> {
    interner.lock().unwrap_or_else(PoisonError::into_inner)
}
