//! In which order the classes are placed.

use std::cmp::Reverse;

use super::Work;
use crate::classes::PodClass;
use crate::topology::{Rule, RuleKind};

/// Who comes first of pods that want none of some others in their domain, and those others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// Those with the rule, so that there still is a domain without the others.
    #[default]
    KeepingApart,
    /// The others, which then keep to as few domains as they can. Pods that must be near others come before those whose
    /// spread counts them.
    KeptApart,
    /// Those whose spread counts others; the others then go where they cost least.
    SpreadFirst,
    /// The same, but those with the spread go where it is dearest: the others then are where it is cheapest, however many.
    SpreadAside,
    /// As at first, but pods that others must be near are in as many domains as they can.
    NearEverywhere,
    /// As at first, but pods that others' spread counts go where the pods with that spread cannot be, if they can: that
    /// lifts the least, and so what those may be.
    Lifting,
    /// Karpenter's queue: by size alone, whatever the rules.
    Queue,
    /// The other way round: where not all have a place, more small ones have.
    SmallestFirst,
}

impl Order {
    /// Whether pods that others' spread counts come after those, and go where they cost least.
    pub(super) const fn frees_counted(self) -> bool {
        matches!(self, Self::SpreadFirst | Self::SpreadAside)
    }
}

impl Work<'_, '_> {
    /// The classes in the order in which they are placed: pods that only other pods' rules count go where they like, and
    /// those with the rules find out where that is. Pods that must be near others come last. By size, no rule is asked.
    pub(super) fn order(&mut self, plannable: &[bool]) -> Vec<usize> {
        let mut order: Vec<usize> = (0..plannable.len()).filter(|class| plannable[*class]).collect();
        let priority = |class: &usize| Reverse(self.of.classes[*class].spec.priority);
        match self.of.order {
            Order::Queue => return order,
            Order::SmallestFirst => {
                order.sort_by_key(|class| (priority(class), Reverse(*class)));
                return order;
            }
            _ => {}
        }
        let turns: Vec<(u8, usize)> = (0..plannable.len()).map(|class| self.turn(class)).collect();
        order.sort_by_key(|class| (Reverse(self.of.classes[*class].spec.priority), turns[*class]));
        order
    }

    /// The turn of a class and, where its domain matters, how many it may be in: those with the fewest come first.
    fn turn(&mut self, class: usize) -> (u8, usize) {
        let turn = self.kind(&self.of.classes[class]);
        let ways = self.of.classes[class].ways.len();
        let matters = turn != UNCOUNTED && ways > 0;
        (turn, if matters { self.options(class, ways - 1).len() } else { 0 })
    }

    fn kind(&self, class: &PodClass<'_>) -> u8 {
        let counts = &self.of.counts;
        let required = || class.ways.iter().flat_map(|way| &way.rules).filter(|rule| !rule.is_wish);
        let is_own = |group: usize| required().any(|rule: &Rule| rule.group == group);
        if required().any(|rule| rule.kind == RuleKind::Near) {
            let is_spread = |group: usize| counts.spreads[group] && !is_own(group);
            let is_counted = class.selected_by.iter().any(|group| is_spread(*group));
            let is_here = |rule: &Rule| rule.kind == RuleKind::Near && counts.total(rule.group) > 0;
            match self.of.order {
                _ if required().any(|rule| rule.is_per_host && is_here(rule)) => NEAR_RUNNING,
                Order::KeptApart if is_counted => NEAR_AND_SPREAD,
                _ => NEAR,
            }
        } else if required().any(|rule| rule.kind == RuleKind::Apart && !rule.is_per_host) {
            if self.of.order == Order::KeptApart { APART_LAST } else { APART }
        } else if required().any(|rule| !rule.is_per_host) {
            SPREAD
        } else if self.of.order.frees_counted() && self.is_spread(class) {
            COUNTED_LAST
        } else if class.selected_by.iter().any(|group| counts.binds[*group]) {
            COUNTED
        } else {
            UNCOUNTED
        }
    }
}

impl Work<'_, '_> {
    /// Whether the required spread of some pods counts a class.
    fn is_spread(&self, class: &PodClass<'_>) -> bool {
        class.selected_by.iter().any(|group| self.of.counts.spreads[*group])
    }

    /// Whether it matters if pods with a spread come before others that it counts.
    pub(super) fn may_spread_first(&self) -> bool {
        self.of.classes.iter().any(|class| self.kind(class) == COUNTED && self.is_spread(class))
    }
}

/// Those that must be on a node with pods that run, before others take its room.
const NEAR_RUNNING: u8 = 0;
const APART: u8 = 1;
const COUNTED: u8 = 2;
const UNCOUNTED: u8 = 3;
const NEAR_AND_SPREAD: u8 = 4;
const SPREAD: u8 = 5;
const APART_LAST: u8 = 6;
const COUNTED_LAST: u8 = 7;
const NEAR: u8 = 8;
