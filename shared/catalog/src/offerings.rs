//! Where and for how much instance types are sold.

use outrigger_model::{CapacityType, Offering, Price};

/// What a spot instance is taken to cost where no spot price is known, in percent of on-demand.
///
/// AWS lists spot at up to 90 % below on-demand, and most types of most zones cost between a
/// quarter and a half of it. An estimate in the upper part of that range keeps spot cheaper than
/// on-demand without promising what will not come true.
pub const SPOT_ESTIMATE_PERCENT: u64 = 40;

/// The spot price that is assumed where none is known.
pub const fn estimated_spot(on_demand: Price) -> Price {
    on_demand.percent(SPOT_ESTIMATE_PERCENT)
}

/// The three zones that nearly every region has; what an account really sees only EC2 can say.
pub fn default_zones(region: &str) -> Vec<String> {
    ["a", "b", "c"].iter().map(|letter| format!("{region}{letter}")).collect()
}

/// Offerings of one type in each zone, on demand and as spot, all available.
pub fn in_zones(zones: &[String], on_demand: Price, spot: Price) -> Vec<Offering> {
    let offering = |zone: &String, capacity_type, price| Offering {
        zone: zone.clone(),
        capacity_type,
        price,
        available: true,
        reservation: None,
    };
    let both =
        |zone| [offering(zone, CapacityType::Spot, spot), offering(zone, CapacityType::OnDemand, on_demand)];
    zones.iter().flat_map(both).collect()
}
