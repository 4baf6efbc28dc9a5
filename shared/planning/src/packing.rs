//! Opening nodes: which machine next, with which pods, until every pod has a place or every pool has refused it.
//!
//! Each step takes a lead - the bin with the fewest choices, then the largest - and `search` fills every machine that is
//! worth a look with it and its like. The machine that costs least for what it carries wins, and its filling is repeated
//! while there are pods for it, so the work grows with the kinds of pods and hardly with their number.

mod across;
mod domains;
mod draft;
mod gather;
mod improve;
mod pilot;
mod promised;
mod prospects;
mod relieve;
mod renew;
mod retry;
mod search;
mod widen;

use std::collections::BTreeMap;

use outrigger_model::{FilterStep, Refusal, Resources};

use crate::amounts;
use crate::bins::{Bins, Member};
use crate::classes::{FixedMap, PodClass};
use crate::columns::{ColumnSet, type_of};
use crate::fill::{Filling, Guest, Party, Seed};
use crate::limits::Limits;
use crate::offers::{self, Fitting, MinValues};
use crate::placing::InFlight;
use crate::selections::Selections;
use crate::templates::Template;
use crate::{Options, fill};
pub(crate) use draft::Draft;
use search::Search;

/// How far the cost of a repeated machine may rise above its first before another search.
const REPEAT_SLACK: f64 = 1.01;
/// How much of their worth the pods that a node is opened for pay at least, whatever others pay.
const OWN_SHARE_MIN: f64 = 0.9;

/// What packing came to.
#[derive(Clone)]
pub(crate) struct Packed {
    /// The nodes to open.
    pub(crate) drafts: Vec<Draft>,
    /// Refusals that only showed while packing, by batch and template.
    pub(crate) refusals: Vec<(usize, usize, Refusal)>,
    /// Whether the time was up while a batch could still have been placed.
    pub(crate) unreached: Vec<bool>,
}

impl Packed {
    /// Puts the types that nodes offer in the order of other prices, within the bounds of those.
    pub(crate) fn price_again(&mut self, templates: &[Template<'_>], options: &Options<'_>) {
        for draft in &mut self.drafts {
            let of = &templates[draft.template];
            let columns = draft.offers.clone();
            let fitting = Fitting { columns, zones: draft.zones, on_demand: None };
            let offers = offers::offered(of, &fitting, &MinValues::of(of), options);
            draft.offers = offers.filter(|offers| !offers.is_empty()).unwrap_or_else(|| {
                let order = of.by_price(draft.zones);
                let known = order.entries().iter().map(|(_, column)| *column);
                known.filter(|column| draft.offers.contains(column)).collect()
            });
        }
    }
}

/// What packing works on.
pub(crate) struct Packer<'b> {
    pub(crate) classes: &'b [PodClass<'b>],
    pub(crate) templates: &'b [Template<'b>],
    pub(crate) options: &'b Options<'b>,
    pub(crate) selections: &'b mut Selections,
    pub(crate) limits: Vec<Limits>,
    pub(crate) bins: Bins<'b>,
    /// What all pods together ask for, in the units of every row.
    pub(crate) demand: Vec<f64>,
    /// For each group, whether pods that it counts are on nodes that are there.
    pub(crate) is_there: Vec<bool>,
    /// How many more instances each reservation has room for.
    pub(crate) reserved_left: BTreeMap<String, u32>,
    /// Dollars per hour that all pods cost at least; known once packing begins.
    pub(crate) total_worth: f64,
    /// Whether nodes offer no larger types than they need, so that limits go further.
    pub(crate) tight: bool,
    /// Whether the pods of a few nodes are packed anew in the end, as long as that makes them cheaper.
    pub(crate) renews: bool,
    /// What may be bought in the end, and for how much, where that is another than at first.
    pub(crate) wider: Option<&'b [Template<'b>]>,
    /// The bins of batches in their ways by template, where nodes of several pools are looked at together.
    pub(crate) homes: FixedMap<(usize, usize, usize), Option<usize>>,
}

/// The best filling of one lead.
struct Found {
    filling: Filling,
    column: usize,
    ratio: f64,
}

impl Packer<'_> {
    /// Opens nodes until no pod is left that some pool would still take. Static pools come first, then pods that must be
    /// near others on their node, since they are the hardest to join later.
    pub(crate) fn pack(mut self, promised: &[InFlight]) -> Packed {
        let mut packed = Packed { drafts: Vec::new(), refusals: Vec::new(), unreached: Vec::new() };
        for member in 0..self.bins.members.len() {
            self.advance(member);
        }
        self.open_static(&mut packed.drafts);
        self.price_all();
        self.open_promised(promised, &mut packed);
        self.gather(&mut packed);
        let start = self.start(&packed);
        self.open_all(&mut packed);
        self.improve(&mut packed.drafts);
        if let Some(start) = start {
            self.look_ahead(&start, &mut packed);
        }
        self.retry_all(&mut packed);
        if let Some(wider) = self.wider {
            self.widen(wider, &mut packed.drafts);
        }
        if self.renews {
            self.renew_all(&mut packed);
            self.retry_all(&mut packed);
        }
        if self.tight {
            self.make_room_for_all(&mut packed);
        }
        packed.unreached = self.bins.members.iter().map(|it| it.left > 0 && it.bin.is_some()).collect();
        packed
    }

    /// Opens nodes for all that is left.
    fn open_all(&mut self, packed: &mut Packed) {
        while let Some(lead) = self.bins.lead(self.selections) {
            if (self.options.time_is_up)() {
                break;
            }
            match self.best(lead, &[Seed::of(lead)]) {
                Ok(found) => {
                    let opened = self.open_repeatedly(lead, &found);
                    if opened.is_empty() {
                        self.refuse_bin(lead, &nothing_left(), packed);
                    }
                    packed.drafts.extend(opened);
                }
                Err(refusal) => self.refuse_bin(lead, &refusal, packed),
            }
        }
    }

    fn advance(&mut self, member: usize) {
        self.bins.advance(member, self.templates, self.classes, self.selections, &self.demand);
    }

    fn refuse_bin(&mut self, bin: usize, refusal: &Refusal, packed: &mut Packed) {
        for member in self.bins.all[bin].members.clone() {
            self.refuse(member, refusal.clone(), packed);
        }
    }

    fn refuse(&mut self, member: usize, refusal: Refusal, packed: &mut Packed) {
        if let Some(bin) = self.bins.members[member].bin {
            let template = self.selections.all[self.bins.all[bin].selected].template;
            packed.refusals.push((member, template, refusal));
            self.advance(member);
        }
    }

    /// How much of all that is to be placed some pods are, by their worth.
    fn share_of_all(&self, worth: f64) -> f64 {
        if self.total_worth > 0.0 { (worth / self.total_worth).min(1.0) } else { 0.0 }
    }

    fn price_all(&mut self) {
        for selected in 0..self.selections.all.len() {
            self.price(selected);
        }
        let worth = |it: &Member<'_>| {
            let bin = &self.bins.all[it.bin?];
            let unit_prices = &self.selections.all[bin.selected].unit_prices;
            Some(amounts::worth(self.bins.shapes[bin.shape].request, unit_prices) * f64::from(it.left))
        };
        self.total_worth = self.bins.members.iter().filter_map(worth).sum();
    }

    /// Works out anew what room is worth to the pods that are left, where their mix has changed.
    fn price(&mut self, selected: usize) {
        let demand = self.bins.demand(selected, self.demand.len());
        if self.selections.is_stale(selected, &demand) {
            self.selections.price(self.templates, selected, &demand);
        }
    }

    /// Whether the mix of the pods that are left is another than that which prices are for.
    fn is_stale(&self, selected: usize) -> bool {
        let demand = self.bins.demand(selected, self.demand.len());
        self.selections.is_stale(selected, &demand)
    }

    /// The filling that costs least for what it carries, opened for some pods.
    fn best(&mut self, lead: usize, seeds: &[Seed]) -> Result<Found, Box<Refusal>> {
        let selected = self.bins.all[lead].selected;
        self.price(selected);
        let template = self.selections.all[selected].template;
        let admitted = self.admitted(template);
        let mut candidates = self.bins.all[lead].columns.clone();
        candidates.intersect(&admitted);
        for seed in seeds {
            candidates.intersect(&self.bins.all[seed.bin].columns);
        }
        if candidates.is_empty() {
            return Err(Box::new(self.limit_refusal(lead)));
        }
        self.with_search(lead, seeds, |search| {
            search.best(&candidates).ok_or_else(|| Box::new(search.min_values_refusal(&candidates)))
        })
    }

    /// Searches for the best machine for a lead, in whatever way.
    fn with_search<T>(&self, lead: usize, seeds: &[Seed], of: impl FnOnce(&Search<'_, '_>) -> T) -> T {
        let bin = &self.bins.all[lead];
        let selected = &self.selections.all[bin.selected];
        let admitted = self.admitted(selected.template);
        let guests = self.guests(lead);
        let party = Party {
            template: &self.templates[selected.template],
            bins: &self.bins,
            selections: &self.selections.all,
            guests: &guests,
            unit_prices: &selected.unit_prices,
            candidates: &fill::candidates(&guests, &selected.unit_prices),
        };
        of(&Search { packer: self, party, lead: bin, selected, seeds, admitted: &admitted })
    }

    /// The bins that may share a node with the lead.
    fn guests(&self, lead: usize) -> Vec<Guest<'_>> {
        let lead = &self.bins.all[lead];
        let of_lead = &self.selections.all[lead.selected];
        let peers = &of_lead.selection;
        let mut guests = Vec::new();
        for (index, bin) in self.bins.all.iter().enumerate().filter(|(_, bin)| bin.left > 0) {
            let selected = &self.selections.all[bin.selected];
            if selected.template != of_lead.template {
                continue;
            }
            let shape = self.bins.shapes[bin.shape];
            let same = bin.selected == lead.selected
                || (selected.selection.zones & !peers.zones == 0
                    && selected.selection.columns.is_subset(&peers.columns));
            let worth = amounts::worth(shape.request, &selected.unit_prices);
            let is_peer = same && bin.tier == lead.tier;
            guests.push(Guest { index, bin, shape, selected, worth, is_peer });
        }
        guests
    }

    /// Opens the node, and more like it while that costs no more than the first: the same filling again while there are
    /// pods for at least two of each, else the same machine filled anew.
    fn open_repeatedly(&mut self, lead: usize, first: &Found) -> Vec<Draft> {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut filling = first.filling.clone();
        loop {
            let bound = filling.members.iter().any(|(member, _)| {
                let it = &self.bins.members[*member];
                !it.rules.is_empty() || !it.on_hosts.is_empty()
            });
            let left = |(member, count): &(usize, u32)| self.bins.members[*member].left / count;
            let times = filling.members.iter().map(left).min().unwrap_or(0) / 2;
            for _ in 0..if bound { 1 } else { times.max(1) } {
                let Some(draft) = self.open(&filling, lead) else { return drafts };
                drafts.push(draft);
                if self.is_stale(self.bins.all[lead].selected) {
                    return drafts;
                }
            }
            if self.bins.all[lead].left == 0 || (self.options.time_is_up)() {
                return drafts;
            }
            match self.again(lead, first) {
                Some(next) => filling = next,
                None => return drafts,
            }
        }
    }

    /// The same machine filled with what is left, unless that costs more for what it carries.
    fn again(&self, lead: usize, first: &Found) -> Option<Filling> {
        self.with_search(lead, &[Seed::of(lead)], |search| {
            let filling = fill::fill(search.party, first.column, search.seeds, false)?;
            let score = search.score(&filling)?;
            (score.apart == 0 && score.types_lacking == 0 && score.ratio <= first.ratio * REPEAT_SLACK)
                .then_some(filling)
        })
    }

    /// The columns whose machines the pool's limits still admit.
    fn admitted(&self, template: usize) -> ColumnSet {
        let usable = &self.templates[template].usable;
        let Some(admitted) = self.limits[template].admitted() else { return usable.clone() };
        ColumnSet::of(self.templates[template].columns(), |column| {
            usable.contains(column) && admitted[type_of(column)]
        })
    }

    /// The limit that the smallest suitable machine would break.
    fn limit_refusal(&self, lead: usize) -> Refusal {
        let bin = &self.bins.all[lead];
        let template = self.selections.all[bin.selected].template;
        let of = &self.templates[template];
        let smallest = bin.columns.iter().map(|column| of.instance_type(column)).min_by_key(|t| {
            let size = t.counted();
            (size.get("cpu"), size.get("memory"), &t.name)
        });
        smallest.and_then(|t| self.limits[template].refusal(t)).unwrap_or_else(nothing_left)
    }

    /// Takes what a draft holds out of what is left.
    fn book(&mut self, draft: &Draft) {
        self.limits[draft.template].reserve(&draft.reserved);
        for id in &draft.reservations {
            if let Some(left) = self.reserved_left.get_mut(id) {
                *left = left.saturating_sub(1);
            }
        }
    }
}

fn nothing_left() -> Refusal {
    let filter = "what this plan has opened already".to_owned();
    Refusal::NoInstanceType(vec![FilterStep { filter, left: 0 }])
}

/// What every type of a draft holds of its pool's limits at most.
fn reserved(template: &Template<'_>, offers: &[usize]) -> Resources {
    let mut reserved = Resources::new();
    for column in offers {
        reserved.raise_to(template.instance_type(*column).counted());
        template.added(*column).into_iter().for_each(|added| reserved.raise_to(added));
    }
    crate::limits::with_one_node(&reserved)
}
