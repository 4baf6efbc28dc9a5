//! What may be bought: instance types by class, what each offering costs under the overlays, and what EC2 lately could
//! not supply.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::labels::NODE_POOL;
use outrigger_model::{
    CapacityType, ClassOffer, InstanceType, NodeClassRef, NodeOverlay, NodePool, Price, Resources, Snapshot,
    vcpu_quota,
};

use super::place::{Machine, admits};

/// Everything that a snapshot offers for sale.
pub(super) struct Market<'a> {
    offers: BTreeMap<&'a NodeClassRef, &'a ClassOffer>,
    types: BTreeMap<(&'a NodeClassRef, &'a str), &'a InstanceType>,
    /// Type, zone and capacity type of what cannot be had now; `*` stands for all.
    lacking: BTreeSet<(&'a str, &'a str, CapacityType)>,
    /// The heaviest first, then by name.
    overlays: Vec<&'a NodeOverlay>,
    pool_labels: BTreeMap<&'a str, BTreeMap<String, String>>,
}

/// An offering that can be had, at the price that counts.
pub(super) struct Ware<'a> {
    pub(super) price: Price,
    pub(super) reservation: Option<&'a str>,
}

impl<'a> Market<'a> {
    pub(super) fn of(snapshot: &'a Snapshot) -> Self {
        let mut overlays: Vec<&NodeOverlay> = snapshot.overlays.iter().collect();
        overlays.sort_by_key(|overlay| (Reverse(overlay.weight), &overlay.name));
        // Where a class stands twice the first counts, so it is entered last.
        let classes = || snapshot.classes.iter().rev();
        let types = classes().flat_map(|offer| {
            offer.instance_types.iter().map(|t| ((&offer.class.reference, t.name.as_str()), t))
        });
        let lacking = snapshot.unavailable.iter().filter(|lack| lack.until > snapshot.taken_at);
        Self {
            offers: classes().map(|offer| (&offer.class.reference, offer)).collect(),
            types: types.collect(),
            lacking: lacking
                .map(|lack| (lack.instance_type.as_str(), lack.zone.as_str(), lack.capacity_type))
                .collect(),
            overlays,
            pool_labels: snapshot
                .node_pools
                .iter()
                .map(|pool| (pool.name.as_str(), labels_of(pool)))
                .collect(),
        }
    }

    pub(super) fn offer(&self, class: &NodeClassRef) -> Option<&'a ClassOffer> {
        self.offers.get(class).copied()
    }

    pub(super) fn instance_type(&self, class: &'a NodeClassRef, name: &'a str) -> Option<&'a InstanceType> {
        self.types.get(&(class, name)).copied()
    }

    /// The ways in which a machine can be had where it is and as it is paid for; several when reservations differ.
    pub(super) fn wares(&self, pool: &str, machine: &Machine<'a>) -> Vec<Ware<'a>> {
        let (Some(instance_type), Some(zone), Some(kind)) =
            (machine.instance_type, machine.zone, machine.capacity_type)
        else {
            return Vec::new();
        };
        let name = instance_type.name.as_str();
        let mut names = [name, vcpu_quota(name), "*"].into_iter();
        if names.any(|name| [zone, "*"].into_iter().any(|zone| self.lacking.contains(&(name, zone, kind)))) {
            return Vec::new();
        }
        let offerings = instance_type.offerings.iter();
        let overlaid = self.matching(pool, machine).find_map(|overlay| overlay.price);
        offerings
            .filter(|offering| offering.available && offering.zone == zone && offering.capacity_type == kind)
            .map(|offering| Ware {
                price: overlaid.map_or(offering.price, |overlay| overlay.apply(offering.price)),
                reservation: offering.reservation.as_ref().map(|reservation| reservation.id.as_str()),
            })
            .collect()
    }

    /// These resources of a machine with what overlays add to it.
    pub(super) fn overlaid(
        &self,
        pool: &str,
        machine: &Machine<'a>,
        resources: &'a Resources,
    ) -> Cow<'a, Resources> {
        let mut result = Cow::Borrowed(resources);
        let mut set = BTreeSet::new();
        for overlay in self.matching(pool, machine) {
            for (name, amount) in overlay.capacity.iter() {
                if set.insert(name) {
                    result.to_mut().set(name, amount);
                }
            }
        }
        result
    }

    fn matching<'s>(
        &'s self,
        pool: &str,
        machine: &'s Machine<'a>,
    ) -> impl Iterator<Item = &'a NodeOverlay> + 's {
        let labels = self.pool_labels.get(pool);
        let value = move |key: &str| {
            let of_pool = || labels.and_then(|labels| labels.get(key)).map(String::as_str);
            machine.label(key).or_else(of_pool)
        };
        self.overlays.iter().copied().filter(move |overlay| admits(&overlay.requirements, value).is_ok())
    }
}

/// The labels that every node of a pool has.
fn labels_of(pool: &NodePool) -> BTreeMap<String, String> {
    let requirements = pool.requirements();
    let single = requirements.iter().filter_map(|(key, r)| Some((key.to_owned(), r.single()?.to_owned())));
    let mut labels: BTreeMap<String, String> = single.collect();
    labels.extend(pool.spec.template.metadata.labels.clone());
    labels.insert(NODE_POOL.to_owned(), pool.name.clone());
    labels
}
