//! What a node class makes of the catalogue.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::labels::{CAPACITY_TYPE, REGION, ZONE, ZONE_ID};
use outrigger_model::node_class::CapacityReservation;
use outrigger_model::{CapacityType, InstanceType, NodeClass, Offering, Price, Requirement, Reservation};

use crate::catalog::{Catalog, TypeEntry};
use crate::{allocatable, attachments, labels};

/// What is left of the price on demand where a reservation has paid for it.
const RESERVED_SHARE: u64 = 10_000_000;

impl Catalog {
    /// What a node class can make of the catalogue, in order of name.
    ///
    /// Left out are types for whose architecture the class has no image (when it names any), types
    /// that its requirements exclude, and offerings in zones where it has no subnet (when it names
    /// any); a type without an offering left is left out too. Labels include the region, but
    /// neither zone nor capacity type, which belong to the offering.
    pub fn instance_types(&self, class: &NodeClass) -> Arc<Vec<InstanceType>> {
        let types = self.types.iter().filter_map(|entry| instance_type(entry, &self.region, class));
        Arc::new(types.collect())
    }
}

fn instance_type(entry: &TypeEntry, region: &str, class: &NodeClass) -> Option<InstanceType> {
    let facts = &entry.facts;
    if !class.images.is_empty() && class.image(&facts.arch).is_none() {
        return None;
    }
    let reserved = class.reservations.iter().filter(|reservation| reservation.instance_type == facts.name);
    let offerings =
        entry.offerings.iter().cloned().chain(reserved.map(|reservation| offering(entry, reservation)));
    let offerings: Vec<Offering> = offerings.filter(|offering| is_sold_to(class, offering)).collect();
    if offerings.is_empty() {
        return None;
    }
    let mut labels = labels::labels_of(facts);
    labels.insert(REGION.to_owned(), region.to_owned());
    if !is_wanted(class, &labels) {
        return None;
    }
    let resources = allocatable::node_resources(facts, &class.kubelet, class.root_volume.size);
    Some(InstanceType {
        name: facts.name.clone(),
        labels,
        capacity: resources.capacity,
        allocatable: resources.allocatable,
        ebs_volumes: Some(attachments::for_pods(facts, class)),
        offerings,
    })
}

/// What a reservation offers. It is paid for already: as with Karpenter a ten-millionth of the
/// price on demand is left, by which the larger one is the dearer.
fn offering(entry: &TypeEntry, reservation: &CapacityReservation) -> Offering {
    let is_like = |offering: &&Offering| offering.capacity_type == CapacityType::OnDemand;
    let on_demand = entry.offerings.iter().find(is_like).map_or(Price::ZERO, |offering| offering.price);
    Offering {
        zone: reservation.zone.clone(),
        capacity_type: CapacityType::Reserved,
        price: Price::from_nanos(on_demand.nanos() / RESERVED_SHARE),
        available: true,
        reservation: Some(Reservation {
            id: reservation.id.clone(),
            count: reservation.available,
            total: Some(reservation.total),
        }),
        interruption: None,
    }
}

/// Whether the class may launch there: it has a subnet in the zone, its requirements on zone and
/// capacity type hold, and spot costs no more than it allows.
fn is_sold_to(class: &NodeClass, offering: &Offering) -> bool {
    let mut zone_ids =
        class.subnets.iter().filter(|subnet| subnet.zone == offering.zone).map(|s| s.zone_id.as_str());
    let has_subnet = class.subnets.is_empty() || zone_ids.clone().next().is_some();
    let is_spot = offering.capacity_type == CapacityType::Spot;
    has_subnet
        && class.max_spot_price.is_none_or(|most| !is_spot || offering.price <= most)
        && class.requirements.allow(ZONE, &offering.zone)
        && class.requirements.allow(CAPACITY_TYPE, offering.capacity_type.as_str())
        && class.requirements.get(ZONE_ID).is_none_or(|wanted| zone_ids.any(|id| wanted.has(id)))
}

/// Whether nodes of the type would meet the class's requirements. A label that neither the type nor
/// the class gives them is absent: a requirement for GPUs leaves out what has none.
fn is_wanted(class: &NodeClass, labels: &BTreeMap<String, String>) -> bool {
    let of_offerings = [ZONE, ZONE_ID, CAPACITY_TYPE];
    let is_met = |(key, wanted): (&str, &Requirement)| {
        let value = labels.get(key).or_else(|| class.labels.get(key));
        of_offerings.contains(&key)
            || value.map_or_else(|| wanted.allows_absence(), |value| wanted.has(value))
    };
    class.requirements.iter().all(is_met)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::{Image, NodeClassRef, Operator, Requirements, Subnet};

    fn names(change: impl Fn(&mut NodeClass)) -> Vec<InstanceType> {
        let mut class = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
        change(&mut class);
        Catalog::embedded("us-east-1", &[]).unwrap().instance_types(&class).to_vec()
    }

    fn wanting(key: &str, operator: Operator, values: &[&str]) -> impl Fn(&mut NodeClass) {
        let wanted = Requirements::new().with(key, Requirement::new(operator, values.iter().copied()));
        move |class| class.requirements = wanted.clone()
    }

    #[test]
    fn reservations_are_offered_where_the_class_has_a_subnet() {
        let reservation = |id: &str, zone: &str| CapacityReservation {
            id: id.into(),
            instance_type: "m5.large".into(),
            zone: zone.into(),
            available: 3,
            total: 5,
        };
        let types = names(|class| {
            class.reservations = vec![reservation("cr-a", "us-east-1a"), reservation("cr-f", "us-east-1f")];
            class.subnets = vec![Subnet {
                id: "subnet-a".into(),
                zone: "us-east-1a".into(),
                zone_id: String::new(),
                free_addresses: 9,
            }];
        });
        let reserved =
            types.iter().flat_map(|kind| kind.offerings.iter().map(move |offering| (&kind.name, offering)));
        let reserved: Vec<_> =
            reserved.filter(|(_, offering)| offering.capacity_type == CapacityType::Reserved).collect();
        let [(name, offering)] = reserved[..] else { panic!("one is offered: {reserved:?}") };
        assert_eq!((name.as_str(), offering.zone.as_str()), ("m5.large", "us-east-1a"));
        assert_eq!(offering.reservation, Some(Reservation { id: "cr-a".into(), count: 3, total: Some(5) }));
        assert_eq!(offering.price, Price::from_nanos(9), "a ten-millionth of $0.096");
    }

    #[test]
    fn requirements_choose_types() {
        let gpu = "karpenter.k8s.aws/instance-gpu-count";
        let table = [
            (names(|_| {}).len(), 1_345),
            (
                names(wanting("node.kubernetes.io/instance-type", Operator::In, &["m5.large", "x9.big"]))
                    .len(),
                1,
            ),
            (names(wanting(gpu, Operator::Gt, &["0"])).len(), 64),
            (names(wanting(gpu, Operator::DoesNotExist, &[])).len(), 1_276),
            (names(wanting("team", Operator::In, &["red"])).len(), 0),
            (names(wanting("topology.kubernetes.io/region", Operator::In, &["us-east-1"])).len(), 1_345),
            (names(wanting("topology.kubernetes.io/region", Operator::In, &["eu-west-1"])).len(), 0),
        ];
        for (index, (actual, expected)) in table.into_iter().enumerate() {
            assert_eq!(actual, expected, "row {index}");
        }
        let labelled = names(|class| {
            wanting("team", Operator::In, &["red"])(class);
            class.labels.insert("team".into(), "red".into());
        });
        assert_eq!(labelled.len(), 1_345);
    }

    #[test]
    fn requirements_and_subnets_choose_offerings() {
        let spot = names(wanting(CAPACITY_TYPE, Operator::In, &["spot"]));
        assert!(spot.iter().all(|kind| kind.offerings.len() == 3));
        let zone = names(wanting(ZONE, Operator::NotIn, &["us-east-1a"]));
        assert!(zone.iter().all(|kind| kind.offerings.iter().all(|o| o.zone != "us-east-1a")));
        let subnet = |zone: &str, zone_id: &str| Subnet {
            id: format!("subnet-{zone}"),
            zone: zone.into(),
            zone_id: zone_id.into(),
            free_addresses: 9,
        };
        let two = vec![subnet("us-east-1a", "use1-az4"), subnet("us-east-1b", "use1-az6")];
        let in_both = names(|class| class.subnets.clone_from(&two));
        assert!(in_both.iter().all(|kind| kind.offerings.iter().all(|o| o.zone != "us-east-1c")));
        let by_id = names(|class| {
            wanting(ZONE_ID, Operator::In, &["use1-az6"])(class);
            class.subnets.clone_from(&two);
        });
        assert!(by_id.iter().flat_map(|kind| &kind.offerings).all(|o| o.zone == "us-east-1b"));
        assert_eq!(by_id.len(), 1_345);
        assert_eq!(names(|class| class.subnets = vec![subnet("us-east-1f", "")]).len(), 0);
    }

    #[test]
    fn a_highest_price_leaves_out_dearer_spot_and_nothing_on_demand() {
        let most = Price::from_nanos(50_000_000);
        let (free, capped) = (names(|_| {}), names(|class| class.max_spot_price = Some(most)));
        let count = |types: &[InstanceType], test: &dyn Fn(&Offering) -> bool| {
            types.iter().flat_map(|kind| &kind.offerings).filter(|offering| test(offering)).count()
        };
        let is_spot = |offering: &Offering| offering.capacity_type == CapacityType::Spot;
        let is_cheap = |offering: &Offering| is_spot(offering) && offering.price <= most;
        let cheap = count(&free, &is_cheap);
        assert!(cheap > 0);
        assert_eq!((count(&capped, &is_cheap), count(&capped, &is_spot)), (cheap, cheap));
        assert_eq!(count(&capped, &|o| !is_spot(o)), count(&free, &|o| !is_spot(o)));
    }

    #[test]
    fn only_architectures_with_an_image_are_made() {
        let arm = names(|class| class.images = vec![Image { id: "ami-1".into(), arch: "arm64".into() }]);
        assert_eq!(arm.len(), 396);
        assert!(arm.iter().all(|kind| kind.labels["kubernetes.io/arch"] == "arm64"));
    }

    #[test]
    fn types_come_in_order_with_the_region_among_their_labels() {
        let types = names(|_| {});
        assert!(types.is_sorted_by(|a, b| a.name < b.name));
        assert!(
            types.iter().all(|kind| kind.labels[REGION] == "us-east-1" && !kind.labels.contains_key(ZONE))
        );
    }
}
