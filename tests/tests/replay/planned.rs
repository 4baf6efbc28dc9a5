//! A plan as the replay needs it: nodes to join with their pods, and what they cost.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use outrigger_model::resources::{CPU, MEMORY};
use outrigger_model::{
    CapacityType, ExistingPlacement, InstanceType, NominatedPod, Plan, PlannedNode, PodRef, Price,
    Requirement, Resources, Snapshot, Taint, Target, labels,
};

/// Nodes that join, and pods.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planned {
    /// New nodes.
    pub(crate) nodes: Vec<NodeToJoin>,
    /// Nodes that exist already, with the pods that they have room for.
    pub(crate) on_existing: BTreeMap<String, Vec<PodRef>>,
    /// Dollars per hour of instances and of what nodes cost beside them.
    pub(crate) price: Price,
}

/// Which of its offered types a node joins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinsAs {
    /// The smallest, which has the least room to spare.
    Smallest,
    /// The cheapest, where it is cheapest: it costs what was planned.
    Cheapest,
}

/// A node that joins.
#[derive(Clone, Debug)]
pub(crate) struct NodeToJoin {
    /// Its name.
    pub(crate) name: String,
    /// The labels that it has once it is registered.
    pub(crate) labels: BTreeMap<String, String>,
    /// The taints that it keeps.
    pub(crate) taints: Vec<Taint>,
    /// Taints that something on it removes.
    pub(crate) startup_taints: Vec<Taint>,
    /// What the machine has.
    pub(crate) capacity: Resources,
    /// What pods may use of it.
    pub(crate) allocatable: Resources,
    /// The pods that it was planned for.
    pub(crate) pods: Vec<NominatedPod>,
}

impl Planned {
    /// Of our own plan.
    pub(crate) fn new(plan: &Plan, snapshot: &Snapshot, joins_as: JoinsAs) -> Result<Self> {
        let on_existing = plan.existing.iter().map(|placement| {
            let pods = placement.pods.iter().map(|nominated| nominated.pod.clone());
            (placement.target.name().to_owned(), pods.collect())
        });
        Ok(Self {
            nodes: plan
                .nodes
                .iter()
                .map(|node| NodeToJoin::new(node, snapshot, joins_as))
                .collect::<Result<_>>()?,
            on_existing: on_existing.collect(),
            price: plan.price() + plan.node_price(),
        })
    }

    /// Every pod that has a place in it.
    pub(crate) fn pods(&self) -> Vec<PodRef> {
        let on_new = self.nodes.iter().flat_map(|node| &node.pods).map(|planned| &planned.pod);
        on_new.chain(self.on_existing.values().flatten()).cloned().collect()
    }

    /// The pods of the new nodes, by node.
    pub(crate) fn on_new(&self) -> Vec<ExistingPlacement> {
        let placed = |node: &NodeToJoin| ExistingPlacement {
            target: Target::Node(node.name.clone()),
            pods: node.pods.clone(),
        };
        self.nodes.iter().map(placed).collect()
    }

    /// Whether nothing would happen.
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.on_existing.is_empty()
    }
}

impl NodeToJoin {
    fn new(node: &PlannedNode, snapshot: &Snapshot, joins_as: JoinsAs) -> Result<Self> {
        let pool = snapshot.node_pools.iter().find(|pool| pool.name == node.spec.node_pool);
        let offer = pool.and_then(|pool| snapshot.offer_for(pool)).context("a plan for an unknown pool")?;
        let types = offer.instance_types.iter();
        let offered = types.filter_map(|kind| {
            Some((kind, node.instance_types.iter().find(|ranked| ranked.name == kind.name)?))
        });
        let machine = match joins_as {
            JoinsAs::Smallest => offered.min_by_key(|(kind, _)| size(kind)),
            JoinsAs::Cheapest => offered.min_by_key(|(kind, ranked)| (ranked.price(), size(kind))),
        };
        let (kind, ranked) =
            machine.with_context(|| format!("{} offers no instance type that is known", node.claim))?;
        let zone = ranked.offerings.first().map(|offering| offering.zone.clone()).unwrap_or_default();
        let reservation = node.spec.requirements.get(labels::RESERVATION_ID).and_then(Requirement::any);
        let reservation = reservation.filter(|_| node.capacity_type == CapacityType::Reserved);
        // As registration gives them: the type's, then the claim's, then what the instance is.
        let mut all_labels = kind.labels.clone();
        all_labels.extend(node.spec.labels.clone());
        all_labels.extend(reservation.map(|id| (labels::RESERVATION_ID.to_owned(), id)));
        let of_instance = [
            (labels::ZONE, zone),
            (labels::CAPACITY_TYPE, node.capacity_type.to_string()),
            (labels::NODE_POOL, node.spec.node_pool.clone()),
            (labels::HOSTNAME, node.claim.clone()),
        ];
        all_labels.extend(of_instance.map(|(key, value)| (key.to_owned(), value)));
        // What an overlay speaks of is on the machine, although the catalogue does not know it.
        let overlays =
            snapshot.overlays.iter().filter(|overlay| overlay.requirements.match_labels(&all_labels).is_ok());
        let (mut capacity, mut allocatable) = (kind.counted().clone(), kind.allocatable.clone());
        for overlay in overlays {
            capacity.raise_to(&overlay.capacity);
            allocatable.raise_to(&overlay.capacity);
        }
        Ok(Self {
            name: node.claim.clone(),
            labels: all_labels,
            taints: node.spec.taints.clone(),
            startup_taints: node.spec.startup_taints.clone(),
            capacity,
            allocatable,
            pods: node.pods.clone(),
        })
    }
}

/// What makes one type smaller than another.
fn size(kind: &InstanceType) -> (outrigger_model::Quantity, outrigger_model::Quantity) {
    (kind.allocatable.get(CPU), kind.allocatable.get(MEMORY))
}
