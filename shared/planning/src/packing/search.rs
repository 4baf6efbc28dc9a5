//! The search for the best machine for one lead.

use outrigger_model::{CapacityType, FilterStep, Refusal};

use super::draft::carrying;
use super::{Found, Packer};
use crate::bins::Bin;
use crate::columns::{ColumnSet, capacity_of};
use crate::fill::{self, Filling, Party, Seed};
use crate::offers::{self, Fitting, MinValues};
use crate::selections::Selected;
use crate::templates::NANOS_PER_DOLLAR;
use crate::{MinValuesPolicy, amounts};

/// How many machines are tried for one node. They are tried from the best possible ratio of cost to worth downwards,
/// and the search ends sooner when no further one can win.
const MACHINES_TRIED_MAX: usize = 48;
/// How much of their worth the pods that a node is opened for pay at least, whatever others pay.
const OWN_SHARE_MIN: f64 = 0.9;
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

/// What could fill a machine: more room than the pods ask for that are left is worth nothing.
struct Prospects {
    peers: Vec<f64>,
    others: Vec<f64>,
}

impl Prospects {
    fn of(party: Party<'_>) -> Self {
        let width = party.unit_prices.len();
        let mut prospects = Self { peers: vec![0.0; width], others: vec![0.0; width] };
        for guest in party.guests {
            let left = f64::from(guest.bin.left);
            let sums = if guest.is_peer { &mut prospects.peers } else { &mut prospects.others };
            for (sum, amount) in sums.iter_mut().zip(guest.shape.request) {
                *sum += *amount as f64 * left;
            }
        }
        prospects
    }

    /// The least cost for the peers' worth that a perfect filling would reach.
    fn ratio(&self, cost: f64, room: &[i64], party: Party<'_>) -> f64 {
        let (mut of_peers, mut of_others) = (0.0, 0.0);
        for (place, room) in room.iter().enumerate() {
            let room = *room as f64;
            let peers = room.min(self.peers[place]);
            of_peers += peers * party.unit_prices[place];
            of_others += (room - peers).min(self.others[place]) * party.others_prices[place];
        }
        (cost - of_others).max(of_peers * OWN_SHARE_MIN) / of_peers.max(f64::MIN_POSITIVE)
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
        for (bound, column) in self.ranked(candidates).into_iter().take(MACHINES_TRIED_MAX) {
            let kind = usize::from(capacity_of(column) == CapacityType::OnDemand);
            let is_beaten = |best: &Option<(Score, Found)>| {
                best.as_ref().is_some_and(|(score, _)| {
                    score.apart == 0 && score.types_lacking == 0 && score.least <= bound
                })
            };
            if is_beaten(&best[kind]) || is_beaten(&best[1 - kind]) {
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

    /// Candidates by the least cost for their worth that a perfect filling would reach.
    fn ranked(&self, candidates: &ColumnSet) -> Vec<(f64, usize)> {
        let zones = self.selected.selection.zones;
        let template = self.party.template;
        let prospects = Prospects::of(self.party);
        let mut ranked: Vec<(f64, usize)> = candidates
            .iter()
            .filter(|column| capacity_of(*column) != CapacityType::Reserved)
            .filter_map(|column| {
                let cost = template.node_dollars(column, zones)?;
                Some((prospects.ratio(cost, template.room(column), self.party), column))
            })
            .collect();
        let order = |(a, x): &(f64, usize), (b, y): &(f64, usize)| a.total_cmp(b).then(x.cmp(y));
        if ranked.len() > MACHINES_RANKED {
            ranked.select_nth_unstable_by(MACHINES_RANKED, order);
            ranked.truncate(MACHINES_RANKED);
        }
        ranked.sort_by(order);
        ranked
    }

    /// `None` when the pool's minValues cannot be kept with this filling.
    pub(super) fn score(&self, filling: &Filling) -> Option<Score> {
        let template = self.party.template;
        let options = self.packer.options;
        let min_values = MinValues::of(template);
        if !min_values.is_empty() && options.min_values == MinValuesPolicy::Strict {
            let fitting = self.fitting(filling);
            offers::offered(template, &fitting, fitting.zones, &min_values, options)?;
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
            ratio: ratio(offers::expected(&prices)?),
            least: ratio(*prices.first()? as f64),
        })
    }

    /// The prices of the cheapest machines that carry a filling, at most so many.
    fn cheapest(&self, filling: &Filling, count: usize) -> Vec<u64> {
        let template = self.party.template;
        let columns = self.columns(filling);
        let order = template.by_price(filling.zones);
        let carries = |(_, column): &&(u64, usize)| {
            capacity_of(*column) == filling.capacity_type
                && columns.contains(*column)
                && amounts::fits(&filling.packed, template.room(*column))
        };
        order.iter().filter(carries).take(count).map(|(price, _)| *price).collect()
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
