//! The snapshot by name: which pods are on a node, which claim a node has, which pods a claim is
//! nominated for.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{Node, NodeClaim, NodePool, Pod, PodRef, PodState, Snapshot, VolumeClaim};
use outrigger_policy::pods::daemons::{self, Daemon};
use outrigger_policy::pods::static_pods::StaticPods;

/// A snapshot with what it says looked up once.
pub(super) struct ClusterState<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// The pods that the scheduler found no node for, by uid.
    pub(super) pending: BTreeMap<&'a str, &'a Pod>,
    pub(super) volume_claims: BTreeMap<&'a PodRef, &'a VolumeClaim>,
    pub(super) nodes: BTreeMap<&'a str, &'a Node>,
    pub(super) claims: BTreeMap<&'a str, &'a NodeClaim>,
    pools: BTreeMap<&'a str, &'a NodePool>,
    on_node: BTreeMap<&'a str, Vec<&'a Pod>>,
    pub(super) daemons: Vec<Daemon<'a>>,
    pub(super) static_pods: StaticPods<'a>,
    claims_by_node: BTreeMap<&'a str, &'a NodeClaim>,
    /// The names and instance ids of the nodes.
    joined: BTreeSet<&'a str>,
    /// Pods by uid that are not bound and that the scheduler has not judged.
    undecided: BTreeMap<&'a str, &'a Pod>,
}

impl<'a> ClusterState<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let by_uid = |pod: &'a Pod| (pod.uid.as_str(), pod);
        let undecided = |pod: &&Pod| pod.state == PodState::Waiting && pod.node_name.is_none();
        let mut claims: Vec<&NodeClaim> = snapshot.claims.iter().collect();
        // Names are used again: a living claim stands before one that is over, and a younger before
        // an older.
        claims.sort_by_key(|claim| (!claim.status.state.is_terminal(), claim.created_at, &claim.name));
        let names = |claim: &'a NodeClaim| [claim.status.node_name.as_deref(), claim.instance_id()];
        Self {
            snapshot,
            pending: snapshot.pods.iter().filter(|pod| pod.is_provisionable()).map(by_uid).collect(),
            volume_claims: snapshot.volume_claims.iter().map(|claim| (&claim.id, claim)).collect(),
            nodes: snapshot.nodes.iter().map(|node| (node.name.as_str(), node)).collect(),
            claims: snapshot.claims.iter().map(|claim| (claim.name.as_str(), claim)).collect(),
            pools: snapshot.node_pools.iter().map(|pool| (pool.name.as_str(), pool)).collect(),
            on_node: snapshot.pods_by_node(),
            daemons: daemons::daemons(snapshot),
            static_pods: StaticPods::new(snapshot),
            claims_by_node: claims
                .into_iter()
                .flat_map(|claim| names(claim).into_iter().flatten().map(move |name| (name, claim)))
                .collect(),
            joined: snapshot
                .nodes
                .iter()
                .flat_map(|node| [Some(node.name.as_str()), node.instance_id()])
                .flatten()
                .collect(),
            undecided: snapshot.pods.iter().filter(undecided).map(by_uid).collect(),
        }
    }

    pub(super) fn pool(&self, name: &str) -> Option<&'a NodePool> {
        self.pools.get(name).copied()
    }

    /// The pods that are bound to a node.
    pub(super) fn pods_on(&self, node: &str) -> &[&'a Pod] {
        self.on_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// The claim that a node belongs to.
    pub(super) fn claim_of(&self, node: &Node) -> Option<&'a NodeClaim> {
        let by_id = node.instance_id().and_then(|id| self.claims_by_node.get(id));
        by_id.or_else(|| self.claims_by_node.get(node.name.as_str())).copied()
    }

    /// Whether the claim's node is in the cluster.
    pub(super) fn has_joined(&self, claim: &NodeClaim) -> bool {
        let names = [claim.status.node_name.as_deref(), claim.instance_id()];
        names.into_iter().flatten().any(|name| self.joined.contains(name))
    }

    /// The pods that a claim was planned for and that the scheduler has not judged yet: they are
    /// not ours to place, but what they request is theirs.
    pub(super) fn nominated_for(&self, claim: &NodeClaim) -> Vec<&'a Pod> {
        claim
            .status
            .nominated
            .iter()
            .filter_map(|nominated| self.undecided.get(nominated.uid.as_str()).copied())
            .collect()
    }
}
