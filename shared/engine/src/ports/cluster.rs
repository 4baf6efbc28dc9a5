//! The Kubernetes cluster, as far as Outrigger reads and changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use jiff::{SignedDuration, Timestamp};
use outrigger_model::EC2NodeClass;
#[cfg(doc)]
use outrigger_model::labels;
use outrigger_model::{
    CapacityBuffer, ConfiguredObject, ConfiguredRef, ConfiguredStatus, DaemonSet, ForeignTaint, Invalid,
    LeaderLease, Node, NodeClaim, NodeOverlay, NodePool, NominatedPod, OwnerReference, Pod,
    PodDisruptionBudget, PodRef, Taint, VolumeClaim,
};

use super::event::Event;

/// The Kubernetes cluster. Reads are consistent: a list that breaks off half way is an error, never
/// a short answer.
#[async_trait]
pub trait Cluster: Send + Sync {
    /// By how much the API server's clock is ahead of ours, as its answers of late tell: of several
    /// servers behind one address, the clock that differs most. `None` before the first answer.
    fn clock_difference(&self) -> Option<SignedDuration>;

    /// The uid of the namespace kube-system, which identifies the cluster.
    async fn uid(&self) -> Result<String, ClusterError>;

    /// NodePools, EC2NodeClasses, NodeOverlays and CapacityBuffers, the broken ones set apart. A
    /// kind that is not installed has no objects.
    async fn configuration(&self) -> Result<Configuration, ClusterError>;

    /// Makes the status of a NodePool, EC2NodeClass, NodeOverlay or CapacityBuffer say this, and
    /// leaves alone what else stands in it. Fine when the object is gone.
    async fn write_status(
        &self,
        object: &ConfiguredRef,
        status: &ConfiguredStatus,
    ) -> Result<(), ClusterError>;

    /// The Lease of Karpenter's leader; `None` where there is none.
    async fn karpenter_lease(&self) -> Result<Option<LeaderLease>, ClusterError>;

    /// Nodes, then pods, then daemonsets, in this order, as far as `scope` holds them, and the
    /// point from which [`Cluster::watch`] goes on.
    async fn list(&self, scope: Scope) -> Result<(ClusterState, Cursor), ClusterError>;

    /// What nodes, pods and PodDisruptionBudgets look like from afar, and what people wrote of
    /// NodePools and their like. It costs a twentieth of [`Cluster::list`], and may be a little
    /// old. Of nodes and pods, labels, annotations and what they ask for are not in it.
    async fn glance(&self) -> Result<Glance, ClusterError>;

    /// Changes of nodes and pods from `cursor` on, in the scope of its list: what leaves that is
    /// gone. The stream ends, or yields an error, when it cannot go on; the caller then lists
    /// again.
    async fn watch(
        &self,
        cursor: Cursor,
    ) -> Result<BoxStream<'static, Result<ClusterChange, ClusterError>>, ClusterError>;

    /// What these PersistentVolumeClaims mean for nodes, one answer for each in order of name, and
    /// how many volumes each node may attach.
    async fn volumes(&self, mounted: &BTreeSet<PodRef>) -> Result<Volumes, ClusterError>;

    /// The labels of all namespaces, by name.
    async fn namespaces(&self) -> Result<BTreeMap<String, BTreeMap<String, String>>, ClusterError>;

    /// All nodes.
    async fn nodes(&self) -> Result<Vec<Node>, ClusterError>;

    /// One node; `None` when there is none of this name.
    async fn node(&self, name: &str) -> Result<Option<Node>, ClusterError>;

    /// Changes labels, annotations, finalizers and taints of a node, only while it is still the
    /// version that was read.
    async fn change_node(&self, change: &NodeChange) -> Result<(), ClusterError>;

    /// Deletes a Node object while it has this uid, and takes our finalizer off it; finalizers of
    /// others stay. Fine when it is gone.
    async fn release_node(&self, name: &str, uid: &str) -> Result<(), ClusterError>;

    /// All pods that are bound to a node, finished ones among them.
    async fn pods_on(&self, node: &str) -> Result<Vec<PodOnNode>, ClusterError>;

    /// Asks a pod to leave through the Eviction API, which heeds PodDisruptionBudgets, while it has
    /// this uid.
    async fn evict(&self, pod: &Pod) -> Result<Eviction, ClusterError>;

    /// Deletes a pod whatever protects it, while it has this uid. `grace` counts in whole seconds
    /// and is at least one: with none the pod would be forgotten before it has ended. Fine when it
    /// is gone.
    async fn delete_pod(&self, pod: &Pod, grace: Duration) -> Result<(), ClusterError>;

    /// All PodDisruptionBudgets, in order of namespace and name.
    async fn disruption_budgets(&self) -> Result<Vec<PodDisruptionBudget>, ClusterError>;

    /// The volumes that are attached to any of these nodes.
    async fn attachments(&self, nodes: &BTreeSet<String>) -> Result<Vec<Attachment>, ClusterError>;

    /// Sets `status.nominatedNodeName` of a pod that still has this uid and is not bound; otherwise
    /// does nothing.
    async fn nominate(&self, pod: &NominatedPod, node: &str) -> Result<(), ClusterError>;

    /// Binds a pod to a node in the place of its scheduler, while it has this uid and no node. The
    /// API server asks for nothing else: whether the node can run the pod is the caller's to know.
    async fn bind(&self, pod: &NominatedPod, node: &str) -> Result<Binding, ClusterError>;

    /// Gives a pod a deletion cost of ours, or takes ours off it, while it has this uid; a value of
    /// somebody else stays.
    async fn set_deletion_cost(&self, pod: &Pod, cost: Option<i32>) -> Result<(), ClusterError>;

    /// The NodeClaim objects that Outrigger keeps, by name. Objects without the annotation
    /// [`labels::CLAIM_VERSION`] are somebody else's.
    async fn mirrors(&self) -> Result<BTreeMap<String, Mirror>, ClusterError>;

    /// The uids of the NodePools that are not being deleted, by name.
    async fn node_pool_uids(&self) -> Result<BTreeMap<String, String>, ClusterError>;

    /// Makes the NodeClaim object say what the ledger says, with our finalizer on it; creates it
    /// where it is missing. The spec of one that is there stays as it is, since it cannot be
    /// changed. It bears the claim's version once all the rest is written.
    ///
    /// An object that no NodePool owns gets `owner`; one that has an owner keeps it. Where the
    /// object changes meanwhile, as by a garbage collector that orphans it, this errs and leaves
    /// its owners alone.
    async fn mirror_claim(
        &self,
        claim: &NodeClaim,
        owner: Option<&OwnerReference>,
    ) -> Result<(), ClusterError>;

    /// Removes the NodeClaim object of a claim that is over, and our finalizer from it; fine when
    /// it is not there.
    async fn remove_mirror(&self, claim: &str) -> Result<(), ClusterError>;

    /// Which of the definitions are being deleted or are gone with which NodeClaim objects go.
    async fn going_definitions(&self) -> Result<GoingDefinitions, ClusterError>;

    /// Deletes the NodeClaim object of a claim as a user does who means it
    /// ([`labels::DELETE_ANYWAY`]), and leaves the rest to lifecycle; fine when it is not there.
    async fn delete_mirror(&self, claim: &str) -> Result<(), ClusterError>;

    /// Removes the NodeClaim object of a claim that lives on. At no time is it to be seen as
    /// deleted, which would end the claim; fine when it is not there.
    async fn forget_mirror(&self, claim: &str) -> Result<(), ClusterError>;

    /// Tells people about an object. The same event again raises its count instead of adding one.
    async fn publish_event(&self, event: &Event) -> Result<(), ClusterError>;
}

/// What the users asked for.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// NodePools that passed validation.
    pub node_pools: Vec<NodePool>,
    /// EC2NodeClasses that passed validation.
    pub ec2_node_classes: Vec<EC2NodeClass>,
    /// NodeOverlays that passed validation.
    pub overlays: Vec<NodeOverlay>,
    /// CapacityBuffers that passed validation, with their templates.
    pub buffers: Vec<CapacityBuffer>,
    /// What is wrong with the others.
    pub invalid: Vec<Invalid>,
    /// All of them that are not being deleted, sound or not, with the status that they bear.
    pub objects: Vec<ConfiguredObject>,
}

/// Volumes, as far as decisions need them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volumes {
    /// The claims that were asked for, in order of name.
    pub claims: Vec<VolumeClaim>,
    /// How many volumes each driver attaches at most, by the node's name.
    pub limits: BTreeMap<String, BTreeMap<String, u32>>,
}

/// How much of the cluster is read: on a large cluster all of it is megabytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// Pods that have no node, and nodes with the label [`labels::EXCLUDE_FROM_LOAD_BALANCERS`],
    /// which all have that are closed for their drain: what shows that there is something to plan.
    Unscheduled,
    /// All nodes, and nothing else.
    Nodes,
    /// All nodes, pods and daemonsets.
    #[default]
    Everything,
}

/// Nodes, pods and daemonsets. Pods are keyed by uid, since names are used again.
#[derive(Clone, Debug, Default)]
pub struct ClusterState {
    /// Nodes by name.
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// Pods by uid.
    pub pods: BTreeMap<String, Pod>,
    /// Daemonsets.
    pub daemon_sets: Vec<DaemonSet>,
}

impl ClusterState {
    /// Takes in one change.
    pub fn apply(&mut self, change: ClusterChange) {
        match change {
            ClusterChange::Pod(pod) => {
                self.pods.insert(pod.uid.clone(), *pod);
            }
            ClusterChange::PodGone { uid } => {
                self.pods.remove(&uid);
            }
            ClusterChange::Node(node) => {
                self.nodes.insert(node.name.clone(), node);
            }
            ClusterChange::NodeGone { name } => {
                self.nodes.remove(&name);
            }
        }
    }
}

/// A change that a watch saw.
#[derive(Clone, Debug)]
pub enum ClusterChange {
    /// A pod is new or different.
    Pod(Box<Pod>),
    /// A pod is gone.
    PodGone {
        /// Its uid.
        uid: String,
    },
    /// A node is new or different.
    Node(Arc<Node>),
    /// A node is gone.
    NodeGone {
        /// Its name.
        name: String,
    },
}

/// Where a watch goes on: the resource versions of the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// What was listed.
    pub scope: Scope,
    /// Of the list of nodes.
    pub nodes: String,
    /// Of the list of pods; empty where none were listed.
    pub pods: String,
}

/// What the cluster looks like from afar.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// A digest of which pods are on which nodes, of how they fare, of how nodes and budgets
    /// stand, and of what people wrote of NodePools and their like. Two that differ mean that
    /// something has changed.
    pub digest: String,
    /// How many pods are on each node, but for those that have completed.
    pub pods: BTreeMap<String, usize>,
}

/// A change to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// The node's name.
    pub name: String,
    /// The version that it must still have.
    pub resource_version: String,
    /// Labels to set; others stay.
    pub labels: BTreeMap<String, String>,
    /// Labels to remove.
    pub gone_labels: BTreeSet<String>,
    /// Annotations to set; others stay.
    pub annotations: BTreeMap<String, String>,
    /// All of its finalizers from now on.
    pub finalizers: Vec<String>,
    /// All of its taints from now on, beside those that cannot be understood.
    pub taints: Vec<Taint>,
    /// Those that it has and that cannot be understood: they stay as they are.
    pub foreign_taints: Vec<ForeignTaint>,
}

/// A pod that is bound to a node, with what matters when it has to leave.
#[derive(Clone, Debug, PartialEq)]
pub struct PodOnNode {
    /// The pod.
    pub pod: Pod,
    /// When it must have ended: the time of its deletion and the grace that it was given.
    pub deleting_until: Option<Timestamp>,
    /// How long it may take to end when it is asked to.
    pub grace: Duration,
}

/// What became of a request to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The pod is ending.
    Accepted,
    /// There is no such pod any more.
    Gone,
    /// A PodDisruptionBudget forbids it now, or several apply, which the API does not support.
    Blocked {
        /// The API server's words, which name the budget.
        why: String,
    },
}

/// What became of a request to bind a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// It is bound.
    Made,
    /// Somebody was faster: it has a node already, is another pod of that name, or is gone.
    Missed,
}

/// A volume that is attached to a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// The node.
    pub node: String,
    /// The PersistentVolume.
    pub volume: String,
    /// The PersistentVolumeClaim that it is bound to.
    pub claim: Option<PodRef>,
    /// Whether several nodes may attach it at once, so that nobody waits for its detachment.
    pub shared: bool,
}

/// Which definitions are being deleted or are gone. NodeClaim objects that go with them ask for the
/// end of no node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoingDefinitions {
    /// That of NodeClaims, with which all of them go.
    pub node_claims: bool,
    /// That of NodePools, with which the NodeClaims go that belong to one.
    pub node_pools: bool,
}

/// A NodeClaim object that shows a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mirror {
    /// Its uid.
    pub uid: String,
    /// The claim version that it shows.
    pub version: u64,
    /// Whether somebody deleted it.
    pub deleting: bool,
    /// Its annotation `karpenter.sh/do-not-disrupt`.
    pub do_not_disrupt: Option<String>,
    /// Whether its end is meant, however many are deleted at once ([`labels::DELETE_ANYWAY`]).
    pub delete_anyway: bool,
    /// The uid of the NodePool that owns it, where one does.
    pub owner: Option<String>,
}

/// Why the cluster could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// It cannot be reached, or did not answer in time.
    #[error("the API server at {server} cannot be reached to {attempted}")]
    Unreachable {
        /// Its address.
        server: String,
        /// What was attempted, as `list pods`.
        attempted: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It answered with an error.
    #[error("the API server refused to {attempted}: {status} {message}")]
    Refused {
        /// What was attempted.
        attempted: String,
        /// HTTP status.
        status: u16,
        /// Its words.
        message: String,
    },
    /// The object has changed since it was read, or the point of a watch is too old.
    #[error("{what} has changed since it was read")]
    Changed {
        /// What has changed.
        what: String,
    },
    /// An answer could not be understood.
    #[error("the API server's answer to {attempted} could not be read")]
    Unreadable {
        /// What was attempted.
        attempted: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::fixtures::pod;

    /// A StatefulSet makes its pods again under their names, and a watch may tell of the new one
    /// first.
    #[test]
    fn a_pod_that_goes_takes_no_successor_of_its_name_along() {
        let first = pod("db-0", Some("n"), "StatefulSet");
        let second = Pod { uid: "second".into(), node_name: None, ..first.clone() };
        let mut state = ClusterState::default();
        for change in [
            ClusterChange::Pod(Box::new(first.clone())),
            ClusterChange::Pod(Box::new(second.clone())),
            ClusterChange::PodGone { uid: first.uid },
        ] {
            state.apply(change);
        }
        assert_eq!(state.pods.into_values().collect::<Vec<_>>(), [second]);
    }
}
