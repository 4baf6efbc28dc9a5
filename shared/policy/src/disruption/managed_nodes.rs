//! The nodes that are ours - those that name a NodePool - with all that is known of each: the only
//! place that looks into claims.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use outrigger_model::{
    CapacityType, ClaimState, ClassOffer, Instance, InstanceType, NillableDuration, Node, NodeClaim,
    NodePool, Pod, Price, Snapshot, labels,
};

use crate::leaving::replacement;

/// A node that names a NodePool. Nodes of a cluster that is read from files have no claims.
pub struct ManagedNode<'a> {
    pub(crate) node: &'a Node,
    pub(crate) claim: Option<&'a NodeClaim>,
    pub(crate) pool_name: &'a str,
    pub(crate) pool: Option<&'a NodePool>,
    /// What its pool's class makes. Where the pool is gone, what the class of its claim makes, or
    /// the first that knows its instance type.
    pub(crate) offer: Option<&'a ClassOffer>,
    /// The pods that are bound to it, those that have ended among them.
    pub(crate) pods: Vec<&'a Pod>,
    /// Whether a command whose replacements are still waited for holds its claim.
    pub(crate) is_held_now: bool,
}

/// All of them, in the snapshot's order.
pub fn managed_nodes(snapshot: &Snapshot) -> Vec<ManagedNode<'_>> {
    let pools: BTreeMap<&str, &NodePool> =
        snapshot.node_pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
    let claims = claims_by_node(snapshot);
    let held: BTreeSet<&str> = replacement::held(&snapshot.claims, &snapshot.commands, snapshot.taken_at)
        .map(|claim| claim.name.as_str())
        .collect();
    let mut pods: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in &snapshot.pods {
        if let Some(node) = pod.node_name.as_deref() {
            pods.entry(node).or_default().push(pod);
        }
    }
    let managed = snapshot.nodes.iter().filter_map(|node| {
        let pool_name = node.node_pool()?;
        let pool = pools.get(pool_name).copied();
        let by_id = node.instance_id().and_then(|id| claims.get(id));
        let claim = by_id.or_else(|| claims.get(node.name.as_str())).copied();
        Some(ManagedNode {
            node,
            claim,
            pool_name,
            pool,
            offer: pool
                .map_or_else(|| offer_without_pool(snapshot, node, claim), |pool| snapshot.offer_for(pool)),
            pods: pods.remove(node.name.as_str()).unwrap_or_default(),
            is_held_now: claim.is_some_and(|claim| held.contains(claim.name.as_str())),
        })
    });
    managed.collect()
}

/// Who makes a node whose pool is gone.
fn offer_without_pool<'a>(
    snapshot: &'a Snapshot,
    node: &Node,
    claim: Option<&NodeClaim>,
) -> Option<&'a ClassOffer> {
    let of_claim = claim
        .and_then(|claim| claim.status.instance.as_ref())
        .map(|instance| instance.instance_type.as_str());
    let of_label = || node.labels.get(labels::INSTANCE_TYPE).map(String::as_str);
    let name = of_claim.or_else(of_label)?;
    let makes =
        |offer: &&ClassOffer| offer.instance_types.iter().any(|instance_type| instance_type.name == name);
    let is_its =
        |offer: &&ClassOffer| claim.is_some_and(|claim| offer.class.reference == claim.spec.node_class);
    let mut making = snapshot.classes.iter().filter(makes);
    making.clone().find(is_its).or_else(|| making.next())
}

fn claims_by_node(snapshot: &Snapshot) -> BTreeMap<&str, &NodeClaim> {
    let mut claims = BTreeMap::new();
    for claim in &snapshot.claims {
        let names = [claim.status.node_name.as_deref(), claim.instance_id()];
        claims.extend(names.into_iter().flatten().map(|name| (name, claim)));
    }
    claims
}

impl<'a> ManagedNode<'a> {
    /// The name of the node.
    pub fn name(&self) -> &'a str {
        &self.node.name
    }

    /// Whether it has finished starting, as its label or its claim says.
    pub(crate) fn is_initialized(&self) -> bool {
        self.node.is_initialized() || self.state() == Some(ClaimState::Initialized)
    }

    /// The pods that take its room and may be elsewhere.
    pub(crate) fn occupants(&self) -> impl Iterator<Item = &'a Pod> {
        let pods = self.pods.iter().copied();
        pods.filter(|pod| pod.occupies(&self.node.name) && !pod.is_bound_to_its_node())
    }

    /// Whether its instance is being terminated, or is gone.
    pub(crate) fn is_terminating(&self) -> bool {
        self.state().is_some_and(|state| state >= ClaimState::Terminating)
    }

    /// Whether it is going, for whatever reason.
    pub(crate) fn is_leaving(&self) -> bool {
        let is_ending = self.state().is_some_and(|state| !state.accepts_pods());
        is_ending || self.node.deleting || self.node.is_disrupted()
    }

    /// Since when its claim has been initialised; since its Node was made where no claim says.
    pub(crate) fn ready_since(&self) -> Timestamp {
        self.claim.and_then(|claim| claim.status.initialized_at).unwrap_or(self.node.created_at)
    }

    /// When it was decided on; when its Node was made where no claim says.
    pub(crate) fn created_at(&self) -> Timestamp {
        self.claim.map_or(self.node.created_at, |claim| claim.created_at)
    }

    /// How long it lives: what its claim was planned with, else what its pool says now.
    pub(crate) fn expire_after(&self) -> Option<NillableDuration> {
        let of_pool = || self.pool.map(|pool| pool.spec.template.spec.expire_after);
        self.claim.map(|claim| claim.spec.expire_after).or_else(of_pool)
    }

    /// Whether its drain ends by a time, whatever its pods ask for.
    pub(crate) fn has_termination_grace_period(&self) -> bool {
        let of_pool = || self.pool?.spec.template.spec.termination_grace_period;
        self.claim.map_or_else(of_pool, |claim| claim.spec.termination_grace_period).is_some()
    }

    /// An annotation of its claim, or of its Node where the claim has none.
    pub(crate) fn annotation(&self, key: &str) -> Option<&'a str> {
        let of_claim = self.claim.and_then(|claim| claim.spec.annotations.get(key));
        of_claim.or_else(|| self.node.annotations.get(key)).map(String::as_str)
    }

    /// The labels of its claim.
    pub(crate) fn claim_labels(&self) -> impl Iterator<Item = (&'a String, &'a String)> + use<'a> {
        self.claim.into_iter().flat_map(|claim| &claim.spec.labels)
    }

    /// The image that its instance runs, where known.
    pub(crate) fn image(&self) -> Option<&'a str> {
        self.instance().map(|instance| instance.image_id.as_str()).filter(|image| !image.is_empty())
    }

    /// The command that holds it.
    pub(crate) fn command(&self) -> Option<&'a str> {
        self.claim?.status.command.as_deref()
    }

    /// The name of its claim.
    pub(crate) fn claim_name(&self) -> Option<&'a str> {
        self.claim.map(|claim| claim.name.as_str())
    }

    /// The uids of the pods that its claim was planned for.
    pub(crate) fn nominated(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.claim.into_iter().flat_map(|claim| &claim.status.nominated).map(|pod| pod.uid.as_str())
    }

    /// The name of its instance type.
    pub(crate) fn instance_type(&self) -> Option<&'a str> {
        let of_claim = self.instance().map(|instance| instance.instance_type.as_str());
        of_claim.or_else(|| self.label(labels::INSTANCE_TYPE))
    }

    /// Its instance type, as its class makes it.
    pub(crate) fn known_type(&self) -> Option<&'a InstanceType> {
        let name = self.instance_type()?;
        self.offer?.instance_types.iter().find(|listed| listed.name == name)
    }

    /// Its zone.
    pub(crate) fn zone(&self) -> Option<&'a str> {
        let of_claim = self.instance().map(|instance| instance.zone.as_str());
        of_claim.or_else(|| self.label(labels::ZONE))
    }

    /// How it is paid for.
    pub(crate) fn capacity_type(&self) -> Option<CapacityType> {
        let of_claim = self.instance().map(|instance| instance.capacity_type);
        of_claim.or_else(|| CapacityType::named(self.label(labels::CAPACITY_TYPE)?))
    }

    /// What its instance cost when it was launched, where that was known.
    pub(crate) fn price_at_launch(&self) -> Option<Price> {
        let paid = |instance: &&Instance| {
            instance.price > Price::ZERO || instance.capacity_type == CapacityType::Reserved
        };
        self.instance().filter(paid).map(|instance| instance.price)
    }

    fn instance(&self) -> Option<&'a Instance> {
        self.claim?.status.instance.as_ref()
    }

    fn label(&self, key: &str) -> Option<&'a str> {
        self.node.labels.get(key).map(String::as_str)
    }

    fn state(&self) -> Option<ClaimState> {
        self.claim.map(|claim| claim.status.state)
    }
}
