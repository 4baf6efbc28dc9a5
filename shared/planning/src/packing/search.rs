//! The search for the best machine for one lead.

use std::collections::BTreeMap;

use outrigger_model::{CapacityType, FilterStep, Refusal};

use super::draft::carrying;
use super::prospects::Prospects;
use super::{Found, OWN_SHARE_MIN, Packer};
use crate::MinValuesPolicy;
use crate::amounts::Dimensions;
use crate::bins::Bin;
use crate::columns::{ColumnSet, capacity_of};
use crate::fill::{self, Filling, Party, Seed};
use crate::offers::{self, Fitting, MinValues};
use crate::selections::Selected;
use crate::templates::NANOS_PER_DOLLAR;

/// How many machines of one size are tried for one node. They are tried from the best possible ratio of cost to worth
/// downwards, and the search ends sooner when no further one can win.
const TRIES_PER_SIZE: usize = 2;
/// How many of them are put in order at all.
const MACHINES_RANKED: usize = 256;

pub(super) struct Search<'s, 'b> {
    pub(super) packer: &'s Packer<'b>,
    pub(super) party: Party<'s>,
    pub(super) lead: &'s Bin,
    pub(super) selected: &'s Selected,
    pub(super) seeds: &'s [Seed],
    pub(super) admitted: &'s ColumnSet,
}

/// How good a filling is, the most important thing first.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Score {
    /// How many pods that should be on this node are not.
    pub(super) apart: u32,
    /// How many types it lacks of the flexibility that spot needs.
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
    /// Whether a machine shall be tried: not for one that leaves the same room as another, nor for the next of a size of
    /// which enough were tried. There are two sizes to each doubling of cpu.
    fn note(&mut self, column: usize, room: &'s [i64]) -> bool {
        let cpu = room[Dimensions::CPU].max(1).unsigned_abs();
        let size = cpu.ilog2() * 2 + u32::from(cpu >> (cpu.ilog2().max(1) - 1) == 0b11);
        let rooms = self.rooms.entry((capacity_of(column), size)).or_default();
        let is_new = rooms.len() < TRIES_PER_SIZE && !rooms.contains(&room);
        if is_new {
            rooms.push(room);
        }
        is_new
    }
}

impl Search<'_, '_> {
    /// The best filling: a full machine, or else the first pods alone, where full nodes offer too few kinds of machines.
    pub(super) fn best(&self, candidates: &ColumnSet) -> Option<Found> {
        self.reserved(candidates).or_else(|| self.full(candidates)).or_else(|| self.alone(candidates))
    }

    /// Reserved machines are paid for: whichever takes the most comes first.
    fn reserved(&self, candidates: &ColumnSet) -> Option<Found> {
        let reserved = candidates.iter().filter(|column| capacity_of(*column) == CapacityType::Reserved);
        let mut best: Option<(f64, Found)> = None;
        for column in reserved {
            let zones = self.selected.selection.zones;
            let mut left = crate::templates::bits(zones);
            if !left.any(|zone| self.packer.reservation_left(self.party.template, column, zone)) {
                continue;
            }
            let Some(filling) = fill::fill(self.party, column, self.seeds, false) else { continue };
            let worth = filling.worth_of_peers + filling.worth_of_others;
            if self.fitting(&filling).columns.is_empty() {
                continue;
            }
            if best.as_ref().is_none_or(|(most, _)| worth > *most) {
                best = Some((worth, Found { filling, column, ratio: 0.0 }));
            }
        }
        best.map(|(_, found)| found)
    }

    /// The best filling of any candidate that has a price. Flexibility is weighed within each capacity type and cost
    /// between them: an inflexible spot node is no reason to pay for on-demand.
    fn full(&self, candidates: &ColumnSet) -> Option<Found> {
        let mut best: [Option<(Score, Found)>; 2] = [None, None];
        let mut tries = Tries::default();
        for (bound, column) in self.ranked(candidates) {
            let kind = usize::from(capacity_of(column) == CapacityType::OnDemand);
            let is_beaten = |best: &Option<(Score, Found)>, by: fn(&Score) -> f64| {
                best.as_ref().is_some_and(|(score, _)| {
                    score.apart == 0 && score.types_lacking == 0 && by(score) <= bound
                })
            };
            if is_beaten(&best[kind], |score| score.ratio) || is_beaten(&best[1 - kind], |score| score.least)
            {
                continue;
            }
            if !tries.note(column, self.party.template.room(column)) {
                continue;
            }
            let Some(filling) = fill::fill(self.party, column, self.seeds, false) else { continue };
            let Some(score) = self.score(&filling) else { continue };
            if best[kind].as_ref().is_none_or(|(other, _)| score < *other) {
                best[kind] = Some((score, Found { filling, column, ratio: score.ratio }));
            }
        }
        let found = best.into_iter().flatten();
        let least = found.min_by(|(a, _), (b, _)| a.apart.cmp(&b.apart).then(a.least.total_cmp(&b.least)));
        least.map(|(_, found)| found)
    }

    /// The selection with the least choice of those that the first pods are in.
    fn narrowest(&self) -> &Selected {
        let bins = &self.packer.bins.all;
        let of_seeds = self.seeds.iter().map(|seed| &self.packer.selections.all[bins[seed.bin].selected]);
        of_seeds.min_by_key(|selected| selected.width).unwrap_or(self.selected)
    }

    /// Candidates by the least cost for their worth that a perfect filling would reach.
    pub(super) fn ranked(&self, candidates: &ColumnSet) -> Vec<(f64, usize)> {
        let template = self.party.template;
        let prospects = Prospects::of(self.party);
        let contenders = self.narrowest().contenders().filter(|(_, column)| candidates.contains(*column));
        let ratio =
            |(cost, column): (f64, usize)| (prospects.ratio(cost, template.room(column), self.party), column);
        let mut ranked: Vec<(f64, usize)> = contenders.map(ratio).collect();
        let order = |(a, x): &(f64, usize), (b, y): &(f64, usize)| a.total_cmp(b).then(x.cmp(y));
        if ranked.len() > MACHINES_RANKED {
            ranked.select_nth_unstable_by(MACHINES_RANKED, order);
            ranked.truncate(MACHINES_RANKED);
        }
        ranked.sort_unstable_by(order);
        ranked
    }

    /// `None` when the pool's minValues cannot be kept with this filling.
    pub(super) fn score(&self, filling: &Filling) -> Option<Score> {
        let template = self.party.template;
        let options = self.packer.options;
        let min_values = MinValues::of(template);
        if !min_values.is_empty() && options.min_values == MinValuesPolicy::Strict {
            let fitting = self.fitting(filling);
            offers::offered(template, &fitting, &min_values, options)?;
        }
        let is_spot = filling.capacity_type == CapacityType::Spot;
        let prices = self.cheapest(filling, if is_spot { options.spot_types_min } else { 1 });
        let worth = filling.worth_of_peers + filling.worth_of_others;
        let risk = 1.0 + template.risk_weight * self.packer.share_of_all(worth);
        // What fills the gaps pays for its place, though never for that of those the node is for.
        let ratio = |price: f64| {
            let cost = (price + template.node_price as f64) / NANOS_PER_DOLLAR * risk;
            let own = (cost - filling.worth_of_others).max(filling.worth_of_peers * OWN_SHARE_MIN);
            own / filling.worth_of_peers.max(f64::MIN_POSITIVE)
        };
        let types_lacking = if is_spot { self.lacking(prices.len()) } else { 0 };
        let whole = self.seeds.iter().filter(|seed| seed.whole).filter_map(|seed| seed.member);
        let apart: u32 = whole
            .map(|member| {
                let here = filling.members.iter().find(|(other, _)| *other == member).map_or(0, |(_, n)| *n);
                self.party.bins.members[member].left - here
            })
            .sum();
        Some(Score {
            apart,
            types_lacking,
            ratio: ratio(offers::expected(prices.iter().copied(), filling.capacity_type, prices.len())?),
            least: ratio(*prices.first()? as f64),
        })
    }

    /// The prices of the cheapest machines that carry a filling, at most so many.
    fn cheapest(&self, filling: &Filling, count: usize) -> Vec<u64> {
        let template = self.party.template;
        let columns = self.columns(filling);
        let order = template.by_price(filling.zones);
        let carriers = order.carriers(filling.capacity_type, &filling.packed);
        let admitted = carriers.filter(|(_, column)| columns.contains(*column));
        admitted.take(count).map(|(price, _)| price).collect()
    }

    /// How many types a spot node lacks of those that the pool could offer for one pod.
    fn lacking(&self, found: usize) -> usize {
        let wanted = self.packer.options.spot_types_min;
        let spot = self.lead.columns.iter().filter(|column| capacity_of(*column) == CapacityType::Spot);
        if spot.take(wanted).count() < wanted { 0 } else { wanted.saturating_sub(found) }
    }

    /// The machines that all pods of a filling may be on.
    fn columns(&self, filling: &Filling) -> ColumnSet {
        let mut columns = self.admitted.clone();
        for (guest, _) in &filling.guests {
            columns.intersect(&self.party.guests[*guest].bin.columns);
        }
        columns
    }

    fn fitting(&self, filling: &Filling) -> Fitting {
        let template = self.party.template;
        carrying(template, &self.columns(filling), filling, |column, zone| {
            self.packer.reservation_left(template, column, zone)
        })
    }

    fn alone(&self, candidates: &ColumnSet) -> Option<Found> {
        self.ranked(candidates).into_iter().find_map(|(_, column)| {
            let filling = fill::fill(self.party, column, self.seeds, true)?;
            let score = self.score(&filling)?;
            Some(Found { filling, column, ratio: score.ratio })
        })
    }

    pub(super) fn min_values_refusal(&self, candidates: &ColumnSet) -> Refusal {
        let columns: Vec<usize> = candidates.iter().collect();
        let zones = self.selected.selection.zones;
        let unmet = MinValues::of(self.party.template).unmet(self.party.template, &columns, zones);
        let step = |filter, left| FilterStep { filter, left };
        let filter = match unmet {
            Some((key, count)) => format!("minValues {count} of {key}"),
            None => format!("minValues with at most {} types", outrigger_model::PlannedNode::MAX_TYPES),
        };
        Refusal::NoInstanceType(vec![step("labels and requests".into(), candidates.types()), step(filter, 0)])
    }
}
