//! Where the pods of nodes that are given up would go, and whether that is cheaper.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrigger_model::taint::TolerationOperator;
use outrigger_model::{
    CapacityType, Node, PlannedNode, Pod, PodState, Price, RankedType, Snapshot, Taint, TaintEffect,
    Toleration, labels,
};
use outrigger_planning::disruption::{Balance, Candidate};
use outrigger_planning::{Options, provision};

/// What keeps moved pods from nodes that have changed lately, in the world that is tried.
const CHANGED_TAINT: &str = "rival.example.com/changed";

/// A cluster whose nodes are tried to be done without.
pub(super) struct Moving<'a> {
    pub(super) snapshot: &'a Snapshot,
    /// Nodes that have changed within `consolidateAfter`, by name.
    pub(super) changed: BTreeSet<&'a str>,
    /// What must be saved in pools of the policy Balanced, by name.
    pub(super) balances: BTreeMap<&'a str, Balance>,
    /// How many cheaper types a spot node needs to replace a single one.
    pub(super) spot_to_spot_types: usize,
}

/// To which nodes pods may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destinations {
    /// To all of them.
    Any,
    /// To those that have not changed within `consolidateAfter`.
    AtRest,
}

impl Moving<'_> {
    /// The new nodes that are needed once these are gone; `None` where some pod of theirs has no place.
    pub(super) fn replacements(
        &self,
        nodes: &[&Candidate<'_>],
        destinations: Destinations,
    ) -> Option<Vec<PlannedNode>> {
        let moved: BTreeSet<&str> =
            nodes.iter().flat_map(|node| &node.pods).map(|pod| pod.uid.as_str()).collect();
        if moved.is_empty() {
            return Some(Vec::new());
        }
        let mut next = self.without(nodes, &moved);
        if destinations == Destinations::AtRest {
            self.close_changed(&mut next, &moved);
        }
        let (plan, _) = provision(&next, &Options::default());
        let on_new = plan.nodes.iter().flat_map(|node| &node.pods);
        let on_existing = plan.existing.iter().flat_map(|placement| &placement.pods);
        let placed = on_new.chain(on_existing).filter(|pod| moved.contains(pod.uid.as_str())).count();
        (placed == moved.len()).then_some(plan.nodes)
    }

    /// Whether no node, or one that is cheaper, can take the pods of these, and that is worth it.
    pub(super) fn is_cheaper(&self, nodes: &[&Candidate<'_>]) -> bool {
        match self.replacements(nodes, Destinations::AtRest).as_deref() {
            Some([]) => self.is_balanced(nodes, Price::ZERO),
            Some([new]) => {
                self.is_cheaper_than(nodes, new) && self.is_balanced(nodes, new.price + new.node_price)
            }
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

    /// Keeps moved pods from nodes that have changed lately. Pods that waited before, and those of nodes that
    /// are drained, may go there.
    fn close_changed(&self, next: &mut Snapshot, moved: &BTreeSet<&str>) {
        let taint = || Taint::new(CHANGED_TAINT, "", TaintEffect::NoSchedule);
        let tolerated = Toleration {
            key: CHANGED_TAINT.into(),
            operator: TolerationOperator::Exists,
            ..Toleration::default()
        };
        let drained: BTreeSet<String> =
            next.nodes.iter().filter(|node| is_drained(node)).map(|node| node.name.clone()).collect();
        for node in next.nodes.iter_mut().filter(|node| self.changed.contains(node.name.as_str())) {
            node.taints.push(taint());
        }
        let needs_room = |pod: &&mut Pod| {
            let stays = pod.node_name.as_ref().is_some_and(|node| !drained.contains(node));
            !stays && !moved.contains(pod.uid.as_str())
        };
        for pod in next.pods.iter_mut().filter(needs_room) {
            Arc::make_mut(&mut pod.spec).tolerations.push(tolerated.clone());
        }
    }

    /// Whether these together save what the pools of the policy Balanced ask for.
    fn is_balanced(&self, nodes: &[&Candidate<'_>], new: Price) -> bool {
        let cost_of = |nodes: &[&&Candidate<'_>]| -> Price {
            nodes.iter().map(|node| node.cost().unwrap_or_default()).sum()
        };
        let demanded = self.balances.iter().map(|(pool, balance)| {
            let ended: Vec<_> = nodes.iter().filter(|node| node.pool.name == *pool).collect();
            let evictions = ended.iter().map(|node| node.evictions()).sum();
            if ended.is_empty() { Price::ZERO } else { balance.demanded(cost_of(&ended), evictions) }
        });
        new + demanded.sum::<Price>() <= cost_of(&nodes.iter().collect::<Vec<_>>())
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

/// Whether a node is closed for its drain.
pub(super) fn is_drained(node: &Node) -> bool {
    node.taints.iter().any(|taint| taint.key == labels::DISRUPTED_TAINT)
}

/// The price of a type's dearest zone.
fn worst(kind: &RankedType) -> Price {
    kind.offerings.iter().map(|offering| offering.price).max().unwrap_or_default()
}
