//! What room is worth to the pods that wait, kept up to date while nodes are opened for them.

use std::rc::Rc;

use crate::amounts;
use crate::fixed_map::FixedMap;
use crate::ids::{PurchaseId, SelectionId};
use crate::market::offers;
use crate::market::purchases::capacity_of;
use crate::market::selections::Selected;
use crate::market::shadow_prices::{shadow_prices, smooth_shadow_prices};
use crate::market::templates::Template;

/// How far the share of a resource may move before prices are worked out anew.
const MIX_SLACK: f64 = 0.02;
/// How far above what it is worth a machine may cost by itself for its like to be looked at.
const NEAR: f64 = 1.6;
/// How much more of one resource demands have over which prices are averaged.
const TILT: f64 = 0.3;

/// What room on the machines of one selection is worth.
#[derive(Clone, Debug)]
pub(super) struct Priced {
    /// Dollars per hour of a unit of each resource.
    pub(super) unit_prices: Rc<[f64]>,
    /// For each contender what a full node of it is expected to cost, where it was worth a look.
    expected: Vec<Option<f64>>,
    /// The mix of the demand that the prices are for, as shares of the whole.
    mix: Vec<f64>,
}

/// The prices of all selections that were asked for.
#[derive(Debug, Default)]
pub(super) struct Prices {
    by_selection: FixedMap<SelectionId, Priced>,
}

impl Prices {
    /// What room is worth; roughly, for a demand in general, as long as it was not worked out.
    pub(super) fn unit_prices(
        &self,
        selected: &Selected,
        template: &Template<'_>,
        demand: &[f64],
    ) -> Rc<[f64]> {
        match self.by_selection.get(&selected.id) {
            Some(priced) => Rc::clone(&priced.unit_prices),
            None => selected.rough_prices(template, demand).into(),
        }
    }

    /// The contenders of a selection, with what a full node of each is expected to cost, in dollars
    /// per hour.
    pub(super) fn contenders(&self, selected: &Selected, template: &Template<'_>) -> Vec<(f64, PurchaseId)> {
        let expected = self.by_selection.get(&selected.id).map_or(&[][..], |priced| &priced.expected);
        let contenders = selected.contenders(template).iter().enumerate();
        let cost = |(rank, (cost, purchase)): (usize, &(f64, PurchaseId))| {
            (expected.get(rank).copied().flatten().unwrap_or(*cost), *purchase)
        };
        contenders.map(cost).collect()
    }

    /// Works out what room is worth to a demand, where its mix has changed: first by what each
    /// machine costs by itself, then, for those that come near it, by what is to be expected when
    /// EC2 chooses among its like.
    pub(super) fn update(
        &mut self,
        selected: &Selected,
        template: &Template<'_>,
        demand: &[f64],
        spot_types_min: usize,
    ) {
        if !self.is_stale(selected, demand) {
            return;
        }
        let order = template.by_price(selected.selection.zones);
        let contenders = selected.contenders(template);
        let listed: Vec<(f64, &[i64])> =
            contenders.iter().map(|(cost, purchase)| (*cost, template.room(*purchase))).collect();
        let listed_prices = shadow_prices(demand, &listed);
        let earlier = self.by_selection.remove(&selected.id);
        let mut expected = earlier.map_or_else(|| vec![None; contenders.len()], |priced| priced.expected);
        let mut machines: Vec<(f64, &[i64])> = Vec::new();
        for ((cost, purchase), expected) in contenders.iter().zip(&mut expected) {
            let room = template.room(*purchase);
            if *cost <= NEAR * amounts::worth(room, &listed_prices) {
                let way = capacity_of(*purchase);
                let expected = *expected.get_or_insert_with(|| {
                    let carriers = order.carriers(way, room);
                    let like =
                        carriers.filter(|(_, purchase)| selected.selection.purchases.contains(*purchase));
                    let price = offers::expected(like.map(|(price, _)| price), way, spot_types_min);
                    price.map_or(*cost, |price| template.with_node(price))
                });
                machines.push((expected, room));
            }
        }
        let unit_prices: Rc<[f64]> = smooth_shadow_prices(demand, &machines, TILT).into();
        let mix = mix(demand, &unit_prices);
        self.by_selection.insert(selected.id, Priced { unit_prices, expected, mix });
    }

    /// Whether the mix of a demand is another than that which the prices are for.
    pub(super) fn is_stale(&self, selected: &Selected, demand: &[f64]) -> bool {
        if demand.iter().all(|amount| *amount <= 0.0) {
            return false;
        }
        let Some(priced) = self.by_selection.get(&selected.id) else { return true };
        let mix = mix(demand, &priced.unit_prices);
        mix.iter().zip(&priced.mix).any(|(new, old)| (new - old).abs() > MIX_SLACK)
    }
}

/// How much of a demand's worth each resource is.
fn mix(demand: &[f64], unit_prices: &[f64]) -> Vec<f64> {
    let worth: Vec<f64> = demand.iter().zip(unit_prices).map(|(amount, price)| amount * price).collect();
    let total: f64 = worth.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    worth.into_iter().map(|worth| worth / total).collect()
}
