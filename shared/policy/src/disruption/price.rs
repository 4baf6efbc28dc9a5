//! What a node costs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use outrigger_model::{CapacityType, InstanceType, NodeOverlay, Price, labels};

use super::managed_nodes::ManagedNode;
use crate::Options;

/// Dollars per hour of a node's instance: what the catalogue says now of its type, zone and
/// capacity type, with the NodeOverlays, since spot costs what it costs today, and with what its
/// pool counts for interruptions; else what its claim says. `None` where neither does.
pub fn of_instance(managed: &ManagedNode<'_>, overlays: &[NodeOverlay]) -> Option<Price> {
    listed(managed, overlays).or_else(|| managed.price_at_launch())
}

/// Dollars per hour that a node costs beside its instance: its class's root volume, unless the
/// caller knows better.
pub fn beside(managed: &ManagedNode<'_>, options: &Options<'_>) -> Price {
    let of_class = || managed.offer.map_or(Price::ZERO, |offer| offer.class.root_volume.price());
    options.node_price.unwrap_or_else(of_class)
}

fn listed(managed: &ManagedNode<'_>, overlays: &[NodeOverlay]) -> Option<Price> {
    let (instance_type, zone) = (managed.known_type()?, managed.zone()?);
    let capacity_type = paid_as(managed, instance_type)?;
    let mut here = instance_type.offerings.iter().filter(|offering| offering.zone == zone);
    let offering = here.find(|offering| offering.capacity_type == capacity_type)?;
    let labels = labels_of(managed, instance_type, capacity_type);
    let about = overlays.iter().filter(|overlay| overlay.requirements.match_labels(&labels).is_ok());
    // The heaviest counts, between equals the first by name.
    let priced = about.filter(|overlay| overlay.price.is_some());
    let overlay = priced.max_by_key(|overlay| (overlay.weight, Reverse(&overlay.name)));
    let price = overlay.and_then(|overlay| overlay.price);
    let interruptions = managed.pool.map_or(Price::ZERO, |pool| pool.interruption_cost(offering));
    Some(price.map_or(offering.price, |price| price.apply(offering.price)) + interruptions)
}

/// How a node is paid for. EC2 goes on with the instances of a reservation that has ended, on
/// demand.
fn paid_as(managed: &ManagedNode<'_>, instance_type: &InstanceType) -> Option<CapacityType> {
    let capacity_type = managed.capacity_type()?;
    let reservation = managed.node.labels.get(labels::RESERVATION_ID);
    let mut offered = instance_type.offerings.iter().filter_map(|offering| offering.reservation.as_ref());
    let has_ended = reservation.is_some_and(|id| offered.all(|offered| offered.id != *id));
    Some(if has_ended && capacity_type == CapacityType::Reserved {
        CapacityType::OnDemand
    } else {
        capacity_type
    })
}

/// The labels by which overlays choose: those of the node, and of its type where the node does not
/// say.
fn labels_of(
    managed: &ManagedNode<'_>,
    instance_type: &InstanceType,
    capacity_type: CapacityType,
) -> BTreeMap<String, String> {
    let mut labels = instance_type.labels.clone();
    labels.extend(managed.node.labels.clone());
    labels.insert(labels::INSTANCE_TYPE.to_owned(), instance_type.name.clone());
    labels.insert(labels::CAPACITY_TYPE.to_owned(), capacity_type.to_string());
    labels.extend(managed.zone().map(|zone| (labels::ZONE.to_owned(), zone.to_owned())));
    labels
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outrigger_model::{Offering, PriceOverlay, Requirement, Requirements, Reservation, Resources};

    use super::*;
    use crate::disruption::fixtures::World;
    use crate::disruption::managed_nodes::managed_nodes;

    fn overlay(name: &str, weight: u32, capacity_type: &str, dollars: f64) -> NodeOverlay {
        NodeOverlay {
            name: name.into(),
            weight,
            requirements: Requirements::new()
                .with(labels::CAPACITY_TYPE, Requirement::exactly(capacity_type)),
            price: Some(PriceOverlay::Absolute(Price::from_dollars(dollars).unwrap())),
            capacity: Resources::new(),
        }
    }

    #[test]
    fn a_node_costs_what_it_costs_on_demand_once_its_reservation_has_ended() {
        let mut world = World::new();
        world.forget(labels::CAPACITY_TYPE, "reserved");
        world.set_label(labels::RESERVATION_ID, "cr-1");
        let cost = |world: &World| of_instance(&managed_nodes(&world.snapshot)[0], &[]).map(Price::dollars);
        assert_eq!(cost(&world), Some(0.1));
        let types = Arc::make_mut(&mut world.snapshot.classes[0].instance_types);
        for id in ["cr-0", "cr-1"] {
            let on_demand =
                types[0].offerings.iter().find(|offering| offering.capacity_type == CapacityType::OnDemand);
            let reserved = Offering {
                capacity_type: CapacityType::Reserved,
                price: Price::ZERO,
                reservation: Some(Reservation { id: id.into(), count: 0, total: Some(1) }),
                ..on_demand.unwrap().clone()
            };
            types[0].offerings.push(reserved);
        }
        assert_eq!(cost(&world), Some(0.0));
    }

    #[test]
    fn interruptions_count_where_the_pool_says_so() {
        let mut world = World::new();
        let annotations = &mut world.snapshot.node_pools[0].annotations;
        annotations.insert(labels::INTERRUPTION_PRICE.to_owned(), "73".to_owned());
        let cost = of_instance(&managed_nodes(&world.snapshot)[0], &[]).map(Price::dollars);
        // Nobody says how often it is taken back, so an eighth of $73 a month counts.
        assert_eq!(cost, Some(0.0525));
    }

    #[test]
    fn the_catalogue_knows_prices_of_today_and_a_claim_that_of_its_launch() {
        type Change = fn(&mut World);
        let others = [overlay("a", 1, "on-demand", 9.0), overlay("b", 2, "spot", 3.0)];
        let both = [overlay("a", 1, "spot", 9.0), overlay("b", 2, "spot", 3.0), overlay("c", 2, "spot", 4.0)];
        let no_claim: Change = |world| world.snapshot.claims.clear();
        let table: [(&str, Change, &[NodeOverlay], Option<f64>); 9] = [
            ("a claim", |_| {}, &[], Some(0.04)),
            ("a claim of a type that is not listed", |world| world.snapshot.classes.clear(), &[], Some(0.05)),
            ("no claim", no_claim, &[], Some(0.04)),
            ("an overlay", no_claim, &others, Some(3.0)),
            ("the heaviest overlay", no_claim, &both, Some(3.0)),
            ("on demand", |world| world.forget(labels::CAPACITY_TYPE, "on-demand"), &others[1..], Some(0.1)),
            ("another zone", |world| world.forget(labels::ZONE, "us-east-1b"), &[], None),
            ("no such way", |world| world.forget(labels::CAPACITY_TYPE, "reserved"), &[], None),
            ("another type", |world| world.forget(labels::INSTANCE_TYPE, "m6.large"), &[], None),
        ];
        for (what, change, overlays, expected) in table {
            let mut world = World::new();
            change(&mut world);
            let managed = managed_nodes(&world.snapshot);
            let actual = of_instance(&managed[0], overlays).map(Price::dollars);
            assert_eq!(actual, expected, "{what}");
        }
    }
}
