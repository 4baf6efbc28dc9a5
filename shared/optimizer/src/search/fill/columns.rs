//! Which candidate next: the one that is worth most for the share of the free room that it takes.

use typed_index_collections::{TiSlice, TiVec};

use super::{Candidate, Role};
use crate::amounts;
use crate::ids::{CandidateId, EntryId, PurchaseId, SampleId};

/// What breaks ties between pods that are worth nothing, in dollars per hour.
const TINY: f64 = 1e-9;
/// More than one: of two pods that are worth as much for their share of the room, the larger comes
/// first.
const SIZE_EXPONENT: f64 = 1.25;
/// How much of what a share of each resource counts is the same for all.
const ALIKE: f64 = 0.4;
/// Candidates that cannot be chosen any more are swept out when they are more than one in so many.
const SWEPT_AT: usize = 4;
/// How much of what the best is worth those are worth that are on the short list.
const NEAR_BEST: f64 = 0.7;
/// What a candidate weighs that is out.
const OUT: f64 = -1.0;

/// Candidates as columns of numbers, which processors go through fastest.
#[derive(Debug, Default)]
pub(in crate::search) struct Columns {
    /// Which candidate each is.
    candidates: TiVec<EntryId, CandidateId>,
    /// What a pod of each is worth, with larger ones ahead of smaller ones.
    weights: TiVec<EntryId, f64>,
    /// What each asks of labels; `samples` are candidates that ask for it.
    selected: TiVec<EntryId, SampleId>,
    samples: TiVec<SampleId, CandidateId>,
    /// What a pod of each takes, resource by resource.
    requests: Vec<TiVec<EntryId, f64>>,
    /// How many are out.
    out: usize,
    /// The places that may still be best, and what all others are worth less than.
    short_list: Vec<EntryId>,
    least_listed: f64,
    /// What a unit of each resource is worth on the node that is opened.
    unit_prices: Vec<f64>,
    /// How much a share of each resource of the machine counts.
    emphasis: Vec<f64>,
    shares: TiVec<EntryId, f64>,
    excess: TiVec<EntryId, f64>,
}

impl Columns {
    /// The candidates of one kind: peers by what room is worth to the seed, others by what they
    /// would cost elsewhere.
    pub(in crate::search) fn new(
        candidates: &TiSlice<CandidateId, Candidate<'_>>,
        unit_prices: &[f64],
        role: Role,
    ) -> Self {
        let mut columns = Self { unit_prices: unit_prices.to_vec(), ..Self::default() };
        columns.requests.resize(unit_prices.len(), TiVec::new());
        for (id, candidate) in candidates.iter_enumerated().filter(|(_, candidate)| candidate.role == role) {
            for (row, amount) in columns.requests.iter_mut().zip(candidate.item_type.size.request) {
                row.push(*amount as f64);
            }
            let worth = match role {
                Role::Peer => amounts::worth(candidate.item_type.size.request, unit_prices),
                Role::Other => candidate.worth,
            };
            let selection = |candidate: CandidateId| candidates[candidate].item_type.selected.id;
            let sample =
                columns.samples.position(|other| selection(*other) == candidate.item_type.selected.id);
            let selected = sample.unwrap_or_else(|| columns.samples.push_and_get_key(id));
            columns.selected.push(selected);
            columns.candidates.push(id);
            columns.weights.push((worth + TINY).powf(SIZE_EXPONENT));
        }
        columns
    }

    /// Those that may be on a machine as far as labels say.
    pub(super) fn on(
        &self,
        purchase: PurchaseId,
        room: &[i64],
        candidates: &TiSlice<CandidateId, Candidate<'_>>,
    ) -> Self {
        let may_be = |candidate: &CandidateId| {
            candidates[*candidate].item_type.selected.selection.purchases.contains(purchase)
        };
        let may_be: TiVec<SampleId, bool> = self.samples.iter().map(may_be).collect();
        let admitted: Vec<EntryId> = self.candidates.keys().filter(|id| may_be[self.selected[*id]]).collect();
        let pick = |row: &TiVec<EntryId, f64>| admitted.iter().map(|id| row[*id]).collect();
        Self {
            candidates: admitted.iter().map(|id| self.candidates[*id]).collect(),
            weights: pick(&self.weights),
            requests: self.requests.iter().map(pick).collect(),
            emphasis: emphasis(room, &self.unit_prices),
            ..Self::default()
        }
    }

    /// The entry of the best candidate: what is scarce goes to those that need little of it, and
    /// large pods come before small ones. Those that do not fit any more are out, since room never
    /// grows.
    ///
    /// As room shrinks, so does what every candidate is worth for its share of it. Those that came
    /// near the best one are on a short list; as long as one of them is worth more than all others
    /// were, the others need no look.
    pub(super) fn best(&mut self, free: &[i64]) -> Option<EntryId> {
        let listed = self.best_of_short_list(free);
        listed.or_else(|| self.best_of_all(free))
    }

    fn best_of_short_list(&mut self, free: &[i64]) -> Option<EntryId> {
        let (mut most, mut best) = (self.least_listed, None);
        for id in &self.short_list {
            let (mut share, mut fits) = (0.0, true);
            for ((row, free), emphasis) in self.requests.iter().zip(free).zip(&self.emphasis) {
                let free = *free as f64;
                fits &= row[*id] <= free;
                share += row[*id] * part(free, *emphasis);
            }
            if !fits {
                self.weights[*id] = OUT;
            }
            if self.weights[*id] > most * share {
                (most, best) = (self.weights[*id] / share.max(f64::MIN_POSITIVE), Some(*id));
            }
        }
        best
    }

    fn best_of_all(&mut self, free: &[i64]) -> Option<EntryId> {
        self.sweep();
        self.weigh(free);
        let (mut most, mut best) = (0.0, None);
        for (id, (weight, share)) in self.weights.iter().zip(&self.shares).enumerate() {
            // Compared without dividing, which takes longest; hardly any place is better than all
            // before it.
            if *weight > most * share {
                (most, best) = (weight / share.max(f64::MIN_POSITIVE), Some(id.into()));
            }
        }
        self.least_listed = most * NEAR_BEST;
        self.short_list.clear();
        let values = self.weights.iter().zip(&self.shares).enumerate();
        let near = values.filter(|(_, (weight, share))| **weight > self.least_listed * **share);
        self.short_list.extend(near.map(|(id, _)| EntryId::from(id)));
        best
    }

    /// Which candidate an entry is.
    pub(super) fn candidate(&self, id: EntryId) -> CandidateId {
        self.candidates[id]
    }

    /// An entry has nothing more to offer.
    pub(super) fn rule_out(&mut self, id: EntryId) {
        self.weights[id] = OUT;
    }

    /// Works out shares of the free room, and rules out those that ask for more than there is of
    /// anything.
    fn weigh(&mut self, free: &[i64]) {
        let count = self.weights.len();
        self.shares.clear();
        self.shares.resize(count, 0.0);
        self.excess.clear();
        self.excess.resize(count, f64::NEG_INFINITY);
        for ((row, free), emphasis) in self.requests.iter().zip(free).zip(&self.emphasis) {
            let free = *free as f64;
            let part = part(free, *emphasis);
            for ((share, excess), amount) in self.shares.iter_mut().zip(&mut self.excess).zip(row) {
                *share += amount * part;
                let more = amount - free;
                *excess = if more > *excess { more } else { *excess };
            }
        }
        for (weight, excess) in self.weights.iter_mut().zip(&self.excess) {
            *weight = if *excess > 0.0 { OUT } else { *weight };
        }
        self.out = self.weights.iter().filter(|weight| **weight < 0.0).count();
    }

    /// Drops those that are out once they are many.
    fn sweep(&mut self) {
        if self.out * SWEPT_AT <= self.weights.len() {
            return;
        }
        let kept: Vec<EntryId> = self.weights.keys().filter(|id| self.weights[*id] >= 0.0).collect();
        for row in self.requests.iter_mut().chain([&mut self.weights]) {
            keep(row, &kept);
        }
        keep(&mut self.candidates, &kept);
        self.out = 0;
    }
}

/// What a unit of a resource counts of which so much is free.
fn part(free: f64, emphasis: f64) -> f64 {
    if free > 0.0 { emphasis / free } else { 0.0 }
}

/// How much a share of each resource counts: in part by what all of it is worth on this machine, so
/// that no kind of pod comes first for its proportions alone while all of the machine is free; and
/// in part alike, so that what is worth nothing yet is not wasted.
fn emphasis(room: &[i64], unit_prices: &[f64]) -> Vec<f64> {
    let values = room.iter().zip(unit_prices).map(|(amount, price)| *amount as f64 * price);
    let total = values.clone().sum::<f64>().max(f64::MIN_POSITIVE);
    let alike = ALIKE / room.len() as f64;
    values.map(|value| alike + (1.0 - ALIKE) * value / total).collect()
}

/// Keeps the values at some places, which are in ascending order.
fn keep<T: Copy>(row: &mut TiVec<EntryId, T>, kept: &[EntryId]) {
    for (to, from) in kept.iter().enumerate() {
        row[EntryId::from(to)] = row[*from];
    }
    row.truncate(kept.len());
}
