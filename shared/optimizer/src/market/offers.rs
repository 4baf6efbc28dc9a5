//! Which types a planned node offers: all that its pods fit, cheapest first, within bounds.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::labels::{CAPACITY_TYPE, ZONE};
use outrigger_model::{CapacityType, InstanceType, PlannedNode};
use outrigger_policy::{MinValuesPolicy, Options};

use crate::ids::PurchaseId;
use crate::market::purchases::{self, Purchases, capacity_of, type_of};
use crate::market::templates::Template;

/// How many distinct values of a label the offered types must keep.
#[derive(Debug)]
pub struct MinValues<'a> {
    wanted: Vec<(&'a str, usize)>,
}

impl<'a> MinValues<'a> {
    /// What a template's requirements ask.
    pub fn new(template: &'a Template<'_>) -> Self {
        let asked = template.requirements.iter();
        let wanted = asked.filter_map(|(key, requirement)| Some((key, requirement.min_values()? as usize)));
        Self { wanted: wanted.collect() }
    }

    /// Whether nothing is asked.
    pub const fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// The first label of which some purchases keep too few values, with the number that is asked.
    pub fn unmet(
        &self,
        template: &Template<'_>,
        purchases: &[PurchaseId],
        zones: u64,
    ) -> Option<(&'a str, usize)> {
        self.wanted.iter().copied().find(|(key, wanted)| {
            let values: BTreeSet<&str> =
                purchases.iter().flat_map(|purchase| values(template, *purchase, key, zones)).collect();
            values.len() < *wanted
        })
    }
}

/// The values of a label that offering a purchase keeps possible. A node has one capacity type, but
/// as in Karpenter all that its type can be had as count.
fn values<'t>(template: &'t Template<'_>, purchase: PurchaseId, key: &str, zones: u64) -> Vec<&'t str> {
    match key {
        ZONE => template.zone_names(template.zones_of(purchase, zones)).collect(),
        CAPACITY_TYPE => {
            let bought = CapacityType::ALL.into_iter().filter(|capacity_type| {
                template.usable.contains(purchases::purchase(type_of(purchase), *capacity_type))
            });
            bought.map(CapacityType::as_str).collect()
        }
        key => template.label(type_of(purchase), key).into_iter().collect(),
    }
}

/// What a node's pods fit.
#[derive(Debug)]
pub struct Fitting {
    /// The purchases, all of one capacity type.
    pub purchases: Vec<PurchaseId>,
    /// The zones.
    pub zones: u64,
    /// Nano-dollars per hour of the cheapest machine on demand that they fit too.
    pub on_demand: Option<u64>,
}

/// The purchases that a node offers out of those that its pods fit, cheapest first: within the
/// price margin, for spot at least `spot_types_min`, as many as `minValues` needs, at most
/// [`PlannedNode::MAX_TYPES`]. `None` when `minValues` cannot be kept.
///
/// As in Karpenter's AWS provider, metal and accelerators are left out while plain machines do, and
/// spot that is dearer than on-demand too, unless `minValues` needs them.
pub fn offered(
    template: &Template<'_>,
    fitting: &Fitting,
    min_values: &MinValues<'_>,
    options: &Options<'_>,
) -> Option<Vec<PurchaseId>> {
    let fits = Purchases::from_list(template.purchases(), &fitting.purchases);
    let zones = fitting.zones;
    let order = template.by_price(zones);
    let priced: Vec<(u64, PurchaseId)> =
        order.entries().iter().copied().filter(|(_, purchase)| fits.contains(*purchase)).collect();
    let sensible = |price: u64, purchase: PurchaseId| {
        let is_spot = capacity_of(purchase) == CapacityType::Spot;
        let dearer = is_spot && fitting.on_demand.is_some_and(|on_demand| price > on_demand);
        !template.exotic[type_of(purchase)] && !dearer
    };
    let preferred: Vec<_> =
        priced.iter().copied().filter(|(price, purchase)| sensible(*price, *purchase)).collect();
    bounded(template, &preferred, zones, min_values, options)
        .or_else(|| bounded(template, &priced, zones, min_values, options))
}

/// What strict `minValues` left, or else what there is without them where the policy is to do what
/// one can; and whether they were lowered.
pub fn or_best_effort(
    strict: Option<Vec<PurchaseId>>,
    template: &Template<'_>,
    fitting: &Fitting,
    options: &Options<'_>,
) -> Option<(Vec<PurchaseId>, bool)> {
    let chosen = match strict {
        Some(offers) => (offers, false),
        None if options.min_values == MinValuesPolicy::Strict => return None,
        None => {
            let none = MinValues { wanted: Vec::new() };
            (offered(template, fitting, &none, options)?, true)
        }
    };
    (!chosen.0.is_empty()).then_some(chosen)
}

/// How much of a spot node's expected price is the mean of the cheapest types that it offers; the
/// rest is the cheapest.
const SPREAD_WEIGHT: f64 = 0.5;

/// Nano-dollars per hour that a node is expected to cost whose pods fit machines at these prices,
/// cheapest first: on demand the cheapest, for spot between the cheapest and the mean of those that
/// it should offer.
pub(crate) fn expected(
    mut prices: impl Iterator<Item = u64>,
    capacity_type: CapacityType,
    spot_types_min: usize,
) -> Option<f64> {
    let cheapest = prices.next()? as f64;
    if capacity_type != CapacityType::Spot {
        return Some(cheapest);
    }
    let (mut sum, mut count) = (cheapest, 1.0);
    for price in prices.take(spot_types_min.saturating_sub(1)) {
        sum += price as f64;
        count += 1.0;
    }
    Some((1.0 - SPREAD_WEIGHT) * cheapest + SPREAD_WEIGHT * sum / count)
}

/// Whether a machine is metal or has accelerators, which nobody wants by accident.
pub(crate) fn is_exotic(instance_type: &InstanceType) -> bool {
    let has = |key: &str| instance_type.labels.contains_key(key);
    has("karpenter.k8s.aws/instance-gpu-count")
        || has("karpenter.k8s.aws/instance-accelerator-count")
        || instance_type.name.contains(".metal")
}

/// The first of some purchases in order of price, as many as the bounds say.
fn bounded(
    template: &Template<'_>,
    priced: &[(u64, PurchaseId)],
    zones: u64,
    min_values: &MinValues<'_>,
    options: &Options<'_>,
) -> Option<Vec<PurchaseId>> {
    let (cheapest, first) = *priced.first()?;
    let margin = u128::from(cheapest) * (100 + u128::from(options.price_margin_percent)) / 100;
    let within = priced.iter().take_while(|(price, _)| u128::from(*price) <= margin).count();
    let least = if capacity_of(first) == CapacityType::Spot { options.spot_types_min } else { 1 };
    let count = within.max(least).min(PlannedNode::MAX_TYPES).min(priced.len());
    let ranked: Vec<PurchaseId> = priced.iter().map(|(_, purchase)| *purchase).collect();
    let shortest = (count..=ranked.len().min(PlannedNode::MAX_TYPES))
        .find(|count| min_values.unmet(template, &ranked[..*count], zones).is_none());
    if let Some(count) = shortest {
        return Some(ranked[..count].to_vec());
    }
    let varied = most_varied(template, &ranked, zones, min_values);
    min_values.unmet(template, &varied, zones).is_none().then_some(varied)
}

/// As many purchases as may be offered, those first that add a value that is still missing, in
/// order of price.
fn most_varied(
    template: &Template<'_>,
    ranked: &[PurchaseId],
    zones: u64,
    min_values: &MinValues<'_>,
) -> Vec<PurchaseId> {
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let (mut chosen, mut others) = (Vec::new(), Vec::new());
    for (rank, purchase) in ranked.iter().enumerate() {
        let mut adds = false;
        for (key, wanted) in &min_values.wanted {
            let seen = seen.entry(key).or_default();
            if seen.len() < *wanted {
                let before = seen.len();
                seen.extend(values(template, *purchase, key, zones));
                adds |= seen.len() > before;
            }
        }
        if adds { chosen.push(rank) } else { others.push(rank) }
    }
    chosen.extend(others);
    chosen.truncate(PlannedNode::MAX_TYPES);
    chosen.sort_unstable();
    chosen.into_iter().map(|rank| ranked[rank]).collect()
}
