//! The Snapshot: everything that a decision may use, as one value.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    CapacityBuffer, Command, DaemonSet, DemandHistory, DemandSample, InstanceType, Intent, Invalid,
    KarpenterLease, LaunchHealth, Node, NodeClaim, NodeClass, NodeOverlay, NodePool, Pod,
    PodDisruptionBudget, Proposal, SpotRefusal, UnavailableOffering, VolumeClaim, Waste,
};

/// Everything that a decision may use, as facts: what follows from them is planning's to say. It
/// serialises, so that a decision can be made again elsewhere; the format follows the types and is
/// not promised to other versions.
///
/// It is gathered in a fixed order: the ledger's generation, then the configuration, then nodes,
/// then pods. What changes in between makes us launch too little, which the next tick mends, rather
/// than too much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// The only "now" of the decision.
    pub taken_at: Timestamp,
    /// The cluster's name.
    pub cluster: String,
    /// How many plans the ledger had accepted; a plan is accepted only while this still holds.
    pub generation: u64,
    /// Pools that may launch nodes.
    pub node_pools: Vec<NodePool>,
    /// Objects that were refused, and why; the others go on without them.
    #[serde(default)]
    pub invalid: Vec<Invalid>,
    /// What of the cluster's own objects could not be read; pods, nodes and daemonsets say it
    /// themselves. The decision goes on as if it stood in the way where it may.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<Invalid>,
    /// The Lease that a live Karpenter holds.
    #[serde(default, skip_serializing_if = "KarpenterLease::is_absent")]
    pub karpenter_lease: KarpenterLease,
    /// The node classes that the pools use, with what each makes of the catalogue.
    pub classes: Vec<ClassOffer>,
    /// Offerings that EC2 lately could not supply.
    #[serde(default)]
    pub unavailable: Vec<UnavailableOffering>,
    /// How launches have fared lately.
    #[serde(default, skip_serializing_if = "LaunchHealth::is_empty")]
    pub health: LaunchHealth,
    /// Nodes whose spot fleet launched nothing since this run began, oldest first. The ledger does
    /// not keep them: a pool that has nothing but spot, and every pool in the next run, may find
    /// some that nobody has asked for yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spot_refusals: Vec<SpotRefusal>,
    /// How many nodes the cluster may get within a minute; its pools may be allowed less. None
    /// where all that is wanted is to be planned, as for files; what pools are allowed does not
    /// count then either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_new_nodes_per_minute: Option<usize>,
    /// Nodes of the cluster.
    pub nodes: Vec<Node>,
    /// Pods of the cluster.
    pub pods: Vec<Pod>,
    /// When a pod last came to each node or left it, by the node's name, pods of daemonsets aside
    /// (Karpenter's `status.lastPodEventTime`). Nodes of which nobody keeps it are absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_events: BTreeMap<String, Timestamp>,
    /// Daemonsets of the cluster.
    #[serde(default)]
    pub daemon_sets: Vec<DaemonSet>,
    /// Claims that are not over.
    #[serde(default)]
    pub claims: Vec<NodeClaim>,
    /// Launches that are under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intents: Vec<Intent>,
    /// Commands of disruption that are under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<Command>,
    /// What the last run of the function `disrupt` found worth doing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub proposals: Vec<Proposal>,
    /// What nodes have wasted that are worth ending, by the node's name, as the function `disrupt`
    /// remembers it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waste: BTreeMap<String, Waste>,
    /// Since when nodes are known to have drifted, by the node's name, as `disrupt` remembers it;
    /// `None` where nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drifted: Option<BTreeMap<String, Timestamp>>,
    /// What the pods of NodePools have asked for within the last hour, as `disrupt` remembers it,
    /// oldest first.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub demand: BTreeMap<String, Vec<DemandSample>>,
    /// What they asked for in the week before, as `disrupt` remembers it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub demand_history: DemandHistory,
    /// PodDisruptionBudgets, for pods whose node is going; they are read only while there are such
    /// nodes, and to find nodes that may be disrupted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disruption_budgets: Vec<PodDisruptionBudget>,
    /// The labels of namespaces, for pod affinity terms that select namespaces by label.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
    /// The PersistentVolumeClaims that pods mount.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claims: Vec<VolumeClaim>,
    /// NodeOverlays.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overlays: Vec<NodeOverlay>,
    /// CapacityBuffers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub buffers: Vec<CapacityBuffer>,
}

/// A node class and the instance types that it can make, resolved for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClassOffer {
    /// The class.
    pub class: NodeClass,
    /// The instance types, in order of name. Classes with equal rules share one list.
    pub instance_types: Arc<Vec<InstanceType>>,
}

impl Snapshot {
    /// A snapshot of an empty cluster.
    pub fn empty(cluster: impl Into<String>, taken_at: Timestamp) -> Self {
        Self {
            taken_at,
            cluster: cluster.into(),
            generation: 0,
            node_pools: Vec::new(),
            invalid: Vec::new(),
            unreadable: Vec::new(),
            karpenter_lease: KarpenterLease::default(),
            classes: Vec::new(),
            unavailable: Vec::new(),
            health: LaunchHealth::default(),
            spot_refusals: Vec::new(),
            max_new_nodes_per_minute: None,
            nodes: Vec::new(),
            pods: Vec::new(),
            daemon_sets: Vec::new(),
            claims: Vec::new(),
            intents: Vec::new(),
            commands: Vec::new(),
            proposals: Vec::new(),
            waste: BTreeMap::new(),
            drifted: None,
            demand: BTreeMap::new(),
            demand_history: BTreeMap::new(),
            pod_events: BTreeMap::new(),
            disruption_budgets: Vec::new(),
            namespaces: BTreeMap::new(),
            volume_claims: Vec::new(),
            overlays: Vec::new(),
            buffers: Vec::new(),
        }
    }

    /// What a pool's class can make; `None` when the class could not be found.
    pub fn offer_for(&self, pool: &NodePool) -> Option<&ClassOffer> {
        self.classes.iter().find(|offer| &offer.class.reference == pool.node_class())
    }

    /// All that could not be read of the cluster's own objects.
    pub fn all_unreadable(&self) -> impl Iterator<Item = &Invalid> {
        let nodes = self.nodes.iter().filter_map(|node| node.degraded.as_deref());
        let pods = self.pods.iter().filter_map(|pod| pod.degraded.as_deref());
        let sets = self.daemon_sets.iter().filter_map(|set| set.degraded.as_deref());
        nodes.chain(pods).chain(sets).chain(&self.unreadable)
    }

    /// The pods that take room on each node.
    pub fn pods_by_node(&self) -> BTreeMap<&str, Vec<&Pod>> {
        let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
        for pod in &self.pods {
            if let Some(node) = pod.node_name.as_deref().filter(|node| pod.occupies(node)) {
                by_node.entry(node).or_default().push(pod);
            }
        }
        by_node
    }
}
