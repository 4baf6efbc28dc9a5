//! Where the pods of nodes that are given up would go, and whether that is cheaper.

use std::collections::BTreeSet;

use outrigger_model::{CapacityType, PlannedNode, PodState, Price, RankedType, Snapshot};
use outrigger_planning::disruption::Candidate;
use outrigger_planning::{Options, provision};

/// A cluster whose nodes are tried to be done without.
pub(super) struct Moving<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// How many cheaper types a spot node needs to replace a single one.
    pub(super) spot_to_spot_types: usize,
}

impl Moving<'_> {
    /// The new nodes that are needed once these are gone; `None` where some pod of theirs has no place.
    pub(super) fn replacements(&self, nodes: &[&Candidate<'_>]) -> Option<Vec<PlannedNode>> {
        let moved: BTreeSet<&str> =
            nodes.iter().flat_map(|node| &node.pods).map(|pod| pod.uid.as_str()).collect();
        if moved.is_empty() {
            return Some(Vec::new());
        }
        let (plan, _) = provision(&self.without(nodes, &moved), &Options::default());
        let on_new = plan.nodes.iter().flat_map(|node| &node.pods);
        let on_existing = plan.existing.iter().flat_map(|placement| &placement.pods);
        let placed = on_new.chain(on_existing).filter(|pod| moved.contains(pod.uid.as_str())).count();
        (placed == moved.len()).then_some(plan.nodes)
    }

    /// Whether no node, or one that is cheaper, can take the pods of these.
    pub(super) fn is_cheaper(&self, nodes: &[&Candidate<'_>]) -> bool {
        match self.replacements(nodes).as_deref() {
            Some([]) => true,
            Some([new]) => self.is_cheaper_than(nodes, new),
            _ => false,
        }
    }

    /// The cluster as if the nodes had never been and their pods waited.
    fn without(&self, nodes: &[&Candidate<'_>], moved: &BTreeSet<&str>) -> Snapshot {
        let gone: BTreeSet<&str> = nodes.iter().map(|node| node.node.name.as_str()).collect();
        let claims: BTreeSet<&str> =
            nodes.iter().filter_map(|node| node.claim).map(|claim| claim.name.as_str()).collect();
        let mut next = self.snapshot.clone();
        next.nodes.retain(|node| !gone.contains(node.name.as_str()));
        next.claims.retain(|claim| !claims.contains(claim.name.as_str()));
        for pod in next.pods.iter_mut().filter(|pod| moved.contains(pod.uid.as_str())) {
            pod.node_name = None;
            pod.nominated_node = None;
            pod.state = PodState::Unschedulable;
        }
        next.pods.retain(|pod| pod.node_name.as_deref().is_none_or(|name| !gone.contains(name)));
        next
    }

    /// Whether enough types of a new node are cheaper than these together, however EC2 chooses among their zones.
    fn is_cheaper_than(&self, nodes: &[&Candidate<'_>], new: &PlannedNode) -> bool {
        let prices = nodes.iter().map(|node| node.price.unwrap_or_default());
        let together: Price = prices.sum();
        let offers = |name: &str| new.instance_types.iter().any(|kind| kind.name == name);
        // Where one of the types is one that goes, what replaces it must be cheaper than that alone, or nothing is won.
        let same = nodes.iter().filter(|node| nodes.len() > 1 && node.instance_type.is_some_and(offers));
        let most = same.filter_map(|node| node.price).fold(together, Price::min);
        let cheaper = new.instance_types.iter().filter(|kind| worst(kind) < most).count();
        let is_spot = |node: &&Candidate<'_>| node.capacity_type == Some(CapacityType::Spot);
        let from_spot = new.capacity_type == CapacityType::Spot && nodes.iter().any(is_spot);
        cheaper >= if from_spot && nodes.len() == 1 { self.spot_to_spot_types } else { 1 }
    }
}

/// The price of a type's dearest zone.
fn worst(kind: &RankedType) -> Price {
    kind.offerings.iter().map(|offering| offering.price).max().unwrap_or_default()
}
