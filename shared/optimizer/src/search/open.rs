//! Opening nodes: which machine next, with which pods, until every lot has its nodes or every pool
//! has refused it.
//!
//! Each step takes a lead - the bin with the fewest choices, then the largest - and `machine` fills
//! every machine that is worth a look with it and its like. The machine that costs least for what
//! it carries wins, and its filling is repeated while there are pods for it, so the work grows with
//! the kinds of pods and hardly with their number.

mod machine;

use std::rc::Rc;

use typed_index_collections::TiVec;

use super::assign::Waiting;
use super::bins::{Bins, Member};
use super::fill::{self, Extent, Filling, Guest, Lead, Party, Role};
use super::prices::Prices;
use super::random::Random;
use crate::amounts;
use crate::ids::{BinId, GroupId, GuestId, MemberId, TemplateId};
use crate::market::purchases::{Purchases, type_of};
use crate::solution::{At, NewNode, Portion, Solution};
use machine::{Found, MachineSearch};

/// How far the cost of a repeated machine may rise above its first before another search.
const REPEAT_SLACK: f64 = 1.01;
/// How much of their worth the pods that a node is opened for pay at least, whatever others pay.
pub(super) const OWN_SHARE_MIN: f64 = 0.9;

/// Nodes are opened for lots that wait.
pub(super) struct Opening<'s, 'p, 'a> {
    solution: &'s mut Solution<'p, 'a>,
    bins: Bins<'p>,
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
        let bins = Bins::of(solution.problem, waiting);
        Self { solution, bins, prices, total_worth: 0.0 }
    }

    /// Opens nodes for all that waits, first for pods that must all be on one; says what still
    /// waits.
    pub(super) fn open_all(mut self) -> Vec<Waiting> {
        self.price_all();
        self.open_for_founders();
        while let Some(bin) = self.bins.lead() {
            if (self.solution.problem.options.time_is_up)() {
                break;
            }
            let lead = Lead { bin, whole: None };
            let found = self.best(lead);
            if found.is_none_or(|found| !self.open_repeatedly(lead, &found)) {
                self.refuse(bin);
            }
        }
        self.rest()
    }

    /// Opens nodes of machines that are drawn among the best of each size; says what still waits,
    /// and how many machines were filled.
    pub(super) fn open_drawn(mut self, random: &mut Random) -> (Vec<Waiting>, usize) {
        let mut filled = 0;
        while let Some(bin) = self.bins.lead() {
            if (self.solution.problem.options.time_is_up)() {
                break;
            }
            let lead = Lead { bin, whole: None };
            let purchases = self.purchases_for(lead);
            let found = self.with_search(lead, |search| search.drawn(&purchases, random));
            filled += 1;
            if found.is_none_or(|found| !self.open(&found.filling, lead)) {
                self.refuse(bin);
            }
        }
        (self.rest(), filled)
    }

    fn rest(&self) -> Vec<Waiting> {
        let left = self.bins.members.iter().filter(|member| member.left > 0);
        left.map(|member| Waiting { lot: Rc::clone(&member.counted), count: member.left }).collect()
    }

    /// Pods that must be near their like on one node, where no other is yet: the largest lot of
    /// each group comes whole, and the others then are with it.
    fn open_for_founders(&mut self) {
        let mut order: Vec<MemberId> = self.bins.members.keys().collect();
        order.sort_by_key(|member| std::cmp::Reverse(self.bins.members[*member].left));
        for member in order {
            let held = &self.bins.members[member];
            let is_first = |group: GroupId| !self.is_anywhere(group);
            let founds = held.affinity().next().is_some()
                && held.affinity().all(|rule| rule.selects_itself && is_first(rule.group));
            if let Some(bin) = held.bin.filter(|_| founds) {
                let lead = Lead { bin, whole: Some(member) };
                if let Some(found) = self.best(lead) {
                    self.open(&found.filling, lead);
                }
            }
        }
    }

    /// Whether a pod that a group counts is on a node, or waits for one and need not be near such a
    /// pod itself.
    fn is_anywhere(&self, group: GroupId) -> bool {
        let follows = |it: &Member<'_>| it.affinity().any(|rule| rule.group == group);
        let leads = |it: &Member<'_>| it.left > 0 && it.on_hosts.contains(&group) && !follows(it);
        self.solution.problem.running.total(group) > 0
            || self.solution.existing.iter().any(|node| node.load.host.counted(group) > 0)
            || self.solution.new_nodes().any(|(_, node)| node.shape.load.host.counted(group) > 0)
            || self.bins.members.iter().any(leads)
    }

    fn refuse(&mut self, bin: BinId) {
        for member in self.bins.all[bin].members.clone() {
            self.bins.advance(self.solution.problem, member);
        }
    }

    fn price_all(&mut self) {
        for bin in self.bins.all.keys() {
            self.price(bin);
        }
        let worth = |it: &Member<'_>| {
            let bin = &self.bins.all[it.bin?];
            let unit_prices = self.unit_prices(it.bin?);
            Some(amounts::worth(bin.size.request, &unit_prices) * f64::from(it.left))
        };
        self.total_worth = self.bins.members.iter().filter_map(worth).sum();
    }

    /// Works out anew what room is worth to the pods that are left like a bin's, where their mix
    /// has changed.
    fn price(&mut self, bin: BinId) {
        let problem = self.solution.problem;
        let selected = Rc::clone(&self.bins.all[bin].selected);
        let demand = self.bins.demand(selected.id, problem.demand.len());
        let template = &problem.templates()[selected.template];
        self.prices.update(&selected, template, &demand, problem.options.spot_types_min);
    }

    fn is_stale(&self, bin: BinId) -> bool {
        let selected = &self.bins.all[bin].selected;
        let demand = self.bins.demand(selected.id, self.solution.problem.demand.len());
        self.prices.is_stale(selected, &demand)
    }

    fn unit_prices(&self, bin: BinId) -> Rc<[f64]> {
        let problem = self.solution.problem;
        let selected = &self.bins.all[bin].selected;
        self.prices.of(selected, &problem.templates()[selected.template], &problem.demand)
    }

    /// The filling that costs least for what it carries.
    fn best(&mut self, lead: Lead) -> Option<Found> {
        self.price(lead.bin);
        let purchases = self.purchases_for(lead);
        self.with_search(lead, |search| search.best(&purchases))
    }

    /// The purchases that a lead's pods fit and limits admit.
    fn purchases_for(&self, lead: Lead) -> Purchases {
        let mut purchases = self.bins.all[lead.bin].purchases.clone();
        self.leave_admitted(&mut purchases, self.bins.all[lead.bin].selected.template);
        purchases
    }

    /// Searches for the best machine for a lead, in whatever way.
    fn with_search<T>(&self, lead: Lead, of: impl FnOnce(&MachineSearch<'_, '_, '_>) -> T) -> T {
        let problem = self.solution.problem;
        let bin = &self.bins.all[lead.bin];
        let template = &problem.templates()[bin.selected.template];
        let guests = self.guests(lead.bin);
        let unit_prices = self.unit_prices(lead.bin);
        let party = Party {
            template,
            bins: &self.bins,
            guests: &guests,
            unit_prices: &unit_prices,
            candidates: &fill::candidates(&guests, &unit_prices),
        };
        let mut admitted = template.usable.clone();
        self.leave_admitted(&mut admitted, bin.selected.template);
        of(&MachineSearch {
            solution: self.solution,
            prices: self.prices,
            total_worth: self.total_worth,
            party,
            bin,
            lead,
            admitted: &admitted,
        })
    }

    /// The bins that may share a node with the lead.
    fn guests(&self, lead: BinId) -> TiVec<GuestId, Guest<'_>> {
        let lead = &self.bins.all[lead];
        let peers = &lead.selected.selection;
        let mut guests = TiVec::new();
        for (id, bin) in self.bins.all.iter_enumerated().filter(|(_, bin)| bin.left > 0) {
            if bin.selected.template != lead.selected.template {
                continue;
            }
            let selection = &bin.selected.selection;
            let is_peer = bin.selected.id == lead.selected.id
                || (selection.zones & !peers.zones == 0 && selection.purchases.is_subset(&peers.purchases));
            let role = if is_peer { Role::Peer } else { Role::Other };
            let unit_prices = self.unit_prices(id);
            let worth = amounts::worth(bin.size.request, &unit_prices);
            guests.push(Guest { id, bin, unit_prices, worth, role });
        }
        guests
    }

    /// Opens the node, and more like it while that costs no more than the first: the same filling
    /// again while there are pods for at least two of each, else the same machine filled anew.
    /// False when not even the first can be had.
    fn open_repeatedly(&mut self, lead: Lead, first: &Found) -> bool {
        let mut filling = first.filling.clone();
        let mut opened = false;
        loop {
            let bound = filling.members.iter().any(|(member, _)| {
                let held = &self.bins.members[*member];
                !held.rules.is_empty() || !held.on_hosts.is_empty()
            });
            let left = |(member, count): &(MemberId, u32)| self.bins.members[*member].left / count;
            let times = filling.members.iter().map(left).min().unwrap_or(0) / 2;
            for _ in 0..if bound { 1 } else { times.max(1) } {
                if !self.open(&filling, lead) {
                    return opened;
                }
                opened = true;
                if self.is_stale(lead.bin) {
                    return true;
                }
            }
            if self.bins.all[lead.bin].left == 0 || (self.solution.problem.options.time_is_up)() {
                return true;
            }
            match self.again(lead, first) {
                Some(next) => filling = next,
                None => return true,
            }
        }
    }

    /// The same machine filled with what is left, unless that costs more for what it carries.
    fn again(&self, lead: Lead, first: &Found) -> Option<Filling> {
        self.with_search(lead, |search| {
            let filling = fill::fill(search.party, first.purchase, lead, Extent::WholeMachine)?;
            let score = search.score(&filling)?;
            (score.apart == 0 && score.types_lacking == 0 && score.ratio <= first.ratio * REPEAT_SLACK)
                .then_some(filling)
        })
    }

    /// Opens a node with some pods; false when limits, reservations or minValues do not let it.
    fn open(&mut self, filling: &Filling, lead: Lead) -> bool {
        let template = self.bins.all[lead.bin].selected.template;
        let portion = |(member, count): &(MemberId, u32)| {
            let lot = Rc::clone(&self.bins.members[*member].lot);
            Portion { lot, count: *count }
        };
        let pods: Vec<Portion> = filling.members.iter().map(portion).collect();
        let node: Option<NewNode> = self.solution.node_of(template, pods, None);
        let Some(node) = node else { return false };
        for (member, count) in &filling.members {
            let held = &self.bins.members[*member];
            if !Rc::ptr_eq(&held.lot, &held.counted) {
                let (counted, lot) = (Rc::clone(&held.counted), Rc::clone(&held.lot));
                self.solution.count(lot.variant.class, At::Lot(counted), -count.cast_signed());
                self.solution.count(lot.variant.class, At::Lot(lot), count.cast_signed());
            }
            self.bins.take(*member, *count);
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
