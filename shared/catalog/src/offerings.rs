//! Where and for how much instance types are sold.

use outrigger_model::{CapacityType, Offering};

use crate::prices::ListedPrice;

/// What spot costs in percent of on demand where all of it costs the same.
const FLAT_SPOT_PERCENT: u64 = 40;

/// The three zones that nearly every region has; what an account really sees only EC2 can say.
pub fn default_zones(region: &str) -> Vec<String> {
    ["a", "b", "c"].iter().map(|letter| format!("{region}{letter}")).collect()
}

/// Offerings of one type in a zone, as spot where it is sold so, and on demand; all available.
pub fn in_zone(zone: &str, listed: ListedPrice) -> impl Iterator<Item = Offering> + use<> {
    let zone = zone.to_owned();
    let offering = move |(capacity_type, price, interruption)| Offering {
        zone: zone.clone(),
        capacity_type,
        price,
        available: true,
        reservation: None,
        interruption,
    };
    let spot = listed.spot().map(|price| (CapacityType::Spot, price, listed.interruption));
    spot.into_iter().chain([(CapacityType::OnDemand, listed.on_demand, None)]).map(offering)
}

/// The offerings on demand, each with one as spot before it.
pub(crate) fn with_flat_spot(offerings: &[Offering]) -> Vec<Offering> {
    let on_demand = offerings.iter().filter(|offering| offering.capacity_type == CapacityType::OnDemand);
    let both = |on_demand: &Offering| {
        let price = on_demand.price.percent(FLAT_SPOT_PERCENT);
        [Offering { capacity_type: CapacityType::Spot, price, ..on_demand.clone() }, on_demand.clone()]
    };
    on_demand.flat_map(both).collect()
}
