//! What may be bought: instance types by class, what each offering costs under the overlays, and
//! what EC2 lately could not supply.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::labels::NODE_POOL;
use outrigger_model::{
    ClassOffer, InstanceType, NodeClassRef, NodeOverlay, NodePool, Offering, Price, Resources, Snapshot,
};

use super::node_info::{PossibleInstance, compatible};

/// Everything that a snapshot offers for sale.
pub(super) struct Market<'a> {
    snapshot: &'a Snapshot,
    offers: BTreeMap<&'a NodeClassRef, &'a ClassOffer>,
    types: BTreeMap<(&'a NodeClassRef, &'a str), &'a InstanceType>,
    /// The heaviest first, then by name.
    overlays: Vec<&'a NodeOverlay>,
    pools: BTreeMap<&'a str, PoolFacts<'a>>,
}

/// A pool, and the labels that every node of it has.
struct PoolFacts<'a> {
    pool: &'a NodePool,
    labels: BTreeMap<String, String>,
}

impl<'a> Market<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Self {
        let mut overlays: Vec<&NodeOverlay> = snapshot.overlays.iter().collect();
        overlays.sort_by_key(|overlay| (Reverse(overlay.weight), &overlay.name));
        // Where a class stands twice the first counts, so it is entered last.
        let classes = || snapshot.classes.iter().rev();
        let types = classes().flat_map(|offer| {
            offer.instance_types.iter().map(|t| ((&offer.class.reference, t.name.as_str()), t))
        });
        let pools = snapshot.node_pools.iter();
        Self {
            snapshot,
            offers: classes().map(|offer| (&offer.class.reference, offer)).collect(),
            types: types.collect(),
            overlays,
            pools: pools
                .map(|pool| (pool.name.as_str(), PoolFacts { pool, labels: labels_of(pool) }))
                .collect(),
        }
    }

    pub(super) fn offer(&self, class: &NodeClassRef) -> Option<&'a ClassOffer> {
        self.offers.get(class).copied()
    }

    pub(super) fn instance_type(&self, class: &'a NodeClassRef, name: &'a str) -> Option<&'a InstanceType> {
        self.types.get(&(class, name)).copied()
    }

    /// Whether an instance can be had in its zone and capacity type at a price, out of no
    /// reservation or one of these.
    pub(super) fn sells(
        &self,
        pool: &str,
        instance: &PossibleInstance<'a>,
        price: Price,
        reservations: &BTreeSet<String>,
    ) -> bool {
        let Some(instance_type) = instance.instance_type else { return false };
        let overlaid = self.matching(pool, instance).find_map(|overlay| overlay.price);
        let facts = self.pools.get(pool);
        let counted = |offering: &Offering| {
            let interruptions = facts.map_or(Price::ZERO, |facts| facts.pool.interruption_cost(offering));
            overlaid.map_or(offering.price, |overlay| overlay.apply(offering.price)) + interruptions
        };
        let Snapshot { unavailable, taken_at, .. } = self.snapshot;
        instance_type.offerings.iter().any(|offering| {
            offering.available
                && instance.zone == Some(&offering.zone)
                && instance.capacity_type == Some(offering.capacity_type)
                && price == counted(offering)
                && offering
                    .reservation
                    .as_ref()
                    .is_none_or(|reservation| reservations.contains(&reservation.id))
                && !unavailable.iter().any(|other| other.covers(&instance_type.name, offering, *taken_at))
        })
    }

    /// These resources of an instance with what overlays add to it.
    pub(super) fn overlaid(
        &self,
        pool: &str,
        instance: &PossibleInstance<'a>,
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
        instance: &'s PossibleInstance<'a>,
    ) -> impl Iterator<Item = &'a NodeOverlay> + 's {
        let labels = self.pools.get(pool).map(|facts| &facts.labels);
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
