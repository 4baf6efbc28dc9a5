//! Filling one machine: which of the pods that are left go together onto it.
//!
//! The rule is a greedy one of vector bin packing: take the pods that are worth most for the share
//! of the free room that they take, larger ones first, so that cpu and memory run out together.

mod columns;

use std::rc::Rc;

use outrigger_model::{CapacityType, Requirements};
use typed_index_collections::{TiSlice, TiVec, ti_vec};

use super::item_types::{ItemType, ItemTypes};
use crate::ids::{CandidateId, ItemTypeId, PendingLotId, PurchaseId};
use crate::market::purchases::capacity_of;
use crate::market::templates::Template;
use crate::problem::topology::{Affinity, Host, Spreads};
use crate::solution::Load;
pub(super) use columns::Columns;

const PODS_AT_ONCE_MAX: u32 = 4_096;

/// What a candidate is to the node that it joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The node would be opened for it too.
    Peer,
    /// It only fills what is left.
    Other,
}

/// An item type whose pods may join a node.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    /// Which item type.
    pub(super) id: ItemTypeId,
    /// The item type.
    pub(super) item_type: &'a ItemType<'a>,
    /// What a unit of each resource is worth where it may go, in dollars per hour.
    pub(super) unit_prices: Rc<[f64]>,
    /// What a pod costs at least, in dollars per hour, wherever it goes.
    pub(super) worth: f64,
    /// What it is to the node.
    pub(super) role: Role,
}

/// What a node is opened for: a pod of an item type, or all pods of one of its pending lots, which
/// must be on one node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seed {
    pub(super) item_type: ItemTypeId,
    pub(super) whole_lot: Option<PendingLotId>,
}

/// What goes onto one machine.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    pub(super) capacity_type: CapacityType,
    pub(super) zones: u64,
    pub(super) node: Requirements,
    /// Candidates, and how many pods of each.
    pub(super) candidates: Vec<(CandidateId, u32)>,
    /// Pending lots, and how many pods of each.
    pub(super) pending_lots: Vec<(PendingLotId, u32)>,
    pub(super) load: Load,
    pub(super) worth_of_peers: f64,
    pub(super) worth_of_others: f64,
}

/// What a machine is filled from.
#[derive(Clone, Copy)]
pub(super) struct FillInputs<'a> {
    pub(super) template: &'a Template<'a>,
    pub(super) item_types: &'a ItemTypes<'a>,
    pub(super) candidates: &'a TiSlice<CandidateId, Candidate<'a>>,
    pub(super) unit_prices: &'a [f64],
    /// The candidates that the node is opened for, and the others.
    pub(super) columns: &'a [Columns; 2],
}

/// The candidates as columns: peers, then the others.
pub(super) fn columns(candidates: &TiSlice<CandidateId, Candidate<'_>>, unit_prices: &[f64]) -> [Columns; 2] {
    [Role::Peer, Role::Other].map(|role| Columns::new(candidates, unit_prices, role))
}

/// How much of a machine is filled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it, as far as there are pods.
    WholeMachine,
    /// What the pods take that the node is opened for.
    SeedOnly,
}

/// Fills a machine: the pods that the node is opened for, then their peers, then what else fits.
/// `None` when not even the first fit.
pub(super) fn fill(
    inputs: FillInputs<'_>,
    purchase: PurchaseId,
    seed: Seed,
    extent: Extent,
) -> Option<Filling> {
    let mut filler = Filler::new(inputs, purchase);
    let candidate = inputs.candidates.position(|candidate| candidate.id == seed.item_type)?;
    let fits = inputs.candidates[candidate].item_type.purchases.contains(purchase);
    let affinity = if seed.whole_lot.is_some() { Affinity::MayFound } else { Affinity::MustFollow };
    if !fits || filler.add(candidate, seed.whole_lot, 1, affinity) == 0 {
        return None;
    }
    if let Some(pending) = seed.whole_lot {
        let rest = inputs.item_types.pending_lots[pending].remaining - 1;
        filler.add(candidate, Some(pending), rest, Affinity::MustFollow);
    }
    if extent == Extent::WholeMachine {
        for columns in inputs.columns {
            filler.fill_with(columns);
        }
    }
    Some(filler.filling)
}

struct Filler<'a> {
    inputs: FillInputs<'a>,
    purchase: PurchaseId,
    /// What the machine leaves to pods.
    capacity: &'a [i64],
    counts: TiVec<CandidateId, u32>,
    filling: Filling,
}

impl<'a> Filler<'a> {
    fn new(inputs: FillInputs<'a>, purchase: PurchaseId) -> Self {
        let capacity = inputs.template.room(purchase);
        let filling = Filling {
            capacity_type: capacity_of(purchase),
            zones: inputs.template.allowed_zones,
            node: Requirements::new(),
            candidates: Vec::new(),
            pending_lots: Vec::new(),
            load: Load::new(capacity.len(), inputs.template.daemon_ports(purchase), Host::default()),
            worth_of_peers: 0.0,
            worth_of_others: 0.0,
        };
        Self { inputs, purchase, capacity, counts: ti_vec![0; inputs.candidates.len()], filling }
    }

    /// Adds candidates of one role until none of them fits any more. What does not fit once never
    /// fits again.
    fn fill_with(&mut self, of_role: &Columns) {
        let mut columns = of_role.on(self.purchase, self.capacity, self.inputs.candidates);
        let mut free = Vec::new();
        self.write_free(&mut free);
        while let Some(best) = columns.best(&free) {
            let candidate = columns.candidate(best);
            let added = self.add(candidate, None, self.portion(candidate), Affinity::MustFollow);
            if added == 0 || self.counts[candidate] == self.inputs.candidates[candidate].item_type.remaining {
                columns.rule_out(best);
            }
            self.write_free(&mut free);
        }
    }

    /// Writes down what the pods so far leave of the machine.
    fn write_free(&self, free: &mut Vec<i64>) {
        free.clear();
        free.extend(self.filling.load.free(self.capacity));
    }

    /// How many at once: what takes an eighth of the room, so that directions are weighed again
    /// while there is some.
    fn portion(&self, candidate: CandidateId) -> u32 {
        let joining = &self.inputs.candidates[candidate];
        let fit = self.copies(joining.item_type.size.request, PODS_AT_ONCE_MAX);
        let remaining = joining.item_type.remaining - self.counts[candidate];
        fit.div_ceil(8).min(remaining)
    }

    fn copies(&self, request: &[i64], wanted: u32) -> u32 {
        self.filling.load.copies(request, self.capacity, wanted)
    }

    /// Adds up to `count` pods of a candidate, of one pending lot or of any; says how many.
    fn add(
        &mut self,
        candidate: CandidateId,
        pending: Option<PendingLotId>,
        count: u32,
        affinity: Affinity,
    ) -> u32 {
        let joining = &self.inputs.candidates[candidate];
        let size = joining.item_type.size;
        let count = self.filling.load.port_room(size.ports, self.copies(size.request, count));
        if count == 0 {
            return 0;
        }
        let selection = &joining.item_type.selected.selection;
        let zones = self.filling.zones & selection.zones;
        if zones != self.filling.zones && self.inputs.template.cheapest(self.purchase, zones).is_none() {
            return 0;
        }
        let asked = &selection.node;
        let node = if asked.is_empty() {
            None
        } else {
            Some(self.inputs.template.narrow(&self.filling.node, asked))
        };
        if matches!(node, Some(None)) {
            return 0;
        }
        let added = match pending {
            Some(pending) => self.add_lot(pending, count, affinity),
            None => self.add_lots(&joining.item_type.pending_lots, count),
        };
        if added == 0 {
            return 0;
        }
        if let Some(Some(node)) = node {
            self.filling.node = node;
        }
        self.filling.zones = zones;
        self.book(candidate, added);
        added
    }

    fn add_lots(&mut self, pending_lots: &[PendingLotId], count: u32) -> u32 {
        let mut added = 0;
        for pending in pending_lots {
            if added == count {
                break;
            }
            added += self.add_lot(*pending, count - added, Affinity::MustFollow);
        }
        added
    }

    fn add_lot(&mut self, pending: PendingLotId, count: u32, affinity: Affinity) -> u32 {
        let pending_lot = &self.inputs.item_types.pending_lots[pending];
        let position = self.filling.pending_lots.iter().position(|(other, _)| *other == pending);
        let here = position.map_or(0, |position| self.filling.pending_lots[position].1);
        let wanted = count.min(pending_lot.remaining - here);
        let count = if pending_lot.rules.is_empty() && pending_lot.on_hosts.is_empty() {
            wanted
        } else {
            self.filling.load.host.room_for(pending_lot.host(), wanted, affinity, Spreads::HoldInAnyOrder)
        };
        if count > 0 {
            self.filling.load.host.take(pending_lot.host(), count);
            match position {
                Some(position) => self.filling.pending_lots[position].1 += count,
                None => self.filling.pending_lots.push((pending, count)),
            }
        }
        count
    }

    /// Takes the room of pods that were added.
    fn book(&mut self, candidate: CandidateId, added: u32) {
        let joining = &self.inputs.candidates[candidate];
        self.filling.load.take_size(joining.item_type.size, added);
        let worth = joining.worth * f64::from(added);
        let filling = &mut self.filling;
        let sum = match joining.role {
            Role::Peer => &mut filling.worth_of_peers,
            Role::Other => &mut filling.worth_of_others,
        };
        *sum += worth;
        if self.counts[candidate] == 0 {
            filling.candidates.push((candidate, 0));
        }
        self.counts[candidate] += added;
        if let Some(entry) = filling.candidates.iter_mut().find(|(other, _)| *other == candidate) {
            entry.1 = self.counts[candidate];
        }
    }
}
