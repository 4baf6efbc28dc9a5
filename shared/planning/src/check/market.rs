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

use super::node_info::{Instance, compatible};

/// Everything that a snapshot offers for sale.
pub(super) struct Market<'a> {
    offers: BTreeMap<&'a NodeClassRef, &'a ClassOffer>,
    types: BTreeMap<(&'a NodeClassRef, &'a str), &'a InstanceType>,
    /// Type, zone and capacity type of offerings that are unavailable now; `*` stands for all.
    unavailable: BTreeSet<(&'a str, &'a str, CapacityType)>,
    /// The heaviest first, then by name.
    overlays: Vec<&'a NodeOverlay>,
    pool_labels: BTreeMap<&'a str, BTreeMap<String, String>>,
}

/// An available offering, with overlays in its price.
pub(super) struct PricedOffering<'a> {
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
        let unavailable = snapshot.unavailable.iter().filter(|lack| lack.until > snapshot.taken_at);
        Self {
            offers: classes().map(|offer| (&offer.class.reference, offer)).collect(),
            types: types.collect(),
            unavailable: unavailable
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

    /// The available offerings of an instance in its zone and capacity type; several when reservations differ.
    pub(super) fn offerings(&self, pool: &str, instance: &Instance<'a>) -> Vec<PricedOffering<'a>> {
        let (Some(instance_type), Some(zone), Some(capacity_type)) =
            (instance.instance_type, instance.zone, instance.capacity_type)
        else {
            return Vec::new();
        };
        let name = instance_type.name.as_str();
        let mut names = [name, vcpu_quota(name), "*"].into_iter();
        if names.any(|name| {
            [zone, "*"].into_iter().any(|zone| self.unavailable.contains(&(name, zone, capacity_type)))
        }) {
            return Vec::new();
        }
        let offerings = instance_type.offerings.iter();
        let overlaid = self.matching(pool, instance).find_map(|overlay| overlay.price);
        offerings
            .filter(|offering| {
                offering.available && offering.zone == zone && offering.capacity_type == capacity_type
            })
            .map(|offering| PricedOffering {
                price: overlaid.map_or(offering.price, |overlay| overlay.apply(offering.price)),
                reservation: offering.reservation.as_ref().map(|reservation| reservation.id.as_str()),
            })
            .collect()
    }

    /// These resources of an instance with what overlays add to it.
    pub(super) fn overlaid(
        &self,
        pool: &str,
        instance: &Instance<'a>,
        resources: &'a Resources,
    ) -> Cow<'a, Resources> {
        let mut result = Cow::Borrowed(resources);
        let mut set = BTreeSet::new();
        for overlay in self.matching(pool, instance) {
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
        instance: &'s Instance<'a>,
    ) -> impl Iterator<Item = &'a NodeOverlay> + 's {
        let labels = self.pool_labels.get(pool);
        let value = move |key: &str| {
            let of_pool = || labels.and_then(|labels| labels.get(key)).map(String::as_str);
            instance.label(key).or_else(of_pool)
        };
        self.overlays.iter().copied().filter(move |overlay| compatible(&overlay.requirements, value).is_ok())
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
