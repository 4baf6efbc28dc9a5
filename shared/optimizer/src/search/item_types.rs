//! Item types: lots that ask the same of labels and take the same room are one thing to pack.

use std::rc::Rc;

use typed_index_collections::{TiSliceKeys, TiVec};

use super::assign::Waiting;
use crate::fixed_map::FixedMap;
use crate::ids::{GroupId, ItemTypeId, PendingLotId, SelectionId, TemplateId};
use crate::market::purchases::Purchases;
use crate::market::selections::Selected;
use crate::problem::Problem;
use crate::problem::lots::{Home, Lot};
use crate::problem::topology::{HostRules, Rule, RuleKind};
use crate::solution::PodSize;

/// Pods of several lots that differ only in the rules about the pods beside them.
#[derive(Debug)]
pub(super) struct ItemType<'b> {
    /// Where they may go.
    pub(super) selected: Rc<Selected>,
    /// The room and the ports that each takes.
    pub(super) size: PodSize<'b>,
    /// The purchases that one pod fits.
    pub(super) purchases: Purchases,
    /// The pending lots, those with rules of their own first.
    pub(super) pending_lots: Vec<PendingLotId>,
    /// How many pods are left.
    pub(super) remaining: u32,
}

/// A lot on its way through the pools.
#[derive(Debug)]
pub(super) struct PendingLot<'b> {
    /// The lot that it was counted as.
    pub(super) counted: Rc<Lot>,
    /// The lot that is tried now: the same, or one in a further relaxation.
    pub(super) lot: Rc<Lot>,
    /// How many of its pods are left.
    pub(super) remaining: u32,
    /// The groups about single nodes that count its pods.
    pub(super) on_hosts: &'b [GroupId],
    /// Rules about single nodes in its relaxation.
    pub(super) rules: Vec<Rule>,
    /// The item type that it is in; none when it has been refused everywhere.
    pub(super) item_type: Option<ItemTypeId>,
    /// The templates that were not tried yet.
    untried: TiSliceKeys<TemplateId>,
}

impl PendingLot<'_> {
    /// Its rules about pods that must be on its node.
    pub(super) fn affinity(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| rule.kind == RuleKind::Affinity)
    }

    /// Its rules about single nodes, and those that count its pods.
    pub(super) fn host(&self) -> HostRules<'_> {
        HostRules { rules: &self.rules, selected_by: self.on_hosts }
    }

    /// Whether its pods can only join nodes that others are on.
    fn follows(&self) -> bool {
        self.affinity().next().is_some()
    }
}

/// All item types, and the lots in them.
pub(super) struct ItemTypes<'b> {
    pub(super) by_id: TiVec<ItemTypeId, ItemType<'b>>,
    pub(super) pending_lots: TiVec<PendingLotId, PendingLot<'b>>,
    ids: FixedMap<(SelectionId, PodSize<'b>), ItemTypeId>,
}

impl<'b> ItemTypes<'b> {
    /// Puts every lot into the item type of its first choice.
    pub(super) fn new(problem: &'b Problem<'_>, waiting: Vec<Waiting>) -> Self {
        let pending = |waiting: Waiting| PendingLot {
            on_hosts: &problem.on_hosts[waiting.lot.variant.class],
            counted: Rc::clone(&waiting.lot),
            lot: waiting.lot,
            remaining: waiting.count,
            rules: Vec::new(),
            item_type: None,
            untried: problem.templates().keys(),
        };
        let pending_lots: TiVec<PendingLotId, _> = waiting.into_iter().map(pending).collect();
        let ids = pending_lots.keys();
        let mut item_types = Self { by_id: TiVec::new(), pending_lots, ids: FixedMap::default() };
        ids.for_each(|pending| item_types.advance(problem, pending));
        item_types
    }

    /// Moves a lot on to its next choice: the pools in their order, then the next relaxation with
    /// all pools again.
    pub(super) fn advance(&mut self, problem: &'b Problem<'_>, pending: PendingLotId) {
        self.leave(pending);
        loop {
            let pending_lot = &mut self.pending_lots[pending];
            let Some(template) = pending_lot.untried.next() else {
                let Some(next) = relaxed(problem, &pending_lot.lot) else { return };
                (pending_lot.lot, pending_lot.untried) = (next, problem.templates().keys());
                continue;
            };
            let lot = Rc::clone(&pending_lot.lot);
            if problem.templates()[template].is_static() {
                continue;
            }
            if let Some(home) = problem.home(&lot, template) {
                let rules = problem.rules_on_new(lot.variant).iter();
                pending_lot.rules = rules.filter(|rule| rule.is_per_host).copied().collect();
                let item_type = self.item_type(problem, &lot, &home);
                return self.join(pending, item_type);
            }
        }
    }

    fn leave(&mut self, pending: PendingLotId) {
        if let Some(item_type) = self.pending_lots[pending].item_type.take() {
            self.by_id[item_type].pending_lots.retain(|other| *other != pending);
            self.by_id[item_type].remaining -= self.pending_lots[pending].remaining;
        }
    }

    fn join(&mut self, pending: PendingLotId, item_type: ItemTypeId) {
        let pending_lots = &self.pending_lots;
        let order = |pending: PendingLotId| (pending_lots[pending].rules.is_empty(), pending);
        let position =
            self.by_id[item_type].pending_lots.partition_point(|other| order(*other) < order(pending));
        self.by_id[item_type].pending_lots.insert(position, pending);
        self.by_id[item_type].remaining += self.pending_lots[pending].remaining;
        self.pending_lots[pending].item_type = Some(item_type);
    }

    /// The item type of a lot on a template.
    fn item_type(&mut self, problem: &'b Problem<'_>, lot: &Lot, home: &Home) -> ItemTypeId {
        let size = problem.size(lot.variant);
        *self.ids.entry((home.selected.id, size)).or_insert_with(|| {
            let (selected, purchases) = (Rc::clone(&home.selected), home.purchases.clone());
            self.by_id.push_and_get_key(ItemType {
                selected,
                size,
                purchases,
                pending_lots: Vec::new(),
                remaining: 0,
            })
        })
    }

    /// Takes pods of a lot.
    pub(super) fn take(&mut self, pending: PendingLotId, count: u32) {
        let pending_lot = &mut self.pending_lots[pending];
        pending_lot.remaining -= count;
        if let Some(item_type) = pending_lot.item_type {
            self.by_id[item_type].remaining -= count;
            if pending_lot.remaining == 0 {
                self.by_id[item_type].pending_lots.retain(|other| *other != pending);
            }
        }
    }

    /// The item type to open a node for, of those with pods that need no others there: the one with
    /// the fewest offerings by its labels, so that those with more choice can fill its gaps, then
    /// the first in order.
    pub(super) fn seed(&self) -> Option<ItemTypeId> {
        let can_seed = |item_type: &ItemType<'_>| {
            item_type.pending_lots.iter().any(|pending| !self.pending_lots[*pending].follows())
        };
        let waiting = self
            .by_id
            .iter_enumerated()
            .filter(|(_, item_type)| item_type.remaining > 0 && can_seed(item_type));
        let order = |item_type: &ItemType<'_>| {
            let class = item_type
                .pending_lots
                .iter()
                .map(|pending| self.pending_lots[*pending].lot.variant.class)
                .min();
            (item_type.selected.width, class)
        };
        waiting.min_by_key(|(_, item_type)| order(item_type)).map(|(id, _)| id)
    }

    /// What the pods that are left in the item types of one selection ask for.
    pub(super) fn demand(&self, selected: SelectionId, width: usize) -> Vec<f64> {
        let mut demand = vec![0.0; width];
        for item_type in
            self.by_id.iter().filter(|item_type| item_type.selected.id == selected && item_type.remaining > 0)
        {
            for (sum, amount) in demand.iter_mut().zip(item_type.size.request) {
                *sum += *amount as f64 * f64::from(item_type.remaining);
            }
        }
        demand
    }
}

/// The lot in the same domains in the next relaxation that has one.
fn relaxed(problem: &Problem<'_>, lot: &Lot) -> Option<Rc<Lot>> {
    let mut further = problem.variants(lot.variant.class).filter(|variant| *variant > lot.variant);
    further.find_map(|variant| {
        let lots = problem.lots(variant);
        lots.iter().find(|other| other.fits && other.domains == lot.domains).cloned()
    })
}
