//! Selections that were made already: for each template and set of label requirements, the machines that meet them and
//! what room on them is worth.

use outrigger_model::{CapacityType, Requirements};

use crate::classes::FixedMap;
use crate::columns::capacity_of;
use crate::selection::Selection;
use crate::shadow_prices::{shadow_prices, smooth_shadow_prices};
use crate::templates::Template;
use crate::{Options, amounts, offers};

/// How far the share of a resource may move before prices are worked out anew.
const MIX_SLACK: f64 = 0.02;
/// How far above what it is worth a machine may cost by itself for its like to be looked at.
const NEAR: f64 = 1.6;
/// How much more of one resource demands have over which prices are averaged.
const TILT: f64 = 0.3;

/// The machines of one template that meet some requirements.
#[derive(Debug)]
pub(crate) struct Selected {
    /// The template.
    pub(crate) template: usize,
    /// What meets them.
    pub(crate) selection: Selection,
    /// What a unit of each resource is worth there, in dollars per hour; roughly, as long as `mix` is empty.
    pub(crate) unit_prices: Vec<f64>,
    /// The columns that can be bought, cheapest first, with what a node of each costs in dollars per hour; of those that
    /// leave the same room only the cheapest.
    contenders: Vec<(f64, usize)>,
    /// What a full node of each is expected to cost, where it was worth a look.
    expected: Vec<Option<f64>>,
    /// The mix of the demand that the prices are for, as shares of the whole.
    mix: Vec<f64>,
    /// How many offerings they have.
    pub(crate) width: u32,
}

impl Selected {
    /// The machines of a template that meet some requirements; none when there are none.
    fn of(
        templates: &[Template<'_>],
        template: usize,
        wanted: &Requirements,
        demand: &[f64],
    ) -> Option<Self> {
        let of = &templates[template];
        let selection = of.select(wanted).ok().filter(|selection| !selection.columns.is_empty())?;
        let zones = |column| of.zones_of(column, selection.zones).count_ones();
        let width = selection.columns.iter().map(zones).sum();
        let contenders = contenders(of, &selection);
        let machines: Vec<_> = contenders.iter().map(|(cost, column)| (*cost, of.room(*column))).collect();
        let unit_prices = shadow_prices(demand, &machines);
        let expected = vec![None; contenders.len()];
        Some(Self { template, selection, unit_prices, contenders, expected, mix: Vec::new(), width })
    }

    /// The columns that can be bought, with what a full node of each is expected to cost, in dollars per hour.
    pub(crate) fn contenders(&self) -> impl Iterator<Item = (f64, usize)> {
        let costs = self.contenders.iter().zip(&self.expected);
        costs.map(|((cost, column), expected)| (expected.unwrap_or(*cost), *column))
    }
}

/// All selections of a decision.
#[derive(Debug)]
pub(crate) struct Selections {
    /// How many types a spot node should offer.
    spot_types_min: usize,
    /// The selections.
    pub(crate) all: Vec<Selected>,
    known: FixedMap<(usize, Requirements), Option<usize>>,
}

impl Selections {
    /// None yet.
    pub(crate) fn new(options: &Options<'_>) -> Self {
        Self { spot_types_min: options.spot_types_min, all: Vec::new(), known: FixedMap::default() }
    }

    /// The machines of a template that meet some requirements; none when there are none. What room on them is worth is
    /// worked out roughly, for the given demand in the units of every row; [`Selections::price`] does it well.
    pub(crate) fn find(
        &mut self,
        templates: &[Template<'_>],
        template: usize,
        wanted: &Requirements,
        demand: &[f64],
    ) -> Option<usize> {
        if let Some(known) = self.known.get(&(template, wanted.clone())) {
            return *known;
        }
        let found = Selected::of(templates, template, wanted, demand).map(|selected| {
            self.all.push(selected);
            self.all.len() - 1
        });
        self.known.insert((template, wanted.clone()), found);
        found
    }

    /// Makes all selections anew, of templates that offer no less; each keeps its place.
    pub(crate) fn renew(&mut self, templates: &[Template<'_>], demand: &[f64]) {
        self.known.retain(|_, found| found.is_some());
        for ((template, wanted), found) in &self.known {
            let selected = Selected::of(templates, *template, wanted, demand);
            if let Some((found, selected)) = found.zip(selected) {
                self.all[found] = selected;
            }
        }
    }

    /// Works out what room is worth to a demand: first by what each machine costs by itself, then, for those that come
    /// near it, by what is to be expected when EC2 chooses among its like.
    pub(crate) fn price(&mut self, templates: &[Template<'_>], selected: usize, demand: &[f64]) {
        let of = &mut self.all[selected];
        let template = &templates[of.template];
        let order = template.by_price(of.selection.zones);
        let rooms = of.contenders.iter().map(|(cost, column)| (*cost, template.room(*column)));
        let listed: Vec<(f64, &[i64])> = rooms.collect();
        let listed_prices = shadow_prices(demand, &listed);
        let mut machines: Vec<(f64, &[i64])> = Vec::new();
        for ((cost, column), known) in of.contenders.iter().zip(&mut of.expected) {
            let room = template.room(*column);
            if *cost <= NEAR * amounts::worth(room, &listed_prices) {
                let way = capacity_of(*column);
                let expected = *known.get_or_insert_with(|| {
                    let like =
                        order.carriers(way, room).filter(|(_, other)| of.selection.columns.contains(*other));
                    let price = offers::expected(like.map(|(price, _)| price), way, self.spot_types_min);
                    price.map_or(*cost, |price| template.with_node(price))
                });
                machines.push((expected, room));
            }
        }
        of.unit_prices = smooth_shadow_prices(demand, &machines, TILT);
        of.mix = mix(demand, &of.unit_prices);
    }

    /// Whether the mix of a demand is another than that which the prices are for.
    pub(crate) fn is_stale(&self, selected: usize, demand: &[f64]) -> bool {
        if demand.iter().all(|amount| *amount <= 0.0) {
            return false;
        }
        let of = &self.all[selected];
        let mix = mix(demand, &of.unit_prices);
        of.mix.is_empty() || mix.iter().zip(&of.mix).any(|(new, old)| (new - old).abs() > MIX_SLACK)
    }
}

/// The columns of a selection that can be bought, of those that leave the same room only the cheapest.
fn contenders(template: &Template<'_>, selection: &Selection) -> Vec<(f64, usize)> {
    let mut seen = vec![false; template.columns()];
    let order = template.by_price(selection.zones);
    let is_new = |(_, column): &&(u64, usize)| {
        selection.columns.contains(*column)
            && capacity_of(*column) != CapacityType::Reserved
            && !std::mem::replace(&mut seen[template.like(*column)], true)
    };
    let found = order.entries().iter().filter(is_new);
    found.map(|(price, column)| (template.with_node(*price as f64), *column)).collect()
}

/// How much of a demand's worth each resource is.
fn mix(demand: &[f64], unit_prices: &[f64]) -> Vec<f64> {
    let worth: Vec<f64> = demand.iter().zip(unit_prices).map(|(amount, price)| amount * price).collect();
    let all: f64 = worth.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    worth.into_iter().map(|worth| worth / all).collect()
}
