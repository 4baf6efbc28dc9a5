//! The Solution: where the pods of a problem are, in a form that can be changed and changed back.

mod broken;
mod load;
mod node;
mod objective;
mod occupied;
mod quote;
mod rules;

use std::collections::BTreeMap;
use std::rc::Rc;

use typed_index_collections::{TiVec, ti_vec};

use crate::ids::{
    ClassId, DomainId, GroupId, KeyId, NewNodeId, NodeId, RelaxationId, TemplateId, TypeId, Variant,
};
use crate::problem::Problem;
use crate::problem::limits::LimitRow;
use crate::problem::lots::{Lot, standing};
use crate::problem::topology::{Counts, Rule, RuleKind};
pub(crate) use load::{Load, PodSize};
pub use node::{NewNode, Portion, Shape};
pub(crate) use objective::Objective;
pub(crate) use occupied::{Occupied, PlacedPods};
pub(crate) use quote::Quote;

/// Where the pods of a problem are.
#[derive(Clone)]
pub struct Solution<'p, 'a> {
    /// What it solves.
    pub problem: &'p Problem<'a>,
    /// The existing nodes, in the problem's order.
    pub existing: TiVec<NodeId, Rc<Occupied<'a>>>,
    /// The same with no pods but those that are meant for them already, which stay there.
    pinned: TiVec<NodeId, Rc<Occupied<'a>>>,
    /// Whether each existing node takes no pods now.
    pub(crate) closed: TiVec<NodeId, bool>,
    /// Whether each existing node is ended.
    pub ended: TiVec<NodeId, bool>,
    /// How many of the new nodes, the first ones, are those that static pools lack.
    pub(crate) static_nodes: usize,
    /// New nodes; none where one was given up.
    pub(crate) opened: TiVec<NewNodeId, Option<Rc<NewNode>>>,
    /// Pods of each group in each domain.
    pub counts: Counts,
    /// How many pods of each class have no place.
    pub(crate) unplaced: TiVec<ClassId, u32>,
    /// How many placed pods have each required spread, by domain.
    spread: BTreeMap<Spread, u32>,
    /// What each template holds of its limits.
    pub used: TiVec<TemplateId, LimitRow>,
    /// How many more instances each reservation has room for.
    reservations_remaining: BTreeMap<String, u32>,
    sums: Sums,
    /// Whether every pod was looked at before the time was up.
    pub is_complete: bool,
    /// Machines that are not bought now, as template and instance type.
    forbidden: Vec<(TemplateId, TypeId)>,
    log: Vec<Change<'a>>,
}

/// A required spread of pods in one domain.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Spread {
    group: GroupId,
    kind: RuleKind,
    selects_itself: bool,
    domain: DomainId,
}

/// What all placed pods and new nodes come to.
#[derive(Clone, Copy, Default)]
struct Sums {
    passed_over: u64,
    conceded: u64,
    lacking: u64,
    cost: u64,
}

/// Where pods are.
#[derive(Clone)]
pub enum At {
    /// On an existing node, in a relaxation.
    Existing(NodeId, RelaxationId),
    /// On a new node, or waiting for one, as a lot.
    Lot(Rc<Lot>),
}

/// What was changed, as it was before.
#[derive(Clone)]
enum Change<'a> {
    Existing(NodeId, Rc<Occupied<'a>>),
    Opened(NewNodeId, Option<Rc<NewNode>>),
    Counted(ClassId, At, i32),
    Unplaced(ClassId, u32),
    Ended(NodeId),
}

/// What becomes of what a new node holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Booking {
    Taken,
    Released,
}

/// A moment to go back to.
#[derive(Clone, Copy)]
pub struct Mark(usize);

impl<'p, 'a> Solution<'p, 'a> {
    /// No pod has a place.
    pub(crate) fn empty(problem: &'p Problem<'a>) -> Self {
        let pods = problem.classes.iter().zip(&problem.plannable);
        let existing: TiVec<_, _> =
            problem.existing.iter().map(|node| Rc::new(Occupied::new(node))).collect();
        Self {
            problem,
            pinned: existing.clone(),
            closed: ti_vec![false; existing.len()],
            ended: ti_vec![false; existing.len()],
            existing,
            static_nodes: 0,
            opened: TiVec::new(),
            counts: problem.running.clone(),
            unplaced: pods
                .map(|(class, plannable)| if *plannable && !class.is_fill() { class.count() } else { 0 })
                .collect(),
            spread: BTreeMap::new(),
            used: problem.limits.iter().map(|limits| limits.used.clone()).collect(),
            reservations_remaining: problem.reservations.clone(),
            sums: Sums {
                cost: problem.existing.iter().filter_map(|node| node.saves).sum(),
                ..Sums::default()
            },
            is_complete: false,
            forbidden: Vec::new(),
            log: Vec::new(),
        }
    }

    /// The moment to go back to later.
    pub fn mark(&self) -> Mark {
        Mark(self.log.len())
    }

    /// Undoes what was changed since a moment.
    pub fn go_back(&mut self, mark: Mark) {
        while self.log.len() > mark.0 {
            match self.log.pop() {
                Some(Change::Existing(node, before)) => self.existing[node] = before,
                Some(Change::Opened(node, before)) => self.exchange(node, before),
                Some(Change::Counted(class, at, by)) => self.recount(class, &at, -by),
                Some(Change::Unplaced(class, before)) => self.unplaced[class] = before,
                Some(Change::Ended(node)) => self.set_ended(node, false),
                None => break,
            }
        }
    }

    /// Undoes what was changed since the last commit.
    pub(crate) fn go_back_to_start(&mut self) {
        self.go_back(Mark(0));
    }

    /// Buys none of some machines, given as template and instance type, until this is called again.
    pub(crate) fn forbid(&mut self, machines: Vec<(TemplateId, TypeId)>) {
        self.forbidden = machines;
    }

    /// The existing nodes that have changed since the last commit, as they were then.
    pub(crate) fn changed_existing(&self) -> BTreeMap<NodeId, Rc<Occupied<'a>>> {
        let mut before = BTreeMap::new();
        for change in &self.log {
            if let Change::Existing(node, was) = change {
                before.entry(*node).or_insert_with(|| Rc::clone(was));
            }
        }
        before
    }

    /// Forgets how to go back.
    pub(crate) fn commit(&mut self) {
        self.log.clear();
    }

    /// Puts pods of a class onto an existing node.
    pub(crate) fn place_on_existing(&mut self, node: NodeId, variant: Variant, count: u32) {
        let mut changed = self.existing[node].as_ref().clone();
        changed.take(self.problem, variant, count);
        self.set_existing(node, changed);
        self.count(variant.class, At::Existing(node, variant.relaxation), count.cast_signed());
        self.set_unplaced(variant.class, self.unplaced[variant.class] - count);
    }

    /// Puts pods of a lot onto a new node, which then is as given.
    pub(crate) fn place_on_new(&mut self, node: NewNodeId, changed: NewNode, lot: &Rc<Lot>, count: u32) {
        self.set_opened(node, Some(Rc::new(changed)));
        self.count(lot.variant.class, At::Lot(Rc::clone(lot)), count.cast_signed());
        self.set_unplaced(lot.variant.class, self.unplaced[lot.variant.class] - count);
    }

    /// Opens a node whose pods were counted while they waited.
    pub(crate) fn open_counted(&mut self, node: Rc<NewNode>) {
        for portion in &node.pods {
            self.set_unplaced(
                portion.lot.variant.class,
                self.unplaced[portion.lot.variant.class] - portion.count,
            );
        }
        let id = self.opened.push_and_get_key(None);
        self.set_opened(id, Some(node));
    }

    /// A place for a further new node.
    pub(crate) fn next_new(&mut self) -> NewNodeId {
        let vacant = self.opened.position(Option::is_none);
        vacant.unwrap_or_else(|| self.opened.push_and_get_key(None))
    }

    /// Gives up a new node; its pods have no place.
    pub(crate) fn close(&mut self, node: NewNodeId) {
        let Some(closed) = self.opened[node].clone() else { return };
        self.set_opened(node, None);
        for portion in &closed.pods {
            let class = portion.lot.variant.class;
            self.count(class, At::Lot(Rc::clone(&portion.lot)), -portion.count.cast_signed());
            self.set_unplaced(class, self.unplaced[class] + portion.count);
        }
    }

    /// Pods that are placed on existing nodes now stay there.
    pub(crate) fn pin_placed(&mut self) {
        self.pinned.clone_from(&self.existing);
    }

    /// Takes the pods that were placed on an existing node off it, unless they were meant for it.
    pub(crate) fn vacate(&mut self, node: NodeId) {
        let before = Rc::clone(&self.existing[node]);
        let pinned = Rc::clone(&self.pinned[node]);
        self.set_existing(node, pinned.as_ref().clone());
        for pods in &before.pods {
            let out = pods.count - pinned.count(pods.variant);
            self.count(pods.variant.class, At::Existing(node, pods.variant.relaxation), -out.cast_signed());
            self.set_unplaced(pods.variant.class, self.unplaced[pods.variant.class] + out);
        }
    }

    /// Ends an existing node that may be ended; its pods have no place.
    pub fn end(&mut self, node: NodeId) {
        self.vacate(node);
        self.set_ended(node, true);
        self.log.push(Change::Ended(node));
    }

    fn set_ended(&mut self, node: NodeId, ended: bool) {
        self.ended[node] = ended;
        let saved = self.problem.existing[node].saves.unwrap_or(0);
        let cost = &mut self.sums.cost;
        *cost = if ended { *cost - saved } else { *cost + saved };
    }

    /// Puts a node in the place of another that differs in having lost some pods.
    pub(crate) fn exchange_for(&mut self, id: NewNodeId, node: Rc<NewNode>, out: &[Portion]) {
        self.set_opened(id, Some(node));
        for portion in out {
            let class = portion.lot.variant.class;
            self.count(class, At::Lot(Rc::clone(&portion.lot)), -portion.count.cast_signed());
            self.set_unplaced(class, self.unplaced[class] + portion.count);
        }
    }

    /// Two new nodes of a pool as one, with what that saves in nano-dollars per hour; none where
    /// they cannot be one, or where that saves nothing.
    pub(crate) fn merged(&self, into: NewNodeId, from: NewNodeId) -> Option<(u64, NewNode)> {
        let (a, b) = (self.opened[into].as_ref()?, self.opened[from].as_ref()?);
        let template = a.shape.template;
        let mut pods = a.pods.clone();
        for portion in &b.pods {
            match pods.iter_mut().find(|merged| Rc::ptr_eq(&merged.lot, &portion.lot)) {
                Some(merged) => merged.count += portion.count,
                None => pods.push(portion.clone()),
            }
        }
        let node = self.node_of(template, pods, Some(a)).filter(|_| b.shape.template == template)?;
        let saved = (a.cost(self.problem) + b.cost(self.problem)).checked_sub(node.cost(self.problem))?;
        let is_better = saved > 0 && node.quote.lacking <= a.quote.lacking + b.quote.lacking;
        is_better.then_some((saved, node))
    }

    /// Puts a node that carries the pods of two new ones in the place of both.
    pub(crate) fn merge(&mut self, into: NewNodeId, from: NewNodeId, node: NewNode) {
        self.set_opened(from, None);
        self.set_opened(into, Some(Rc::new(node)));
    }

    /// The new nodes that were not given up.
    pub fn new_nodes(&self) -> impl Iterator<Item = (NewNodeId, &Rc<NewNode>)> {
        self.opened.iter_enumerated().filter_map(|(id, node)| Some((id, node.as_ref()?)))
    }

    /// Counts pods that have, or wait for, a place; or no longer.
    pub(crate) fn count(&mut self, class: ClassId, at: At, by: i32) {
        self.recount(class, &at, by);
        self.log.push(Change::Counted(class, at, by));
    }

    fn set_existing(&mut self, node: NodeId, changed: Occupied<'a>) {
        let before = std::mem::replace(&mut self.existing[node], Rc::new(changed));
        self.log.push(Change::Existing(node, before));
    }

    fn set_opened(&mut self, node: NewNodeId, changed: Option<Rc<NewNode>>) {
        self.log.push(Change::Opened(node, self.opened[node].clone()));
        self.exchange(node, changed);
    }

    fn set_unplaced(&mut self, class: ClassId, unplaced: u32) {
        self.log.push(Change::Unplaced(class, self.unplaced[class]));
        self.unplaced[class] = unplaced;
    }

    /// Puts a new node in the place of another, with all that it holds.
    fn exchange(&mut self, id: NewNodeId, node: Option<Rc<NewNode>>) {
        if let Some(before) = std::mem::replace(&mut self.opened[id], node) {
            self.book(&before, Booking::Released);
        }
        if let Some(now) = self.opened[id].clone() {
            self.book(&now, Booking::Taken);
        }
    }

    fn book(&mut self, node: &NewNode, booking: Booking) {
        let is_new = booking == Booking::Taken;
        let template = node.shape.template;
        if !self.problem.limits[template].are_absent() {
            let used = &mut self.used[template];
            if is_new { used.add(&node.reserved) } else { used.subtract(&node.reserved) }
        }
        if let Some(remaining) =
            node.reservation.as_ref().and_then(|id| self.reservations_remaining.get_mut(id))
        {
            *remaining = if is_new { remaining.saturating_sub(1) } else { *remaining + 1 };
        }
        let sums = &mut self.sums;
        let add = |sum: &mut u64, amount: u64| *sum = if is_new { *sum + amount } else { *sum - amount };
        add(&mut sums.passed_over, node.passed_over(self.problem));
        add(&mut sums.lacking, u64::from(node.quote.lacking));
        add(&mut sums.cost, node.cost(self.problem));
    }

    fn recount(&mut self, class: ClassId, at: &At, by: i32) {
        let problem = self.problem;
        let pod_class = &problem.classes[class];
        let relaxation = match at {
            At::Existing(_, relaxation) => *relaxation,
            At::Lot(lot) => lot.variant.relaxation,
        };
        let rules = &pod_class.relaxations[relaxation].rules;
        let domain = |key: KeyId| match at {
            At::Existing(node, _) => problem.existing_domains[*node][key],
            At::Lot(lot) => lot.domain(key),
        };
        let doubts = match at {
            At::Existing(node, _) => &problem.existing_doubts[*node],
            At::Lot(lot) => &lot.doubts,
        };
        let counted = |group| standing(doubts, group);
        self.counts.change(&problem.topology, rules, &pod_class.selected_by, by, domain, counted);
        if let At::Existing(node, _) = at {
            self.counts.change_open(
                &problem.topology,
                &pod_class.selected_by,
                by,
                &problem.existing_open[*node],
            );
        }
        let conceded = u64::from(by.unsigned_abs()) * usize::from(relaxation) as u64;
        let sum = &mut self.sums.conceded;
        *sum = if by < 0 { sum.saturating_sub(conceded) } else { *sum + conceded };
        let spreads = |rule: &&Rule| !rule.is_preference && matches!(rule.kind, RuleKind::Spread { .. });
        for rule in rules.iter().filter(spreads) {
            let Some(domain) = problem.topology.key_of[rule.group].and_then(domain) else { continue };
            let Rule { group, kind, selects_itself, .. } = *rule;
            let count = self.spread.entry(Spread { group, kind, selects_itself, domain }).or_default();
            *count = count.saturating_add_signed(by);
        }
    }
}
