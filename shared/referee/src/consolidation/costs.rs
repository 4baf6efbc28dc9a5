//! What nodes cost, before and after, and whether that is what a consolidation tells.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use outrigger_model::{CapacityType, ClassOffer, Node, NodeOverlay, Price, labels};
use outrigger_policy::Options;
use outrigger_policy::disruption::{Consolidation, ConsolidationCommand, NodeCost};

use super::Numbered;
use crate::Violation;
use crate::cluster_state::ClusterState;

/// Checks the saving of each command and the cost of all nodes, before and after.
pub(super) fn check(
    consolidation: &Consolidation,
    cluster: &ClusterState<'_>,
    options: &Options<'_>,
    out: &mut Vec<Violation>,
) {
    let costs = Costs { cluster, options };
    let managed = cluster.snapshot.nodes.iter().filter(|node| node.node_pool().is_some());
    let before = managed.map(|node| costs.of_node(node)).fold(Sum::default(), Sum::plus);
    let mut after = before;
    for (index, command) in consolidation.commands.iter().enumerate() {
        let (ended, opened) = (costs.ended(command), opened(command));
        let saving = ended.total() - opened.total();
        if i128::from(command.saving_nanos) != saving {
            let reason = format!(
                "it tells of a saving of {} nano-dollars per hour; found: {saving}",
                command.saving_nanos
            );
            out.push(Numbered { number: index + 1, command }.fault(reason));
        }
        after = after.minus(ended).plus(opened);
    }
    for (when, reported, actual) in
        [("before", consolidation.before, before), ("after", consolidation.after, after)]
    {
        if Sum::new(reported.instances, reported.beside) != actual {
            let reported = described(reported);
            out.push(Violation::Cost { when, reported, actual: actual.words() });
        }
    }
}

fn described(cost: NodeCost) -> String {
    Sum::new(cost.instances, cost.beside).words()
}

/// Nano-dollars per hour of instances, and of what nodes cost beside them. A faulty consolidation
/// may end more than there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    instances: i128,
    beside: i128,
}

impl Sum {
    fn new(instances: Price, beside: Price) -> Self {
        Self { instances: instances.nanos().into(), beside: beside.nanos().into() }
    }

    const fn plus(self, other: Self) -> Self {
        Self { instances: self.instances + other.instances, beside: self.beside + other.beside }
    }

    const fn minus(self, other: Self) -> Self {
        Self { instances: self.instances - other.instances, beside: self.beside - other.beside }
    }

    const fn total(self) -> i128 {
        self.instances + self.beside
    }

    fn words(self) -> String {
        format!("{} and {} nano-dollars per hour beside", self.instances, self.beside)
    }
}

fn opened(command: &ConsolidationCommand) -> Sum {
    let nodes = command.replace_with.iter();
    nodes.map(|node| Sum::new(node.price, node.node_price)).fold(Sum::default(), Sum::plus)
}

/// Tells what nodes cost.
struct Costs<'c, 'a> {
    cluster: &'c ClusterState<'a>,
    options: &'c Options<'c>,
}

impl<'a> Costs<'_, 'a> {
    fn ended(&self, command: &ConsolidationCommand) -> Sum {
        let nodes = command.delete.iter().filter_map(|name| self.cluster.nodes.get(name.as_str()));
        nodes.map(|node| self.of_node(node)).fold(Sum::default(), Sum::plus)
    }

    /// What a node costs; nothing where its price is not known.
    fn of_node(&self, node: &'a Node) -> Sum {
        let offer = self.offer(node);
        let of_class = || offer.map_or(Price::ZERO, |offer| offer.class.root_volume.price());
        let beside = self.options.node_price.unwrap_or_else(of_class);
        let instance = self.listed(node, offer).or_else(|| self.at_launch(node));
        instance.map_or_else(Sum::default, |price| Sum::new(price, beside))
    }

    /// Its pool's class. Where the pool is gone, that of its claim comes first, and then all others
    /// in order; it must make the node's instance type.
    fn offer(&self, node: &'a Node) -> Option<&'a ClassOffer> {
        let snapshot = self.cluster.snapshot;
        if let Some(pool) = node.node_pool().and_then(|name| self.cluster.pool(name)) {
            return snapshot.offer_for(pool);
        }
        let claim = self.cluster.claim_of(node);
        let mut classes: Vec<&ClassOffer> = snapshot.classes.iter().collect();
        classes.sort_by_key(|offer| claim.is_none_or(|claim| claim.spec.node_class != offer.class.reference));
        classes.into_iter().find(|offer| {
            let mut types = offer.instance_types.iter();
            types.any(|kind| Some(kind.name.as_str()) == self.instance_type(node))
        })
    }

    fn instance_type(&self, node: &'a Node) -> Option<&'a str> {
        let instance = self.cluster.claim_of(node).and_then(|claim| claim.status.instance.as_ref());
        let label = || node.labels.get(labels::INSTANCE_TYPE).map(String::as_str);
        instance.map(|instance| instance.instance_type.as_str()).or_else(label)
    }

    /// What its class's catalogue says now, with the heaviest NodeOverlay that has a price for it.
    fn listed(&self, node: &'a Node, offer: Option<&ClassOffer>) -> Option<Price> {
        let instance = self.cluster.claim_of(node).and_then(|claim| claim.status.instance.as_ref());
        let label = |key: &str| node.labels.get(key).map(String::as_str);
        let name = self.instance_type(node)?;
        let zone = instance.map(|instance| instance.zone.as_str()).or_else(|| label(labels::ZONE))?;
        let of_label = || label(labels::CAPACITY_TYPE).and_then(CapacityType::named);
        let capacity_type = instance.map(|instance| instance.capacity_type).or_else(of_label)?;
        let instance_type = offer?.instance_types.iter().find(|kind| kind.name == name)?;
        let offering = instance_type
            .offerings
            .iter()
            .find(|one| one.zone == zone && one.capacity_type == capacity_type)?;
        let mut labels: BTreeMap<String, String> = instance_type.labels.clone();
        labels.extend(node.labels.clone());
        let of_instance = [
            (labels::INSTANCE_TYPE, name),
            (labels::ZONE, zone),
            (labels::CAPACITY_TYPE, capacity_type.as_str()),
        ];
        labels.extend(of_instance.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let matching = |overlay: &&NodeOverlay| overlay.requirements.match_labels(&labels).is_ok();
        let overlays = self.cluster.snapshot.overlays.iter().filter(matching);
        let priced = overlays.filter_map(|overlay| Some((overlay, overlay.price?)));
        let heaviest = priced.min_by_key(|(overlay, _)| (Reverse(overlay.weight), &overlay.name));
        Some(heaviest.map_or(offering.price, |(_, price)| price.apply(offering.price)))
    }

    fn at_launch(&self, node: &Node) -> Option<Price> {
        let instance = self.cluster.claim_of(node)?.status.instance.as_ref()?;
        let was_known = instance.price > Price::ZERO || instance.capacity_type == CapacityType::Reserved;
        was_known.then_some(instance.price)
    }
}
