//! The search for the best machine for one seed.

use std::collections::BTreeMap;

use outrigger_model::CapacityType;
use outrigger_policy::MinValuesPolicy;

use crate::amounts::Dimensions;
use crate::ids::PurchaseId;
use crate::market::offers::{self, Fitting, MinValues};
use crate::market::purchases::{Purchases, capacity_of};
use crate::market::templates::{NANOS_PER_DOLLAR, zones_in};
use crate::search::fill::{self, Extent, FillInputs, Filling, Seed};
use crate::search::item_types::ItemType;
use crate::search::prices::Prices;
use crate::search::prospects::Prospects;
use crate::search::random::Random;
use crate::solution::Solution;

/// How many machines of one size are tried for one node. They are tried from the best possible
/// ratio of cost to worth downwards, and the search ends sooner when no further one can win.
const TRIES_PER_SIZE: usize = 2;
/// How many of them are put in order at all.
const MACHINES_RANKED: usize = 256;
/// How much of their worth the pods that a node is opened for pay at least, whatever others pay.
const OWN_SHARE_MIN: f64 = 0.9;
/// Among how many sizes of machines one is drawn.
const SIZES_DRAWN: usize = 12;

/// The best filling of one seed.
pub(super) struct FilledMachine {
    pub(super) filling: Filling,
    pub(super) purchase: PurchaseId,
    pub(super) ratio: f64,
}

pub(super) struct MachineSearch<'s, 'p, 'a> {
    pub(super) solution: &'s Solution<'p, 'a>,
    pub(super) prices: &'s Prices,
    pub(super) total_worth: f64,
    pub(super) inputs: FillInputs<'s>,
    pub(super) item_type: &'s ItemType<'s>,
    pub(super) seed: Seed,
    pub(super) admitted: &'s Purchases,
}

/// How good a filling is, the most important thing first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Score {
    /// How many pods that should be on this node are not.
    pub(super) apart: u32,
    /// How many types it lacks of the flexibility that spot needs. The objective ranks solutions by
    /// that before their cost.
    pub(super) types_lacking: usize,
    /// Its cost over its worth, with what EC2 may choose in mind.
    pub(super) ratio: f64,
    /// The same as its cheapest type.
    pub(super) least: f64,
}

/// The machines that were tried, by way to pay and size.
#[derive(Default)]
struct Tries<'s> {
    rooms: BTreeMap<(CapacityType, u32), Vec<&'s [i64]>>,
}

impl<'s> Tries<'s> {
    /// Whether a machine shall be tried: not for one that leaves the same room as another, nor for
    /// the next of a size of which enough were tried. There are two sizes to each doubling of cpu.
    fn note(&mut self, purchase: PurchaseId, room: &'s [i64]) -> bool {
        let cpu = room[Dimensions::CPU].max(1).unsigned_abs();
        let size = cpu.ilog2() * 2 + u32::from(cpu >> (cpu.ilog2().max(1) - 1) == 0b11);
        let rooms = self.rooms.entry((capacity_of(purchase), size)).or_default();
        let is_new = rooms.len() < TRIES_PER_SIZE && !rooms.contains(&room);
        if is_new {
            rooms.push(room);
        }
        is_new
    }
}

impl MachineSearch<'_, '_, '_> {
    /// The best filling: a full machine, or else the first pods alone, where full nodes offer too
    /// few kinds of machines.
    pub(super) fn best(&self, purchases: &Purchases) -> Option<FilledMachine> {
        self.reserved(purchases).or_else(|| self.full(purchases)).or_else(|| self.alone(purchases))
    }

    /// Reserved machines are paid for: whichever takes the most comes first.
    fn reserved(&self, purchases: &Purchases) -> Option<FilledMachine> {
        let reserved = purchases.iter().filter(|purchase| capacity_of(*purchase) == CapacityType::Reserved);
        let mut best: Option<(f64, FilledMachine)> = None;
        for purchase in reserved {
            let mut zones = zones_in(self.item_type.selected.selection.zones);
            if !zones.any(|zone| self.solution.is_reservation_left(self.inputs.template, purchase, zone)) {
                continue;
            }
            let Some(filling) = fill::fill(self.inputs, purchase, self.seed, Extent::WholeMachine) else {
                continue;
            };
            let worth = filling.worth_of_peers + filling.worth_of_others;
            if best.as_ref().is_none_or(|(most, _)| worth > *most) {
                best = Some((worth, FilledMachine { filling, purchase, ratio: 0.0 }));
            }
        }
        best.map(|(_, machine)| machine)
    }

    /// The best filling of any candidate that has a price. Flexibility is weighed within each
    /// capacity type and cost between them: an inflexible spot node is no reason to pay for
    /// on-demand.
    fn full(&self, purchases: &Purchases) -> Option<FilledMachine> {
        let mut best: [Option<(Score, FilledMachine)>; 2] = [None, None];
        let mut tries = Tries::default();
        for (bound, purchase) in self.ranked(purchases) {
            let kind = usize::from(capacity_of(purchase) == CapacityType::OnDemand);
            let is_beaten = |best: &Option<(Score, FilledMachine)>, by: fn(&Score) -> f64| {
                best.as_ref().is_some_and(|(score, _)| {
                    score.apart == 0 && score.types_lacking == 0 && by(score) <= bound
                })
            };
            if is_beaten(&best[kind], |score| score.ratio) || is_beaten(&best[1 - kind], |score| score.least)
            {
                continue;
            }
            if !tries.note(purchase, self.inputs.template.room(purchase)) {
                continue;
            }
            let Some(filling) = fill::fill(self.inputs, purchase, self.seed, Extent::WholeMachine) else {
                continue;
            };
            let Some(score) = self.score(&filling) else { continue };
            if best[kind].as_ref().is_none_or(|(other, _)| score < *other) {
                best[kind] = Some((score, FilledMachine { filling, purchase, ratio: score.ratio }));
            }
        }
        let machines = best.into_iter().flatten();
        let least = machines.min_by(|(a, _), (b, _)| a.apart.cmp(&b.apart).then(a.least.total_cmp(&b.least)));
        least.map(|(_, machine)| machine)
    }

    /// A full machine that is drawn among the most promising of each size, the better ones more
    /// often.
    pub(super) fn drawn(&self, purchases: &Purchases, random: &mut Random) -> Option<FilledMachine> {
        let mut sizes: Vec<(i64, i64)> = Vec::new();
        let mut machines = Vec::new();
        for (_, purchase) in self.ranked(purchases) {
            let room = self.inputs.template.room(purchase);
            let size = (room[Dimensions::CPU], room[Dimensions::MEMORY]);
            if !sizes.contains(&size) {
                sizes.push(size);
                machines.push(purchase);
            }
        }
        machines.truncate(SIZES_DRAWN);
        let rank = random.below(machines.len().max(1)).min(random.below(machines.len().max(1)));
        let purchase = machines.get(rank).copied().or_else(|| purchases.iter().next())?;
        let filling = fill::fill(self.inputs, purchase, self.seed, Extent::WholeMachine)?;
        Some(FilledMachine { filling, purchase, ratio: 0.0 })
    }

    /// Candidates by the least cost for their worth that a perfect filling would reach.
    fn ranked(&self, purchases: &Purchases) -> Vec<(f64, PurchaseId)> {
        let template = self.inputs.template;
        let prospects = Prospects::new(self.inputs);
        let contenders = self.prices.contenders(&self.item_type.selected, template).into_iter();
        let contenders = contenders.filter(|(_, purchase)| purchases.contains(*purchase));
        let ratio = |(cost, purchase): (f64, PurchaseId)| {
            (prospects.ratio(cost, template.room(purchase), self.inputs), purchase)
        };
        let mut ranked: Vec<(f64, PurchaseId)> = contenders.map(ratio).collect();
        let order = |(a, x): &(f64, PurchaseId), (b, y): &(f64, PurchaseId)| a.total_cmp(b).then(x.cmp(y));
        if ranked.len() > MACHINES_RANKED {
            ranked.select_nth_unstable_by(MACHINES_RANKED, order);
            ranked.truncate(MACHINES_RANKED);
        }
        ranked.sort_unstable_by(order);
        ranked
    }

    /// `None` when the pool's minValues cannot be kept with this filling.
    pub(super) fn score(&self, filling: &Filling) -> Option<Score> {
        let template = self.inputs.template;
        let options = self.solution.problem.options;
        let min_values = MinValues::new(template);
        if !min_values.is_empty() && options.min_values == MinValuesPolicy::Strict {
            let fitting = self.fitting(filling);
            offers::offered(template, &fitting, &min_values, options)?;
        }
        let is_spot = filling.capacity_type == CapacityType::Spot;
        let prices = self.cheapest(filling, if is_spot { options.spot_types_min } else { 1 });
        let worth = filling.worth_of_peers + filling.worth_of_others;
        let share = if self.total_worth > 0.0 { (worth / self.total_worth).min(1.0) } else { 0.0 };
        let risk = 1.0 + template.risk_weight * share;
        // What fills the gaps pays for its place, though never for that of those the node is for.
        let ratio = |price: f64| {
            let cost = (price + template.node_price as f64) / NANOS_PER_DOLLAR * risk;
            let paid = (cost - filling.worth_of_others).max(filling.worth_of_peers * OWN_SHARE_MIN);
            paid / filling.worth_of_peers.max(f64::MIN_POSITIVE)
        };
        let types_lacking = if is_spot { self.lacking(prices.len()) } else { 0 };
        let apart = self.seed.whole_lot.map_or(0, |pending| {
            let here =
                filling.pending_lots.iter().find(|(other, _)| *other == pending).map_or(0, |(_, n)| *n);
            self.inputs.item_types.pending_lots[pending].remaining - here
        });
        Some(Score {
            apart,
            types_lacking,
            ratio: ratio(offers::expected(prices.iter().copied(), filling.capacity_type, prices.len())?),
            least: ratio(*prices.first()? as f64),
        })
    }

    /// The prices of the cheapest machines that carry a filling, at most so many.
    fn cheapest(&self, filling: &Filling, count: usize) -> Vec<u64> {
        let template = self.inputs.template;
        let purchases = self.purchases(filling);
        let order = template.by_price(filling.zones);
        let carriers = order.carriers(filling.capacity_type, &filling.load.packed);
        let admitted = carriers.filter(|(_, purchase)| purchases.contains(*purchase));
        admitted.take(count).map(|(price, _)| price).collect()
    }

    /// How many types a spot node lacks of those that the pool could offer for one pod.
    fn lacking(&self, offered: usize) -> usize {
        let wanted = self.solution.problem.options.spot_types_min;
        let spot =
            self.item_type.purchases.iter().filter(|purchase| capacity_of(*purchase) == CapacityType::Spot);
        if spot.take(wanted).count() < wanted { 0 } else { wanted.saturating_sub(offered) }
    }

    /// The machines that all pods of a filling may be on.
    fn purchases(&self, filling: &Filling) -> Purchases {
        let mut purchases = self.admitted.clone();
        for (candidate, _) in &filling.candidates {
            purchases.intersect(&self.inputs.candidates[*candidate].item_type.purchases);
        }
        purchases
    }

    fn fitting(&self, filling: &Filling) -> Fitting {
        let (template, purchases) = (self.inputs.template, self.purchases(filling));
        let order = template.by_price(filling.zones);
        let bought = |way| {
            order.carriers(way, &filling.load.packed).filter(|(_, purchase)| purchases.contains(*purchase))
        };
        Fitting {
            purchases: bought(filling.capacity_type).map(|(_, purchase)| purchase).collect(),
            zones: filling.zones,
            on_demand: bought(CapacityType::OnDemand).next().map(|(price, _)| price),
        }
    }

    fn alone(&self, purchases: &Purchases) -> Option<FilledMachine> {
        self.ranked(purchases).into_iter().find_map(|(_, purchase)| {
            let filling = fill::fill(self.inputs, purchase, self.seed, Extent::SeedOnly)?;
            let score = self.score(&filling)?;
            Some(FilledMachine { filling, purchase, ratio: score.ratio })
        })
    }
}
