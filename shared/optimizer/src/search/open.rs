//! Opening nodes: which machine next, with which pods, until every lot has its nodes or every pool
//! has refused it.
//!
//! Each step takes a seed - the item type with the fewest choices, then the largest - and `machine`
//! fills every machine that is worth a look with it and its like. The machine that costs least for
//! what it carries wins, and its filling is repeated while there are pods for it, so the work grows
//! with the kinds of pods and hardly with their number.

mod machine;

use std::rc::Rc;

use typed_index_collections::TiVec;

use super::assign::Waiting;
use super::fill::{self, Candidate, Extent, FillInputs, Filling, Role, Seed};
use super::item_types::{ItemTypes, PendingLot};
use super::prices::Prices;
use super::random::Random;
use crate::amounts;
use crate::ids::{CandidateId, GroupId, ItemTypeId, PendingLotId, TemplateId};
use crate::market::purchases::{Purchases, type_of};
use crate::solution::{At, NewNode, Portion, Solution};
use machine::{FilledMachine, MachineSearch};

/// How far the cost of a repeated machine may rise above its first before another search.
const REPEAT_SLACK: f64 = 1.01;

/// Nodes are opened for lots that wait.
pub(super) struct Opening<'s, 'p, 'a> {
    solution: &'s mut Solution<'p, 'a>,
    item_types: ItemTypes<'p>,
    prices: &'s mut Prices,
    /// Dollars per hour that all pods cost at least.
    total_worth: f64,
}

impl<'s, 'p, 'a> Opening<'s, 'p, 'a> {
    /// Nothing is opened yet.
    pub(super) fn new(
        solution: &'s mut Solution<'p, 'a>,
        waiting: Vec<Waiting>,
        prices: &'s mut Prices,
    ) -> Self {
        let item_types = ItemTypes::new(solution.problem, waiting);
        Self { solution, item_types, prices, total_worth: 0.0 }
    }

    /// Opens nodes for all that waits, first for pods that must all be on one; says what still
    /// waits.
    pub(super) fn open_all(mut self) -> Vec<Waiting> {
        self.price_all();
        self.open_for_founders();
        while let Some(item_type) = self.item_types.seed() {
            if (self.solution.problem.options.time_is_up)() {
                break;
            }
            let seed = Seed { item_type, whole_lot: None };
            let machine = self.best(seed);
            if machine.is_none_or(|machine| !self.open_repeatedly(seed, &machine)) {
                self.refuse(item_type);
            }
        }
        self.rest()
    }

    /// Opens nodes of machines that are drawn among the best of each size; says what still waits,
    /// and how many machines were filled.
    pub(super) fn open_drawn(mut self, random: &mut Random) -> (Vec<Waiting>, usize) {
        let mut filled = 0;
        while let Some(item_type) = self.item_types.seed() {
            if (self.solution.problem.options.time_is_up)() {
                break;
            }
            let seed = Seed { item_type, whole_lot: None };
            let purchases = self.purchases_for(seed);
            let machine = self.with_search(seed, |search| search.drawn(&purchases, random));
            filled += 1;
            if machine.is_none_or(|machine| !self.open(&machine.filling, seed)) {
                self.refuse(item_type);
            }
        }
        (self.rest(), filled)
    }

    fn rest(&self) -> Vec<Waiting> {
        let unopened = self.item_types.pending_lots.iter().filter(|pending| pending.remaining > 0);
        unopened
            .map(|pending| Waiting { lot: Rc::clone(&pending.counted), count: pending.remaining })
            .collect()
    }

    /// Pods that must be near their like on one node, where no other is yet: the largest lot of
    /// each group comes whole, and the others then are with it.
    fn open_for_founders(&mut self) {
        let mut order: Vec<PendingLotId> = self.item_types.pending_lots.keys().collect();
        order.sort_by_key(|pending| std::cmp::Reverse(self.item_types.pending_lots[*pending].remaining));
        for pending in order {
            let pending_lot = &self.item_types.pending_lots[pending];
            let is_first = |group: GroupId| !self.is_anywhere(group);
            let founds = pending_lot.affinity().next().is_some()
                && pending_lot.affinity().all(|rule| rule.selects_itself && is_first(rule.group));
            if let Some(item_type) = pending_lot.item_type.filter(|_| founds) {
                let seed = Seed { item_type, whole_lot: Some(pending) };
                if let Some(machine) = self.best(seed) {
                    self.open(&machine.filling, seed);
                }
            }
        }
    }

    /// Whether a pod that a group counts is on a node, or waits for one and need not be near such a
    /// pod itself.
    fn is_anywhere(&self, group: GroupId) -> bool {
        let follows = |pending: &PendingLot<'_>| pending.affinity().any(|rule| rule.group == group);
        let can_seed = |pending: &PendingLot<'_>| {
            pending.remaining > 0 && pending.on_hosts.contains(&group) && !follows(pending)
        };
        self.solution.problem.running.total(group) > 0
            || self.solution.existing.iter().any(|node| node.load.host.counted(group) > 0)
            || self.solution.new_nodes().any(|(_, node)| node.shape.load.host.counted(group) > 0)
            || self.item_types.pending_lots.iter().any(can_seed)
    }

    fn refuse(&mut self, item_type: ItemTypeId) {
        for pending in self.item_types.by_id[item_type].pending_lots.clone() {
            self.item_types.advance(self.solution.problem, pending);
        }
    }

    fn price_all(&mut self) {
        for item_type in self.item_types.by_id.keys() {
            self.price(item_type);
        }
        let worth = |pending: &PendingLot<'_>| {
            let item_type = &self.item_types.by_id[pending.item_type?];
            let unit_prices = self.unit_prices(pending.item_type?);
            Some(amounts::worth(item_type.size.request, &unit_prices) * f64::from(pending.remaining))
        };
        self.total_worth = self.item_types.pending_lots.iter().filter_map(worth).sum();
    }

    /// Works out anew what room is worth to the pods that are left like an item type's, where their
    /// mix has changed.
    fn price(&mut self, item_type: ItemTypeId) {
        let problem = self.solution.problem;
        let selected = Rc::clone(&self.item_types.by_id[item_type].selected);
        let demand = self.item_types.demand(selected.id, problem.demand.len());
        let template = &problem.templates()[selected.template];
        self.prices.update(&selected, template, &demand, problem.options.spot_types_min);
    }

    fn is_stale(&self, item_type: ItemTypeId) -> bool {
        let selected = &self.item_types.by_id[item_type].selected;
        let demand = self.item_types.demand(selected.id, self.solution.problem.demand.len());
        self.prices.is_stale(selected, &demand)
    }

    fn unit_prices(&self, item_type: ItemTypeId) -> Rc<[f64]> {
        let problem = self.solution.problem;
        let selected = &self.item_types.by_id[item_type].selected;
        self.prices.unit_prices(selected, &problem.templates()[selected.template], &problem.demand)
    }

    /// The filling that costs least for what it carries.
    fn best(&mut self, seed: Seed) -> Option<FilledMachine> {
        self.price(seed.item_type);
        let purchases = self.purchases_for(seed);
        self.with_search(seed, |search| search.best(&purchases))
    }

    /// The purchases that a seed's pods fit and limits admit.
    fn purchases_for(&self, seed: Seed) -> Purchases {
        let mut purchases = self.item_types.by_id[seed.item_type].purchases.clone();
        self.leave_admitted(&mut purchases, self.item_types.by_id[seed.item_type].selected.template);
        purchases
    }

    /// Searches for the best machine for a seed, in whatever way.
    fn with_search<T>(&self, seed: Seed, search: impl FnOnce(&MachineSearch<'_, '_, '_>) -> T) -> T {
        let problem = self.solution.problem;
        let item_type = &self.item_types.by_id[seed.item_type];
        let template = &problem.templates()[item_type.selected.template];
        let candidates = self.candidates(seed.item_type);
        let unit_prices = self.unit_prices(seed.item_type);
        let inputs = FillInputs {
            template,
            item_types: &self.item_types,
            candidates: &candidates,
            unit_prices: &unit_prices,
            columns: &fill::columns(&candidates, &unit_prices),
        };
        let mut admitted = template.usable.clone();
        self.leave_admitted(&mut admitted, item_type.selected.template);
        search(&MachineSearch {
            solution: self.solution,
            prices: self.prices,
            total_worth: self.total_worth,
            inputs,
            item_type,
            seed,
            admitted: &admitted,
        })
    }

    /// The item types that may share a node with the seed.
    fn candidates(&self, seed: ItemTypeId) -> TiVec<CandidateId, Candidate<'_>> {
        let seed = &self.item_types.by_id[seed];
        let peers = &seed.selected.selection;
        let mut candidates = TiVec::new();
        for (id, item_type) in
            self.item_types.by_id.iter_enumerated().filter(|(_, item_type)| item_type.remaining > 0)
        {
            if item_type.selected.template != seed.selected.template {
                continue;
            }
            let selection = &item_type.selected.selection;
            let is_peer = item_type.selected.id == seed.selected.id
                || (selection.zones & !peers.zones == 0 && selection.purchases.is_subset(&peers.purchases));
            let role = if is_peer { Role::Peer } else { Role::Other };
            let unit_prices = self.unit_prices(id);
            let worth = amounts::worth(item_type.size.request, &unit_prices);
            candidates.push(Candidate { id, item_type, unit_prices, worth, role });
        }
        candidates
    }

    /// Opens the node, and more like it while that costs no more than the first: the same filling
    /// again while there are pods for it, else the same machine filled anew.
    /// False when not even the first can be had.
    fn open_repeatedly(&mut self, seed: Seed, first: &FilledMachine) -> bool {
        let mut filling = first.filling.clone();
        let mut opened = false;
        loop {
            let bound = filling.pending_lots.iter().any(|(pending, _)| {
                let pending_lot = &self.item_types.pending_lots[*pending];
                !pending_lot.rules.is_empty() || !pending_lot.on_hosts.is_empty()
            });
            let repeats = |(pending, count): &(PendingLotId, u32)| {
                self.item_types.pending_lots[*pending].remaining / count
            };
            let times = filling.pending_lots.iter().map(repeats).min().unwrap_or(0);
            for _ in 0..if bound { 1 } else { times.max(1) } {
                if !self.open(&filling, seed) {
                    return opened;
                }
                opened = true;
                if self.is_stale(seed.item_type) {
                    return true;
                }
            }
            if self.item_types.by_id[seed.item_type].remaining == 0
                || (self.solution.problem.options.time_is_up)()
            {
                return true;
            }
            match self.again(seed, first) {
                Some(next) => filling = next,
                None => return true,
            }
        }
    }

    /// The same machine filled with what is left, unless that costs more for what it carries.
    fn again(&self, seed: Seed, first: &FilledMachine) -> Option<Filling> {
        self.with_search(seed, |search| {
            let filling = fill::fill(search.inputs, first.purchase, seed, Extent::WholeMachine)?;
            let score = search.score(&filling)?;
            (score.apart == 0 && score.types_lacking == 0 && score.ratio <= first.ratio * REPEAT_SLACK)
                .then_some(filling)
        })
    }

    /// Opens a node with some pods; false when limits, reservations or minValues do not let it.
    fn open(&mut self, filling: &Filling, seed: Seed) -> bool {
        let template = self.item_types.by_id[seed.item_type].selected.template;
        let portion = |(pending, count): &(PendingLotId, u32)| {
            let lot = Rc::clone(&self.item_types.pending_lots[*pending].lot);
            Portion { lot, count: *count }
        };
        let pods: Vec<Portion> = filling.pending_lots.iter().map(portion).collect();
        let node: Option<NewNode> = self.solution.node_of(template, pods, None);
        let Some(node) = node else { return false };
        for (pending, count) in &filling.pending_lots {
            let pending_lot = &self.item_types.pending_lots[*pending];
            if !Rc::ptr_eq(&pending_lot.lot, &pending_lot.counted) {
                let (counted, lot) = (Rc::clone(&pending_lot.counted), Rc::clone(&pending_lot.lot));
                self.solution.count(lot.variant.class, At::Lot(counted), -count.cast_signed());
                self.solution.count(lot.variant.class, At::Lot(lot), count.cast_signed());
            }
            self.item_types.take(*pending, *count);
        }
        self.solution.open_counted(Rc::new(node));
        true
    }

    /// Leaves those purchases whose machines the pool's limits still admit.
    fn leave_admitted(&self, purchases: &mut Purchases, template: TemplateId) {
        let limits = &self.solution.problem.limits[template];
        if let Some(remaining) = limits.remaining(&self.solution.used[template], None) {
            purchases.retain(|purchase| remaining.admits(type_of(purchase)));
        }
    }
}
