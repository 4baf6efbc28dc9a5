//! Where and for how much instance types are sold, and which offerings are left alone for a while.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use outrigger_model::{CapacityType, InstanceType, Offering, Price, UnavailableOffering, vcpu_quota};

/// What a spot instance is taken to cost where no spot price is known, in percent of on-demand.
///
/// AWS lists spot at up to 90 % below on-demand, and most types of most zones cost between a quarter and a half of
/// it. An estimate in the upper part of that range keeps spot cheaper than on-demand without promising what will
/// not come true.
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

/// Marks as unavailable what EC2 lately could not supply, as far as that still holds at `now`. Says how many
/// offerings changed. The list is copied only if something does, so classes go on sharing theirs.
pub fn mark_unavailable(
    types: &mut Arc<Vec<InstanceType>>,
    unavailable: &[UnavailableOffering],
    now: Timestamp,
) -> usize {
    let mut by_type: BTreeMap<&str, Vec<&UnavailableOffering>> = BTreeMap::new();
    for item in unavailable.iter().filter(|item| item.until > now) {
        by_type.entry(&item.instance_type).or_default().push(item);
    }
    let covered = |kind: &InstanceType| {
        let names = [kind.name.as_str(), vcpu_quota(&kind.name), "*"];
        let items = names.into_iter().filter_map(|name| by_type.get(name)).flatten();
        let items: Vec<&UnavailableOffering> = items.copied().collect();
        let is_covered = |offering: &Offering| {
            offering.available && items.iter().any(|item| item.covers(&kind.name, offering, now))
        };
        kind.offerings.iter().enumerate().filter(|(_, o)| is_covered(o)).map(|(at, _)| at).collect::<Vec<_>>()
    };
    let hits: Vec<(usize, usize)> = if by_type.is_empty() {
        Vec::new()
    } else {
        types
            .iter()
            .enumerate()
            .flat_map(|(at, kind)| covered(kind).into_iter().map(move |o| (at, o)))
            .collect()
    };
    if hits.is_empty() {
        return 0;
    }
    let types = Arc::make_mut(types);
    for (kind, offering) in &hits {
        if let Some(offering) = types.get_mut(*kind).and_then(|kind| kind.offerings.get_mut(*offering)) {
            offering.available = false;
        }
    }
    hits.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::Resources;

    fn types() -> Arc<Vec<InstanceType>> {
        let zones = ["a".to_owned(), "b".to_owned()];
        let kind = |name: &str| InstanceType {
            name: name.into(),
            labels: BTreeMap::new(),
            capacity: Resources::new(),
            allocatable: Resources::new(),
            offerings: in_zones(&zones, Price::from_nanos(100), Price::from_nanos(40)),
        };
        Arc::new(vec![kind("m5.large"), kind("m5.xlarge")])
    }

    fn item(instance_type: &str, zone: &str, until: i64) -> UnavailableOffering {
        UnavailableOffering {
            instance_type: instance_type.into(),
            zone: zone.into(),
            capacity_type: CapacityType::Spot,
            until: Timestamp::from_second(until).unwrap(),
            reason: "InsufficientInstanceCapacity".into(),
            failures: 1,
        }
    }

    #[test]
    fn unavailable_offerings_are_marked_until_they_expire() {
        let now = Timestamp::from_second(100).unwrap();
        let table = [
            (vec![], 0),
            (vec![item("m5.large", "a", 101)], 1),
            (vec![item("m5.large", "a", 100)], 0),
            (vec![item("m5.large", "*", 101)], 2),
            (vec![item("*", "*", 101), item("m5.large", "a", 101)], 4),
            (vec![item("c5.large", "a", 101)], 0),
            (vec![item("quota:Standard", "a", 101)], 2),
            (vec![item("quota:P", "*", 101)], 0),
        ];
        for (unavailable, expected) in table {
            let mut marked = types();
            assert_eq!(mark_unavailable(&mut marked, &unavailable, now), expected, "{unavailable:?}");
            let gone = marked.iter().flat_map(|kind| &kind.offerings).filter(|o| !o.available);
            assert_eq!(
                gone.filter(|o| o.capacity_type == CapacityType::Spot).count(),
                expected,
                "{unavailable:?}"
            );
        }
    }

    #[test]
    fn a_list_that_others_share_stays_as_it_is() {
        let shared = types();
        let mut own = Arc::clone(&shared);
        mark_unavailable(&mut own, &[item("*", "a", 101)], Timestamp::from_second(1).unwrap());
        assert_eq!(shared, types());
        let mut untouched = Arc::clone(&shared);
        mark_unavailable(&mut untouched, &[], Timestamp::from_second(1).unwrap());
        assert!(Arc::ptr_eq(&shared, &untouched));
    }
}
