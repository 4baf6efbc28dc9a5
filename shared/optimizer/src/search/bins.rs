//! Bins: lots that ask the same of labels and take the same room are one thing to pack.

use std::rc::Rc;

use typed_index_collections::{TiSliceKeys, TiVec};

use super::assign::Waiting;
use crate::fixed_map::FixedMap;
use crate::ids::{BinId, GroupId, MemberId, SelectionId, TemplateId};
use crate::market::purchases::Purchases;
use crate::market::selections::Selected;
use crate::problem::Problem;
use crate::problem::lots::{Home, Lot};
use crate::problem::topology::{HostRules, Rule, RuleKind};
use crate::solution::PodSize;

/// Pods of several lots that differ only in the rules about the pods beside them.
#[derive(Debug)]
pub(super) struct Bin<'b> {
    /// Where they may go.
    pub(super) selected: Rc<Selected>,
    /// The room and the ports that each takes.
    pub(super) size: PodSize<'b>,
    /// The purchases that one pod fits.
    pub(super) purchases: Purchases,
    /// The members, those with rules of their own first.
    pub(super) members: Vec<MemberId>,
    /// How many pods are left.
    pub(super) left: u32,
}

/// A lot on its way through the pools.
#[derive(Debug)]
pub(super) struct Member<'b> {
    /// The lot that it was counted as.
    pub(super) counted: Rc<Lot>,
    /// The lot that is tried now: the same, or one in a further relaxation.
    pub(super) lot: Rc<Lot>,
    /// How many of its pods are left.
    pub(super) left: u32,
    /// The groups about single nodes that count its pods.
    pub(super) on_hosts: &'b [GroupId],
    /// Rules about single nodes in its relaxation.
    pub(super) rules: Vec<Rule>,
    /// The bin that it is in; none when it has been refused everywhere.
    pub(super) bin: Option<BinId>,
    /// The templates that were not tried yet.
    untried: TiSliceKeys<TemplateId>,
}

impl Member<'_> {
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

/// All bins, and the lots in them.
pub(super) struct Bins<'b> {
    pub(super) all: TiVec<BinId, Bin<'b>>,
    pub(super) members: TiVec<MemberId, Member<'b>>,
    known: FixedMap<(SelectionId, PodSize<'b>), BinId>,
}

impl<'b> Bins<'b> {
    /// Puts every lot into the bin of its first choice.
    pub(super) fn of(problem: &'b Problem<'_>, waiting: Vec<Waiting>) -> Self {
        let member = |it: Waiting| Member {
            on_hosts: &problem.on_hosts[it.lot.variant.class],
            counted: Rc::clone(&it.lot),
            lot: it.lot,
            left: it.count,
            rules: Vec::new(),
            bin: None,
            untried: problem.templates().keys(),
        };
        let members: TiVec<MemberId, _> = waiting.into_iter().map(member).collect();
        let all = members.keys();
        let mut bins = Self { all: TiVec::new(), members, known: FixedMap::default() };
        all.for_each(|member| bins.advance(problem, member));
        bins
    }

    /// Moves a lot on to its next choice: the pools in their order, then the next relaxation with
    /// all pools again.
    pub(super) fn advance(&mut self, problem: &'b Problem<'_>, member: MemberId) {
        self.leave(member);
        loop {
            let held = &mut self.members[member];
            let Some(template) = held.untried.next() else {
                let Some(next) = relaxed(problem, &held.lot) else { return };
                (held.lot, held.untried) = (next, problem.templates().keys());
                continue;
            };
            let lot = Rc::clone(&held.lot);
            if problem.templates()[template].is_static() {
                continue;
            }
            if let Some(home) = problem.home(&lot, template) {
                let rules = problem.rules_on_new(lot.variant).iter();
                held.rules = rules.filter(|rule| rule.is_per_host).copied().collect();
                let bin = self.bin(problem, &lot, &home);
                return self.join(member, bin);
            }
        }
    }

    fn leave(&mut self, member: MemberId) {
        if let Some(bin) = self.members[member].bin.take() {
            self.all[bin].members.retain(|other| *other != member);
            self.all[bin].left -= self.members[member].left;
        }
    }

    fn join(&mut self, member: MemberId, bin: BinId) {
        let members = &self.members;
        let order = |member: MemberId| (members[member].rules.is_empty(), member);
        let place = self.all[bin].members.partition_point(|other| order(*other) < order(member));
        self.all[bin].members.insert(place, member);
        self.all[bin].left += self.members[member].left;
        self.members[member].bin = Some(bin);
    }

    /// The bin of a lot on a template.
    fn bin(&mut self, problem: &'b Problem<'_>, lot: &Lot, home: &Home) -> BinId {
        let size = problem.size(lot.variant);
        *self.known.entry((home.selected.id, size)).or_insert_with(|| {
            let (selected, purchases) = (Rc::clone(&home.selected), home.purchases.clone());
            self.all.push_and_get_key(Bin { selected, size, purchases, members: Vec::new(), left: 0 })
        })
    }

    /// Takes pods of a lot.
    pub(super) fn take(&mut self, member: MemberId, count: u32) {
        let held = &mut self.members[member];
        held.left -= count;
        if let Some(bin) = held.bin {
            self.all[bin].left -= count;
            if held.left == 0 {
                self.all[bin].members.retain(|other| *other != member);
            }
        }
    }

    /// The bin to open a node for, of those with pods that need no others there: the one with the
    /// fewest offerings by its labels, so that those with more choice can fill its gaps, then the
    /// first in order.
    pub(super) fn lead(&self) -> Option<BinId> {
        let leads = |bin: &Bin<'_>| bin.members.iter().any(|member| !self.members[*member].follows());
        let waiting = self.all.iter_enumerated().filter(|(_, bin)| bin.left > 0 && leads(bin));
        let order = |bin: &Bin<'_>| {
            let class = bin.members.iter().map(|member| self.members[*member].lot.variant.class).min();
            (bin.selected.width, class)
        };
        waiting.min_by_key(|(_, bin)| order(bin)).map(|(id, _)| id)
    }

    /// What the pods that are left in the bins of one selection ask for.
    pub(super) fn demand(&self, selected: SelectionId, width: usize) -> Vec<f64> {
        let mut demand = vec![0.0; width];
        for bin in self.all.iter().filter(|bin| bin.selected.id == selected && bin.left > 0) {
            for (sum, amount) in demand.iter_mut().zip(bin.size.request) {
                *sum += *amount as f64 * f64::from(bin.left);
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
