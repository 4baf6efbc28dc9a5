//! What EC2 would launch for a node that is planned, and for how much.

use outrigger_model::{PlannedNode, Price};

use super::Ec2;

/// Prices of what EC2 launches.
pub trait Market {
    /// Dollars per hour of the instance that EC2 picks for a planned node, had its pools room;
    /// `None` where it sells none of its types.
    fn picked(&self, node: &PlannedNode) -> Option<Price>;
}

impl Market for Ec2 {
    fn picked(&self, node: &PlannedNode) -> Option<Price> {
        let offerings = node.instance_types.iter().flat_map(|kind| {
            kind.offerings.iter().map(|offering| (kind.name.as_str(), offering.zone.as_str()))
        });
        let ranked = offerings.filter_map(|(kind, zone)| {
            let rank = self.rank(kind, zone, node.capacity_type)?;
            Some((rank, kind, zone, self.price(kind, zone, node.capacity_type)?))
        });
        ranked.min().map(|(.., price)| price)
    }
}
