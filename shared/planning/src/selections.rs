//! Selections that were made already: for each template and set of label requirements, the machines that meet them and
//! what room on them is worth.

use outrigger_model::{CapacityType, Requirements};

use crate::classes::FixedMap;
use crate::columns::capacity_of;
use crate::selection::Selection;
use crate::shadow_prices::shadow_prices;
use crate::templates::Template;

/// How far the share of a resource may move before prices are worked out anew.
const MIX_SLACK: f64 = 0.02;

/// The machines of one template that meet some requirements.
#[derive(Debug)]
pub(crate) struct Selected {
    /// The template.
    pub(crate) template: usize,
    /// What meets them.
    pub(crate) selection: Selection,
    /// What a unit of each resource is worth there, in dollars per hour.
    pub(crate) unit_prices: Vec<f64>,
    /// The mix of the demand that the prices are for, as shares of the whole.
    mix: Vec<f64>,
    /// How many offerings they have.
    pub(crate) width: u32,
}

/// All selections of a decision.
#[derive(Debug, Default)]
pub(crate) struct Selections {
    /// The selections.
    pub(crate) all: Vec<Selected>,
    known: FixedMap<(usize, Requirements), Option<usize>>,
}

impl Selections {
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
            self.all.push(Selected { template, selection, unit_prices: Vec::new(), mix: Vec::new(), width });
            self.price(templates, self.all.len() - 1, demand);
            self.all.len() - 1
        });
        self.known.insert((template, wanted.clone()), found);
        found
    }

    /// Works out what room is worth to a demand.
    pub(crate) fn price(&mut self, templates: &[Template<'_>], selected: usize, demand: &[f64]) {
        let of = &mut self.all[selected];
        let template = &templates[of.template];
        let machines: Vec<(f64, &[i64])> = of
            .selection
            .columns
            .iter()
            .filter(|column| capacity_of(*column) != CapacityType::Reserved)
            .filter_map(|column| {
                let cost = template.node_dollars(column, of.selection.zones)?;
                Some((cost, template.room(column)))
            })
            .collect();
        of.unit_prices = shadow_prices(demand, &machines);
        of.mix = mix(demand, &of.unit_prices);
    }

    /// Whether the mix of a demand is another than that which the prices are for.
    pub(crate) fn is_stale(&self, selected: usize, demand: &[f64]) -> bool {
        let of = &self.all[selected];
        let mix = mix(demand, &of.unit_prices);
        mix.iter().zip(&of.mix).any(|(new, old)| (new - old).abs() > MIX_SLACK)
    }
}

/// How much of a demand's worth each resource is.
fn mix(demand: &[f64], unit_prices: &[f64]) -> Vec<f64> {
    let worth: Vec<f64> = demand.iter().zip(unit_prices).map(|(amount, price)| amount * price).collect();
    let all: f64 = worth.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    worth.into_iter().map(|worth| worth / all).collect()
}
