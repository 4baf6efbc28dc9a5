//! Selections that were made already: for each template and set of label requirements, the machines that meet them and
//! what room on them is worth.

use outrigger_model::{CapacityType, Requirements};

use crate::classes::FixedMap;
use crate::columns::capacity_of;
use crate::selection::Selection;
use crate::shadow_prices::shadow_prices;
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
    /// What a unit of each resource is worth there, in dollars per hour.
    pub(crate) unit_prices: Vec<f64>,
    /// Dollars per hour that a full node of each column is expected to cost; not a number until it was worth a look.
    pub(crate) expected: Vec<f64>,
    /// The mix of the demand that the prices are for, as shares of the whole.
    mix: Vec<f64>,
    /// How many offerings they have.
    pub(crate) width: u32,
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
    /// worked out for the given demand, in the units of every row.
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
        let of = &templates[template];
        let selection = of.select(wanted).ok().filter(|selection| !selection.columns.is_empty());
        let found = selection.map(|selection| {
            let zones = |column| of.zones_of(column, selection.zones).count_ones();
            let width = selection.columns.iter().map(zones).sum();
            self.all.push(Selected {
                template,
                selection,
                unit_prices: Vec::new(),
                expected: vec![f64::NAN; of.columns()],
                mix: Vec::new(),
                width,
            });
            self.price(templates, self.all.len() - 1, demand);
            self.all.len() - 1
        });
        self.known.insert((template, wanted.clone()), found);
        found
    }

    /// Works out what room is worth to a demand: first by what each machine costs by itself, then, for those that come
    /// near it, by what is to be expected when EC2 chooses among its like.
    pub(crate) fn price(&mut self, templates: &[Template<'_>], selected: usize, demand: &[f64]) {
        let of = &mut self.all[selected];
        let template = &templates[of.template];
        let order = template.by_price(of.selection.zones);
        let is_priced = |column: usize| {
            of.selection.columns.contains(column) && capacity_of(column) != CapacityType::Reserved
        };
        let priced = order.entries().iter().filter(|(_, column)| is_priced(*column));
        let (listed, columns): (Vec<(f64, &[i64])>, Vec<usize>) = priced
            .map(|(price, column)| ((template.with_node(*price as f64), template.room(*column)), *column))
            .unzip();
        let listed_prices = shadow_prices(demand, &listed);
        let mut expected: Vec<(f64, &[i64])> = Vec::new();
        for ((cost, room), column) in listed.iter().zip(columns) {
            if *cost <= NEAR * amounts::worth(room, &listed_prices) {
                let known = &mut of.expected[column];
                if known.is_nan() {
                    let like = order.carriers(capacity_of(column), room);
                    let like = like.filter(|(_, other)| of.selection.columns.contains(*other));
                    let like = like.map(|(price, _)| price);
                    let price = offers::expected(like, capacity_of(column), self.spot_types_min);
                    *known = price.map_or(*cost, |price| template.with_node(price));
                }
                expected.push((*known, *room));
            }
        }
        of.unit_prices = smooth(demand, &expected);
        of.mix = mix(demand, &of.unit_prices);
    }

    /// Whether the mix of a demand is another than that which the prices are for.
    pub(crate) fn is_stale(&self, selected: usize, demand: &[f64]) -> bool {
        if demand.iter().all(|amount| *amount <= 0.0) {
            return false;
        }
        let of = &self.all[selected];
        let mix = mix(demand, &of.unit_prices);
        mix.iter().zip(&of.mix).any(|(new, old)| (new - old).abs() > MIX_SLACK)
    }
}

/// Shadow prices, averaged over the demand and demands that have a little more of one resource each. Prices for one
/// demand alone jump: what it has enough of is worth nothing at all, and is then wasted until it is scarce. An average
/// keeps what prices are for, since no machine is worth more than it costs at any of those that go into it.
fn smooth(demand: &[f64], machines: &[(f64, &[i64])]) -> Vec<f64> {
    let mut sum = shadow_prices(demand, machines);
    let mut count = 1.0;
    for dimension in (0..demand.len()).filter(|dimension| demand[*dimension] > 0.0) {
        let mut tilted = demand.to_vec();
        tilted[dimension] *= 1.0 + TILT;
        sum.iter_mut().zip(shadow_prices(&tilted, machines)).for_each(|(sum, price)| *sum += price);
        count += 1.0;
    }
    sum.into_iter().map(|sum| sum / count).collect()
}

/// How much of a demand's worth each resource is.
fn mix(demand: &[f64], unit_prices: &[f64]) -> Vec<f64> {
    let worth: Vec<f64> = demand.iter().zip(unit_prices).map(|(amount, price)| amount * price).collect();
    let all: f64 = worth.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    worth.into_iter().map(|worth| worth / all).collect()
}
