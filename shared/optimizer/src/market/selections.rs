//! Selections that were made already: for each template and set of label requirements, the machines
//! that meet them.

use std::cell::OnceCell;
use std::rc::Rc;

use outrigger_model::{CapacityType, Requirements};
use typed_index_collections::{TiSlice, TiVec, ti_vec};

use crate::fixed_map::FixedMap;
use crate::ids::{PurchaseId, SelectionId, TemplateId};
use crate::market::purchases::capacity_of;
use crate::market::selection::Selection;
use crate::market::shadow_prices::shadow_prices;
use crate::market::templates::Template;

/// The machines of one template that meet some requirements.
#[derive(Debug)]
pub struct Selected {
    /// Its number, by which it is told from others.
    pub(crate) id: SelectionId,
    /// The template.
    pub(crate) template: TemplateId,
    /// What meets them.
    pub selection: Selection,
    /// How many offerings they have.
    pub(crate) width: u32,
    contenders: OnceCell<Vec<(f64, PurchaseId)>>,
    rough_prices: OnceCell<Vec<f64>>,
}

impl Selected {
    /// The purchases that cost least for the room that they leave, cheapest first, with what a node
    /// of each costs in dollars per hour.
    pub(crate) fn contenders(&self, template: &Template<'_>) -> &[(f64, PurchaseId)] {
        self.contenders.get_or_init(|| contenders(template, &self.selection))
    }

    /// What a unit of each resource is worth there for a demand, in dollars per hour, roughly: by
    /// the price of each machine alone. It is asked for one demand only.
    pub(crate) fn rough_prices(&self, template: &Template<'_>, demand: &[f64]) -> &[f64] {
        self.rough_prices.get_or_init(|| {
            let machines = self.contenders(template).iter();
            let machines: Vec<_> =
                machines.map(|(cost, purchase)| (*cost, template.room(*purchase))).collect();
            shadow_prices(demand, &machines)
        })
    }
}

/// All selections of a decision.
#[derive(Debug, Default)]
pub(crate) struct Selections {
    count: usize,
    made: FixedMap<(TemplateId, Requirements), Option<Rc<Selected>>>,
}

impl Selections {
    /// The machines of a template that meet some requirements; none when there are none.
    pub(crate) fn find(
        &mut self,
        templates: &TiSlice<TemplateId, Template<'_>>,
        template: TemplateId,
        wanted: &Requirements,
    ) -> Option<Rc<Selected>> {
        if let Some(selected) = self.made.get(&(template, wanted.clone())) {
            return selected.clone();
        }
        let launchable = &templates[template];
        let selection = launchable.select(wanted).ok().filter(|selection| !selection.purchases.is_empty());
        let selected = selection.map(|selection| {
            let zones = |purchase| launchable.zones_of(purchase, selection.zones).count_ones();
            let width = selection.purchases.iter().map(zones).sum();
            let (contenders, rough_prices) = (OnceCell::new(), OnceCell::new());
            self.count += 1;
            Rc::new(Selected {
                id: SelectionId::from(self.count - 1),
                template,
                selection,
                width,
                contenders,
                rough_prices,
            })
        });
        self.made.insert((template, wanted.clone()), selected.clone());
        selected
    }
}

/// The purchases of a selection that can be had, of those that leave the same room only the
/// cheapest.
fn contenders(template: &Template<'_>, selection: &Selection) -> Vec<(f64, PurchaseId)> {
    let mut seen: TiVec<PurchaseId, bool> = ti_vec![false; template.purchases()];
    let order = template.by_price(selection.zones);
    let is_new = |(_, purchase): &&(u64, PurchaseId)| {
        selection.purchases.contains(*purchase)
            && capacity_of(*purchase) != CapacityType::Reserved
            && !std::mem::replace(&mut seen[template.like(*purchase)], true)
    };
    let distinct = order.entries().iter().filter(is_new);
    distinct.map(|(price, purchase)| (template.with_node(*price as f64), *purchase)).collect()
}
