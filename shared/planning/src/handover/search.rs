//! The search for the way of opening nodes in which kube-scheduler, by a rehearsal, leaves the fewest pods without one.
//!
//! It starts from the rules, and again from the rules with one crowded pod of each kind nominated for each node, and changes the
//! soft taints of few nodes at a time: of those whose pods were left over, of those whose pods took their room, and then of any
//! other. Where kube-scheduler throws dice between equal nodes, a way must do well for several throws: one that it fails with
//! joins those that it is judged by. The search ends when nobody is left over, or it has looked at enough nodes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use super::rehearsal::{Direction, Ending, Rehearsal};
use crate::Options;

/// The most soft taints that a node has. Each is worth as much to kube-scheduler as most of a node's room.
const TAINTS_MAX: u8 = 3;
/// How many nodes are looked at: some half a second.
const LOOKS_MAX: usize = 60_000_000;
/// How often the opening is rehearsed at most, where it needs few looks.
const PLAYS_MAX: usize = 4_000;
/// With how many throws of the dice a way is tried that nobody was left over with so far.
const THROWS: usize = 32;
/// By how many of them a way is judged at first, and at most.
const THROWS_AT_FIRST: usize = 2;
const THROWS_MAX: usize = 8;
/// How many nodes get other taints when nothing helps any more.
const KICKED: usize = 3;

/// The best way that is found, and how it ends with the worst of the throws that it was judged by.
pub(super) fn best(
    rehearsal: &Rehearsal<'_>,
    rules: Direction,
    crowded: &[bool],
    options: &Options<'_>,
) -> (Direction, Ending) {
    let with_firsts = with_firsts(rehearsal, &rules, crowded);
    let parts = rehearsal.pods.iter().zip(crowded).filter(|(_, is_crowded)| **is_crowded);
    let nodes: BTreeSet<usize> = parts.map(|(part, _)| part.node).collect();
    let nodes: Vec<usize> = nodes.into_iter().collect();
    let effort = Effort::of(rehearsal, options);
    let mut best = Search::from(&effort, rules);
    best.descend(&nodes);
    if best.goes_on() {
        let mut other = Search::from(&effort, with_firsts);
        other.descend(&nodes);
        if other.ending.missing < best.ending.missing {
            best = other;
        }
    }
    // A fixed sequence: the same plan is tried out in the same ways.
    let mut sequence = Sequence(1);
    while best.goes_on() || best.meets_a_throw_that_it_fails_with() {
        let mut next = best.kicked(&nodes, &mut sequence);
        next.descend(&nodes);
        if next.ending.missing <= best.ending.missing {
            best = next;
        }
    }
    (best.direction, best.ending)
}

/// Numbers that are spread as if by chance (Knuth's MMIX generator).
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or_default() % end.max(1)
    }
}

/// The same, with the first crowded pod of each kind nominated for each node: one alone finds no sibling there that would
/// refuse it.
fn with_firsts(rehearsal: &Rehearsal<'_>, rules: &Direction, crowded: &[bool]) -> Direction {
    let mut next = rules.clone();
    let mut known = BTreeSet::new();
    for (pod, part) in rehearsal.pods.iter().enumerate().filter(|(pod, _)| crowded[*pod]) {
        next.nominated[pod] = known.insert((part.node, part.kind));
    }
    next
}

/// What is rehearsed, with which throws, and how much was done so far.
struct Effort<'r, 'a> {
    rehearsal: &'r Rehearsal<'a>,
    options: &'r Options<'r>,
    throws: RefCell<Vec<usize>>,
    plays: Cell<usize>,
    looks: Cell<usize>,
}

impl<'r, 'a> Effort<'r, 'a> {
    fn of(rehearsal: &'r Rehearsal<'a>, options: &'r Options<'r>) -> Self {
        let throws = RefCell::new((0..THROWS_AT_FIRST).collect());
        Self { rehearsal, options, throws, plays: Cell::new(0), looks: Cell::new(0) }
    }

    fn is_over(&self) -> bool {
        self.plays.get() >= PLAYS_MAX || self.looks.get() >= LOOKS_MAX || (self.options.time_is_up)()
    }

    /// The worst ending, with what is missing in all of them.
    fn play(&self, direction: &Direction) -> Ending {
        let endings =
            self.throws.borrow().iter().map(|throw| self.throw(direction, *throw)).collect::<Vec<_>>();
        let missing = endings.iter().map(|ending| ending.missing).sum();
        let worst = endings.into_iter().max_by_key(|ending| ending.missing);
        Ending { missing, ..worst.unwrap_or_default() }
    }

    fn throw(&self, direction: &Direction, throw: usize) -> Ending {
        let ending = self.rehearsal.play(direction, throw);
        self.plays.set(self.plays.get() + 1);
        self.looks.set(self.looks.get() + ending.looks);
        ending
    }
}

struct Search<'e, 'r, 'a> {
    effort: &'e Effort<'r, 'a>,
    direction: Direction,
    ending: Ending,
}

impl<'e, 'r, 'a> Search<'e, 'r, 'a> {
    fn from(effort: &'e Effort<'r, 'a>, direction: Direction) -> Self {
        let ending = effort.play(&direction);
        Self { effort, direction, ending }
    }

    fn goes_on(&self) -> bool {
        !self.ending.left.is_empty() && !self.effort.is_over()
    }

    /// Looks for another throw that leaves somebody over. It is judged by this one, too, from now on.
    fn meets_a_throw_that_it_fails_with(&mut self) -> bool {
        let known = self.effort.throws.borrow().clone();
        if known.len() >= THROWS_MAX || self.effort.is_over() {
            return false;
        }
        let mut others = (0..THROWS).filter(|throw| !known.contains(throw));
        let Some(failed) = others.find(|throw| !self.effort.throw(&self.direction, *throw).left.is_empty())
        else {
            return false;
        };
        self.effort.throws.borrow_mut().push(failed);
        self.ending = self.effort.play(&self.direction);
        true
    }

    /// Takes what is better until nothing is.
    fn descend(&mut self, nodes: &[usize]) {
        while self.goes_on() && (self.spare_the_short() || self.try_each(nodes)) {}
    }

    /// Somewhere near, for better or worse.
    fn kicked(&self, nodes: &[usize], sequence: &mut Sequence) -> Self {
        let mut direction = self.direction.clone();
        for _ in 0..KICKED {
            let taints = sequence.below(usize::from(TAINTS_MAX) + 1);
            let node = nodes.get(sequence.below(nodes.len())).copied().unwrap_or_default();
            direction.taints[node] = u8::try_from(taints).unwrap_or_default();
        }
        Self::from(self.effort, direction)
    }

    /// Changes taints of the nodes whose pods were left over, and of those whose pods are there instead.
    fn spare_the_short(&mut self) -> bool {
        let more = |taints: u8| (taints + 1).min(TAINTS_MAX);
        let short = self.short();
        let mut is_better = self.try_taints(&short, more);
        for node in self.short() {
            is_better |= self.try_taints(&[node], more);
        }
        for node in self.short() {
            for other in self.planned_elsewhere(node) {
                is_better |= self.try_taints(&[other], |taints| taints.saturating_sub(1));
                is_better |= self.try_taints(&[other], more);
            }
        }
        is_better
    }

    fn try_each(&mut self, nodes: &[usize]) -> bool {
        let mut is_better = false;
        for node in nodes {
            for taints in 0..=TAINTS_MAX {
                is_better |= self.try_taints(&[*node], |_| taints);
            }
        }
        is_better
    }

    /// The planned nodes of the pods without one.
    fn short(&self) -> Vec<usize> {
        let pods = &self.effort.rehearsal.pods;
        let nodes: BTreeSet<usize> = self.ending.left.iter().map(|pod| pods[*pod].node).collect();
        nodes.into_iter().collect()
    }

    /// The planned nodes of the pods that came to this one instead.
    fn planned_elsewhere(&self, node: usize) -> BTreeSet<usize> {
        let pods = self.effort.rehearsal.pods.iter().zip(&self.ending.nodes);
        let here = pods.filter(|(_, on)| **on == Some(node));
        here.map(|(part, _)| part.node).filter(|planned| *planned != node).collect()
    }

    /// Takes other soft taints for some nodes where that comes to a better end.
    fn try_taints(&mut self, nodes: &[usize], taints: impl Fn(u8) -> u8) -> bool {
        let mut next = self.direction.clone();
        for node in nodes {
            next.taints[*node] = taints(next.taints[*node]);
        }
        if !self.goes_on() || next == self.direction {
            return false;
        }
        let ending = self.effort.play(&next);
        let is_better = ending.missing < self.ending.missing;
        if is_better {
            (self.direction, self.ending) = (next, ending);
        }
        is_better
    }
}
