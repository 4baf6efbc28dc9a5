//! Opening nodes: which machine next, with which pods, until every pod has a place or every pool has refused it.
//!
//! Each step takes a lead - the class with the fewest choices, then the largest - and fills every machine that is worth
//! a look with it and its like. The machine that costs least for what it carries wins, and its filling is repeated
//! while there are pods for it, so the work grows with the kinds of pods and hardly with their number.

use outrigger_model::{CapacityType, FilterStep, Refusal, Requirements, Resources};

use crate::choices::{Choice, Choices};
use crate::classes::PodClass;
use crate::columns::{ColumnSet, capacity_of, type_of};
use crate::fill::{self, Filling, Guest};
use crate::limits::{Limits, with_one_node};
use crate::offers::{self, Fitting, MinValues};
use crate::templates::Template;
use crate::{Options, amounts};

/// How many machines are tried for one node. They are tried from the best possible ratio of cost to worth downwards,
/// and the search ends sooner when no further one can win.
const MACHINES_TRIED_MAX: usize = 48;
const NANOS_PER_DOLLAR: f64 = 1e9;

/// Class and alternative of each guest of a filling.
type Joined = Vec<(usize, usize)>;

/// A node that is to be opened.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    /// Its template.
    pub(crate) template: usize,
    /// How it is paid for.
    pub(crate) capacity_type: CapacityType,
    /// The zones that remain possible.
    pub(crate) zones: u64,
    /// What its pods leave of the labels that the pool leaves open.
    pub(crate) node: Requirements,
    /// Its pods: class, which of the class's alternatives, how many.
    pub(crate) pods: Vec<(usize, usize, u32)>,
    /// What it offers, cheapest first.
    pub(crate) offers: Vec<usize>,
    /// What it may take of its pool's limits at most.
    pub(crate) reserved: Resources,
    /// How many types its pods' labels left, how many of them can be bought this way, and how many its pods fit.
    pub(crate) types_left: [usize; 3],
}

/// What packing came to.
pub(crate) struct Packed {
    /// The nodes to open.
    pub(crate) drafts: Vec<Draft>,
    /// Refusals that only showed while packing, by class and template.
    pub(crate) refusals: Vec<(usize, usize, Refusal)>,
    /// Whether the time was up while a class could still have been placed.
    pub(crate) unreached: Vec<bool>,
}

/// What packing works on.
pub(crate) struct Packer<'a, 'b> {
    pub(crate) classes: &'b [PodClass<'a>],
    pub(crate) templates: &'b [Template<'a>],
    pub(crate) options: &'b Options<'b>,
    pub(crate) choices: Choices,
    pub(crate) limits: Vec<Limits>,
    pub(crate) left: Vec<u32>,
}

impl Packer<'_, '_> {
    /// Opens nodes until no pod is left that some pool would still take.
    pub(crate) fn pack(mut self) -> Packed {
        let (mut drafts, mut refusals) = (Vec::new(), Vec::new());
        self.choices.price(self.templates, self.classes, &self.left);
        while let Some(lead) = self.choices.lead(&self.left) {
            if (self.options.time_is_up)() {
                break;
            }
            self.choices.price_group_of(lead, self.templates, self.classes, &self.left);
            let refusal = match self.best_filling(lead) {
                Ok((filling, guests)) => {
                    let opened = self.open(&filling, &guests);
                    let nothing = opened.is_empty();
                    drafts.extend(opened);
                    nothing.then(|| Box::new(nothing_left()))
                }
                Err(refusal) => Some(refusal),
            };
            if let (Some(refusal), Some(choice)) = (refusal, self.choices.current(lead)) {
                refusals.push((lead, choice.template, *refusal));
                self.choices.move_on(lead);
            }
        }
        let unreached = (0..self.left.len()).map(|class| self.choices.current(class).is_some()).collect();
        Packed { drafts, refusals, unreached }
    }

    /// The filling that costs least for what it carries, with the class and alternative of each guest.
    fn best_filling(&self, lead: usize) -> Result<(Filling, Joined), Box<Refusal>> {
        let choice = self.choices.current(lead).ok_or_else(|| Box::new(nothing_left()))?;
        let template = &self.templates[choice.template];
        let admitted = self.admitted(choice.template);
        let mut candidates = choice.columns.clone();
        candidates.intersect(&admitted);
        if candidates.is_empty() {
            return Err(Box::new(self.limit_refusal(choice)));
        }
        let (guests, place) = self.guests(lead, choice);
        let search = Search { packer: self, template, choice, guests: &guests, place, admitted: &admitted };
        let found = search.full(&candidates).or_else(|| search.alone(&candidates));
        let filling = found.ok_or_else(|| Box::new(search.min_values_refusal(&candidates)))?;
        let alternative = |guest: &Guest<'_>| self.choices.current(guest.class).map_or(0, |c| c.alternative);
        Ok((filling, guests.iter().map(|guest| (guest.class, alternative(guest))).collect()))
    }

    /// The classes that may share a node with the lead, and the lead's place among them.
    fn guests(&self, lead: usize, of_lead: &Choice) -> (Vec<Guest<'_>>, usize) {
        let peers = &self.choices.groups[of_lead.group].selection.columns;
        let (mut guests, mut place) = (Vec::new(), 0);
        for (class, left) in self.left.iter().enumerate().filter(|(_, left)| **left > 0) {
            let Some(choice) = self.choices.current(class).filter(|c| c.template == of_lead.template) else {
                continue;
            };
            if class == lead {
                place = guests.len();
            }
            let group = &self.choices.groups[choice.group];
            let request = self.classes[class].request.as_slice();
            guests.push(Guest {
                class,
                request,
                left: *left,
                columns: &choice.columns,
                selection: &group.selection,
                ports: &self.classes[class].spec.host_ports,
                worth: amounts::worth(request, &group.unit_prices),
                is_peer: group.selection.columns.is_subset(peers),
            });
        }
        (guests, place)
    }

    /// The columns whose machines the pool's limits still admit.
    fn admitted(&self, template: usize) -> ColumnSet {
        let (limits, template) = (&self.limits[template], &self.templates[template]);
        if limits.are_absent() {
            return template.usable.clone();
        }
        let admitted: Vec<bool> = template.types.iter().map(|t| limits.admit(t)).collect();
        ColumnSet::of(template.columns(), |column| {
            template.usable.contains(column) && admitted[type_of(column)]
        })
    }

    /// The limit that the smallest suitable machine would break.
    fn limit_refusal(&self, choice: &Choice) -> Refusal {
        let template = &self.templates[choice.template];
        let smallest = choice.columns.iter().map(|column| template.instance_type(column)).min_by_key(|t| {
            let size = t.counted();
            (size.get("cpu"), size.get("memory"), &t.name)
        });
        let refusal = smallest.and_then(|t| self.limits[choice.template].refusal(t));
        refusal.unwrap_or_else(nothing_left)
    }

    /// Opens the node, and more like it while there are enough pods for at least two of each. Each takes its share of
    /// the pool's limits, so the types that it may offer are found anew where there are limits.
    fn open(&mut self, filling: &Filling, guests: &[(usize, usize)]) -> Vec<Draft> {
        let pods: Vec<(usize, usize, u32)> =
            filling.pods.iter().map(|(guest, count)| (guests[*guest].0, guests[*guest].1, *count)).collect();
        let Some(template) =
            pods.first().and_then(|(class, ..)| self.choices.current(*class)).map(|c| c.template)
        else {
            return Vec::new();
        };
        let enough = pods.iter().map(|(class, _, count)| self.left[*class] / count).min().unwrap_or(0);
        let mut drafts: Vec<Draft> = Vec::new();
        for _ in 0..(enough / 2).max(1) {
            let limited = !self.limits[template].are_absent();
            let draft = match drafts.last() {
                Some(last) if !limited => Some(last.clone()),
                _ => self.draft(template, filling, &pods),
            };
            let Some(draft) = draft else { break };
            self.limits[template].reserve(&draft.reserved);
            for (class, _, count) in &draft.pods {
                self.left[*class] -= count;
            }
            drafts.push(draft);
        }
        drafts
    }

    fn draft(&self, template: usize, filling: &Filling, pods: &[(usize, usize, u32)]) -> Option<Draft> {
        let of = &self.templates[template];
        let (mut by_labels, mut fitting) = (of.usable.clone(), self.admitted(template));
        for choice in pods.iter().filter_map(|(class, ..)| self.choices.current(*class)) {
            by_labels.intersect(&self.choices.groups[choice.group].selection.columns);
            fitting.intersect(&choice.columns);
        }
        let bought = by_labels.iter().filter(|column| capacity_of(*column) == filling.capacity_type).count();
        let fitting = carrying(of, &fitting, filling);
        let offers = offers::offered(of, &fitting, filling.zones, &MinValues::of(of), self.options)
            .filter(|o| !o.is_empty())?;
        let mut reserved = Resources::new();
        for column in &offers {
            reserved.raise_to(of.instance_type(*column).counted());
        }
        let zones = offers.iter().fold(0, |set, column| set | of.zones_of(*column, filling.zones));
        Some(Draft {
            template,
            capacity_type: filling.capacity_type,
            zones,
            node: filling.node.clone(),
            pods: pods.to_vec(),
            reserved: with_one_node(&reserved),
            types_left: [by_labels.types(), bought, fitting.columns.len()],
            offers,
        })
    }
}

fn nothing_left() -> Refusal {
    let filter = "what this plan has opened already".to_owned();
    Refusal::NoInstanceType(vec![FilterStep { filter, left: 0 }])
}

/// The machines out of some that carry a filling, at a price, in one of its zones.
fn carrying(template: &Template<'_>, columns: &ColumnSet, filling: &Filling) -> Fitting {
    let mut fitting = Fitting { columns: Vec::new(), on_demand: None };
    for column in columns.iter().filter(|column| amounts::fits(&filling.packed, template.room(*column))) {
        let Some(price) = template.cheapest(column, filling.zones) else { continue };
        if capacity_of(column) == filling.capacity_type {
            fitting.columns.push(column);
        }
        if capacity_of(column) == CapacityType::OnDemand {
            fitting.on_demand = Some(fitting.on_demand.map_or(price, |least: u64| least.min(price)));
        }
    }
    fitting
}

/// The search for the best machine for one lead.
struct Search<'s, 'a, 'b> {
    packer: &'s Packer<'a, 'b>,
    template: &'s Template<'a>,
    choice: &'s Choice,
    guests: &'s [Guest<'s>],
    place: usize,
    admitted: &'s ColumnSet,
}

/// How good a filling is: how many types it lacks of the flexibility that spot needs, then its cost over its worth.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
struct Score {
    types_lacking: usize,
    ratio: f64,
}

impl Search<'_, '_, '_> {
    fn unit_prices(&self) -> &[f64] {
        &self.packer.choices.groups[self.choice.group].unit_prices
    }

    fn cost(&self, price: u64) -> f64 {
        price.saturating_add(self.template.node_price) as f64 / NANOS_PER_DOLLAR
    }

    /// The best filling of any candidate. Flexibility is weighed within each capacity type and cost between them: an
    /// inflexible spot node is no reason to pay for on-demand.
    fn full(&self, candidates: &ColumnSet) -> Option<Filling> {
        let mut best: [Option<(Score, Filling)>; 2] = [None, None];
        for (bound, column) in self.ranked(candidates).into_iter().take(MACHINES_TRIED_MAX) {
            let kind = usize::from(capacity_of(column) == CapacityType::OnDemand);
            let is_beaten = |best: &Option<(Score, Filling)>| {
                best.as_ref().is_some_and(|(score, _)| score.types_lacking == 0 && score.ratio <= bound)
            };
            if is_beaten(&best[kind]) || is_beaten(&best[1 - kind]) {
                continue;
            }
            let prices = self.unit_prices();
            let Some(filling) = fill::fill(self.template, column, self.guests, self.place, prices, false)
            else {
                continue;
            };
            let Some(score) = self.score(&filling) else { continue };
            if best[kind].as_ref().is_none_or(|(other, _)| score < *other) {
                best[kind] = Some((score, filling));
            }
        }
        let found = best.into_iter().flatten();
        found.min_by(|(a, _), (b, _)| a.ratio.total_cmp(&b.ratio)).map(|(_, filling)| filling)
    }

    /// Candidates by the least cost for their worth that a perfect filling would reach.
    fn ranked(&self, candidates: &ColumnSet) -> Vec<(f64, usize)> {
        let zones = self.packer.choices.groups[self.choice.group].selection.zones;
        let mut ranked: Vec<(f64, usize)> = candidates
            .iter()
            .filter_map(|column| {
                let cost = self.cost(self.template.cheapest(column, zones)?);
                let worth = amounts::worth(self.template.room(column), self.unit_prices());
                Some((cost / worth.max(f64::MIN_POSITIVE), column))
            })
            .collect();
        ranked.sort_by(|(a, x), (b, y)| a.total_cmp(b).then(x.cmp(y)));
        ranked
    }

    /// `None` when the pool's minValues cannot be kept with this filling.
    fn score(&self, filling: &Filling) -> Option<Score> {
        let fitting = self.fitting(filling);
        let cheapest =
            fitting.columns.iter().filter_map(|c| self.template.cheapest(*c, filling.zones)).min()?;
        let min_values = MinValues::of(self.template);
        let options = self.packer.options;
        if !min_values.is_empty() {
            offers::offered(self.template, &fitting, filling.zones, &min_values, options)?;
        }
        let types_lacking = if filling.capacity_type == CapacityType::Spot {
            let spot = self.choice.columns.iter().filter(|column| capacity_of(*column) == CapacityType::Spot);
            let possible = spot.count() >= options.spot_types_min;
            if possible { options.spot_types_min.saturating_sub(fitting.columns.len()) } else { 0 }
        } else {
            0
        };
        let cost = self.cost(cheapest);
        // What fills the gaps pays for its place, though never for the whole node.
        let own = (cost - filling.worth_of_others).max(cost / 10.0);
        Some(Score { types_lacking, ratio: own / filling.worth_of_peers.max(f64::MIN_POSITIVE) })
    }

    fn fitting(&self, filling: &Filling) -> Fitting {
        let mut columns = self.admitted.clone();
        filling.pods.iter().for_each(|(guest, _)| columns.intersect(self.guests[*guest].columns));
        carrying(self.template, &columns, filling)
    }

    /// One pod of the lead and nothing else: what is left to try where full nodes offer too few kinds of machines.
    fn alone(&self, candidates: &ColumnSet) -> Option<Filling> {
        self.ranked(candidates).into_iter().find_map(|(_, column)| {
            let filling =
                fill::fill(self.template, column, self.guests, self.place, self.unit_prices(), true)?;
            self.score(&filling).map(|_| filling)
        })
    }

    fn min_values_refusal(&self, candidates: &ColumnSet) -> Refusal {
        let columns: Vec<usize> = candidates.iter().collect();
        let zones = self.packer.choices.groups[self.choice.group].selection.zones;
        let unmet = MinValues::of(self.template).unmet(self.template, &columns, zones);
        let step = |filter, left| FilterStep { filter, left };
        let filter = match unmet {
            Some((key, count)) => format!("minValues {count} of {key}"),
            None => format!("minValues with at most {} types", outrigger_model::PlannedNode::MAX_TYPES),
        };
        Refusal::NoInstanceType(vec![step("labels and requests".into(), candidates.types()), step(filter, 0)])
    }
}
