//! Where the pods of nodes that are given up would go, and whether that is cheaper.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{CapacityType, PlannedNode, Price, RankedType, Snapshot};
use outrigger_planning::provision;
use outrigger_policy::Options;
use outrigger_policy::Supposed;
use outrigger_policy::disruption::{Balance, Candidate, DisruptionSettings, balances};

use super::is_drained;
use super::trial::Trial;

/// A cluster whose nodes are tried to be done without.
pub(super) struct Moving<'a> {
    /// Each trial changes it and puts it back, for a copy of a thousand nodes takes longer than to
    /// plan for their pods.
    snapshot: RefCell<Snapshot>,
    /// Nodes that are closed for their drain, by name.
    drained: BTreeSet<&'a str>,
    /// Nodes that have changed within `consolidateAfter`, by name.
    changed: BTreeSet<&'a str>,
    /// What must be saved in pools of the policy Balanced, by name.
    balances: BTreeMap<&'a str, Balance>,
    /// How many cheaper types a spot node needs to replace a single one.
    spot_to_spot_types: usize,
}

/// To which nodes pods may move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destinations {
    /// To all of them.
    Any,
    /// To those that have not changed within `consolidateAfter`.
    AtRest,
}

impl<'a> Moving<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        changed: BTreeSet<&'a str>,
        settings: &DisruptionSettings,
    ) -> Self {
        Self {
            snapshot: RefCell::new(Supposed::leaving(snapshot).into_snapshot()),
            drained: snapshot
                .nodes
                .iter()
                .filter(|node| is_drained(node))
                .map(|node| node.name.as_str())
                .collect(),
            changed,
            balances: balances(snapshot, &Options::default()),
            spot_to_spot_types: settings.spot_to_spot_types,
        }
    }

    /// The new nodes that are needed once these are gone; `None` where some pod of theirs has no
    /// place.
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
        let closed = match destinations {
            Destinations::Any => &BTreeSet::new(),
            Destinations::AtRest => &self.changed,
        };
        let mut snapshot = self.snapshot.borrow_mut();
        let trial = Trial::begin(&mut snapshot, nodes, &moved, &self.drained, closed);
        let (plan, _) = provision(&snapshot, &Options::default());
        trial.end(&mut snapshot);
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

    /// Whether enough types of a new node are cheaper than these together, however EC2 chooses
    /// among their zones.
    fn is_cheaper_than(&self, nodes: &[&Candidate<'_>], new: &PlannedNode) -> bool {
        let prices = nodes.iter().map(|node| node.price.unwrap_or_default());
        let together: Price = prices.sum();
        let offers = |name: &str| new.instance_types.iter().any(|kind| kind.name == name);
        // Where one of the types is one that goes, what replaces it must be cheaper than that
        // alone, or nothing is won.
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
