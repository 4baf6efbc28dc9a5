//! What commands buy: no node that is ended for money is bought again. It could have stayed, with
//! its pods on it.

use outrigger_model::node_pool::DisruptionReason;
use outrigger_model::{CapacityType, Node, PlannedNode, labels};

use super::Numbered;
use crate::Violation;
use crate::cluster_state::ClusterState;

/// Checks that a command does not replace a node by the same purchase, unless it has drifted.
pub(super) fn check(numbered: &Numbered<'_>, cluster: &ClusterState<'_>, out: &mut Vec<Violation>) {
    let command = numbered.command;
    if command.reason == DisruptionReason::Drifted {
        return;
    }
    for name in &command.delete {
        let Some(bought) = cluster.nodes.get(name.as_str()).and_then(|node| Bought::from_node(node, cluster))
        else {
            continue;
        };
        if let Some(again) = command.replace_with.iter().find(|planned| bought.is_again(planned)) {
            let Bought { instance_type, capacity_type, zone } = bought;
            let what = format!("{instance_type} {capacity_type} in {zone}");
            out.push(
                numbered.fault(format!("it ends {name} and buys the same again as {}: {what}", again.claim)),
            );
        }
    }
}

/// What a node was bought as.
struct Bought<'a> {
    instance_type: &'a str,
    capacity_type: CapacityType,
    zone: &'a str,
}

impl<'a> Bought<'a> {
    fn from_node(node: &'a Node, cluster: &ClusterState<'a>) -> Option<Self> {
        if let Some(instance) = cluster.claim_of(node).and_then(|claim| claim.status.instance.as_ref()) {
            let (instance_type, zone) = (instance.instance_type.as_str(), instance.zone.as_str());
            return Some(Self { instance_type, capacity_type: instance.capacity_type, zone });
        }
        let label = |key: &str| node.labels.get(key).map(String::as_str);
        Some(Self {
            instance_type: label(labels::INSTANCE_TYPE)?,
            capacity_type: label(labels::CAPACITY_TYPE).and_then(CapacityType::named)?,
            zone: label(labels::ZONE)?,
        })
    }

    /// Whether a planned node may be just that at the price that is told of it.
    fn is_again(&self, planned: &PlannedNode) -> bool {
        let mut types = planned.instance_types.iter().filter(|offered| offered.name == self.instance_type);
        planned.capacity_type == self.capacity_type
            && types.any(|offered| {
                let mut offerings = offered.offerings.iter();
                offerings.any(|offering| offering.zone == self.zone && offering.price == planned.price)
            })
    }
}
