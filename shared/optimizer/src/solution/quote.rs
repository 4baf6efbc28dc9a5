//! Quotes: the cheapest machine that carries a node's pods.

use outrigger_model::CapacityType;
use outrigger_policy::MinValuesPolicy;

use super::{NewNode, Portion, Shape, Solution};
use crate::ids::{PurchaseId, TemplateId, ZoneId};
use crate::market::offers::{self, Fitting, MinValues};
use crate::market::purchases::{capacity_of, type_of};
use crate::market::templates::{Template, zone_set, zones_in};
use crate::problem::limits::{LimitRow, Remaining};

/// The machine that a node is bought as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Nano-dollars per hour of the instance.
    pub(crate) price: u64,
    /// The instance type, and how it is paid for.
    pub purchase: PurchaseId,
    /// The zones that remain possible.
    pub zones: u64,
    /// How many types it lacks of the choice that spot should have.
    pub(crate) lacking: u32,
}

impl Quote {
    /// How the machine is paid for.
    pub fn capacity_type(&self) -> CapacityType {
        capacity_of(self.purchase)
    }
}

impl Solution<'_, '_> {
    /// The cheapest machine for a shape, within limits and reservations; what `former` holds of
    /// them counts as free. A machine that is reserved is paid for already and comes first; metal
    /// and accelerators come last.
    pub(crate) fn quote(&self, shape: &Shape, former: Option<&NewNode>) -> Option<Quote> {
        let template = &self.problem.templates()[shape.template];
        let remaining = self.remaining(shape.template, former);
        let remaining = remaining.as_ref();
        let quote = self.reserved(shape, former, remaining).or_else(|| self.bought(shape, remaining))?;
        let min_values = MinValues::new(template);
        if !min_values.is_empty() && self.problem.options.min_values == MinValuesPolicy::Strict {
            self.offered(shape, quote, remaining)?;
        }
        Some(quote)
    }

    /// The types that a shape offers at least, so that the pool's minValues are kept; none where
    /// they cannot be.
    fn offered(
        &self,
        shape: &Shape,
        quote: Quote,
        remaining: Option<&Remaining<'_>>,
    ) -> Option<Vec<PurchaseId>> {
        let template = &self.problem.templates()[shape.template];
        let mut fitting = self.fitting(shape, quote);
        fitting.purchases.retain(|purchase| self.admits(shape.template, *purchase, remaining));
        offers::offered(template, &fitting, &MinValues::new(template), self.problem.options)
    }

    /// A node with these pods, bought as its quote says, in the place of its `former` self.
    pub(crate) fn node(
        &self,
        shape: Shape,
        pods: Vec<Portion>,
        quote: Quote,
        former: Option<&NewNode>,
    ) -> NewNode {
        let template = &self.problem.templates()[shape.template];
        let mut reserved = LimitRow::default();
        let limits = &self.problem.limits[shape.template];
        if !limits.are_absent() {
            let varied = (!MinValues::new(template).is_empty()).then(|| {
                let remaining = self.remaining(shape.template, former);
                self.offered(&shape, quote, remaining.as_ref())
            });
            let offers = varied.flatten().unwrap_or_else(|| vec![quote.purchase]);
            reserved = limits.taken_by(template, &offers);
        }
        let zone = zones_in(quote.zones).next();
        let reservation = zone
            .filter(|_| quote.capacity_type() == CapacityType::Reserved)
            .and_then(|zone| template.reservation(quote.purchase, zone))
            .map(|reservation| reservation.id.clone());
        NewNode { shape, pods, quote, reserved, reservation }
    }

    /// A node with these pods; none when they cannot be together, or no machine can be had for
    /// them.
    pub(crate) fn node_of(
        &self,
        template: TemplateId,
        pods: Vec<Portion>,
        former: Option<&NewNode>,
    ) -> Option<NewNode> {
        let shape = Shape::from_portions(self.problem, template, &pods)?;
        let quote = self.quote(&shape, former)?;
        Some(self.node(shape, pods, quote, former))
    }

    /// What the node's pods fit, of the machines that are paid for as its quote.
    pub fn fitting(&self, shape: &Shape, quote: Quote) -> Fitting {
        let template = &self.problem.templates()[shape.template];
        if quote.capacity_type() == CapacityType::Reserved {
            return Fitting { purchases: vec![quote.purchase], zones: quote.zones, on_demand: None };
        }
        let order = template.by_price(shape.zones);
        let bought = |capacity_type| {
            order
                .carriers(capacity_type, &shape.load.packed)
                .filter(|(_, purchase)| shape.purchases.contains(*purchase))
        };
        Fitting {
            purchases: bought(quote.capacity_type()).map(|(_, purchase)| purchase).collect(),
            zones: shape.zones,
            on_demand: bought(CapacityType::OnDemand).next().map(|(price, _)| price),
        }
    }

    /// What a pool's limits leave beside one node; none where every type may be added.
    fn remaining(&self, template: TemplateId, former: Option<&NewNode>) -> Option<Remaining<'_>> {
        let given_back =
            former.filter(|former| former.shape.template == template).map(|former| &former.reserved);
        self.problem.limits[template].remaining(&self.used[template], given_back)
    }

    fn admits(&self, template: TemplateId, purchase: PurchaseId, remaining: Option<&Remaining<'_>>) -> bool {
        !self.forbidden.contains(&(template, type_of(purchase)))
            && remaining.is_none_or(|remaining| remaining.admits(type_of(purchase)))
    }

    /// Whether a reservation behind a purchase in a zone has room left.
    pub(crate) fn is_reservation_left(
        &self,
        template: &Template<'_>,
        purchase: PurchaseId,
        zone: ZoneId,
    ) -> bool {
        let reservation = template.reservation(purchase, zone);
        reservation.is_some_and(|reservation| {
            self.reservations_remaining.get(&reservation.id).is_some_and(|count| *count > 0)
        })
    }

    /// A machine in a reservation that has room left: one type in one zone, since a node counts
    /// against each reservation that it may draw on.
    fn reserved(
        &self,
        shape: &Shape,
        former: Option<&NewNode>,
        remaining: Option<&Remaining<'_>>,
    ) -> Option<Quote> {
        if self.reservations_remaining.is_empty() {
            return None;
        }
        let template = &self.problem.templates()[shape.template];
        let order = template.by_price(shape.zones);
        let is_left = |purchase: PurchaseId, zone: ZoneId| {
            let is_own = |former: &NewNode| {
                let reservation = template.reservation(purchase, zone).map(|reservation| &reservation.id);
                former.reservation.is_some() && former.reservation.as_ref() == reservation
            };
            self.is_reservation_left(template, purchase, zone) || former.is_some_and(is_own)
        };
        let mut carriers = order.carriers(CapacityType::Reserved, &shape.load.packed);
        carriers.find_map(|(_, purchase)| {
            let fits = shape.purchases.contains(purchase) && self.admits(shape.template, purchase, remaining);
            let mut zones = zones_in(if fits { template.zones_of(purchase, shape.zones) } else { 0 });
            let zone = zones.find(|zone| is_left(purchase, *zone))?;
            let price = template.price_in(purchase, zone)?;
            Some(Quote { price, purchase, zones: zone_set([zone]), lacking: 0 })
        })
    }

    fn bought(&self, shape: &Shape, remaining: Option<&Remaining<'_>>) -> Option<Quote> {
        let template = &self.problem.templates()[shape.template];
        let order = template.by_price(shape.zones);
        let fits = |purchase: PurchaseId| {
            shape.purchases.contains(purchase) && self.admits(shape.template, purchase, remaining)
        };
        let cheapest = |capacity_type, exotic: bool| {
            let mut carriers = order.carriers(capacity_type, &shape.load.packed);
            carriers.find(|(_, purchase)| template.exotic[type_of(*purchase)] == exotic && fits(*purchase))
        };
        let of_kind = |exotic| {
            let capacity_types = [CapacityType::Spot, CapacityType::OnDemand].into_iter();
            capacity_types.filter_map(|capacity_type| cheapest(capacity_type, exotic)).min()
        };
        let (price, purchase) = of_kind(false).or_else(|| of_kind(true))?;
        let mut quote = Quote { price, purchase, zones: shape.zones, lacking: 0 };
        // A node that is launched anyway is not left empty for the sake of more choice.
        if quote.capacity_type() == CapacityType::Spot && !template.is_static() {
            quote.lacking = self.lacking(template, shape);
        }
        Some(quote)
    }

    /// How many types a spot node lacks of those that it should offer, where its pods one by one
    /// leave that choice.
    fn lacking(&self, template: &Template<'_>, shape: &Shape) -> u32 {
        let wanted = self.problem.options.spot_types_min;
        if wanted < 2 {
            return 0;
        }
        let order = template.by_price(shape.zones);
        let carriers = order.carriers(CapacityType::Spot, &shape.load.packed);
        let offered =
            carriers.filter(|(_, purchase)| shape.purchases.contains(*purchase)).take(wanted).count();
        if offered == wanted {
            return 0;
        }
        let spot = shape.purchases.iter().filter(|purchase| capacity_of(*purchase) == CapacityType::Spot);
        let possible = spot.take(wanted).count();
        if possible < wanted { 0 } else { u32::try_from(wanted - offered).unwrap_or(u32::MAX) }
    }
}
