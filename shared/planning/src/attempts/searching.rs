//! Attempts that nothing but their result speaks for, where there are few pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrigger_model::resources::CPU;
use outrigger_model::{CapacityType, Plan, Quantity, Snapshot};

use super::{Attempt, Decision, Finish, Opening, Question, within};
use crate::placing::{Order, Quotas};

/// The orders in which pods are promised nodes one after another.
const SERIAL_ORDERS: [Order; 4] = [Order::Queue, Order::KeepingApart, Order::KeptApart, Order::SmallestFirst];

/// How many sizes below the largest machine of a plan are tried as the largest.
const SMALLER_MAX: usize = 3;
/// How many types are left out at most, and how many are tried: as many as keep the pods of all tries within a number.
const TYPES_LEFT_OUT_MAX: usize = 2;
const TYPES_TRIED_MAX: usize = 12;
const PODS_TRIED_MAX: usize = 1_000;
/// How many families and sizes of types are left out, one at a time.
const KINDS_TRIED_MAX: usize = 16;
/// Few pods are at most one of so many.
const FEW_OF: usize = 10;
/// How many classes may be left out for others.
const LEFT_OUT_MAX: usize = 2;

impl Question<'_, '_> {
    /// Attempts without the largest machines of the best plan. What is best for the first nodes need not be for all: large
    /// machines that cost least for what they carry leave remainders that cost more.
    pub(super) fn with_smaller_machines(&self, mut best: Decision, base: &Attempt) -> Decision {
        let types = self.snapshot.classes.iter().flat_map(|offer| offer.instance_types.iter());
        let cpu_of: BTreeMap<&str, Quantity> =
            types.map(|kind| (kind.name.as_str(), kind.counted().get(CPU))).collect();
        let sizes: BTreeSet<Quantity> = cpu_of.values().copied().collect();
        let cheapest = best.plan.nodes.iter().filter_map(|node| node.instance_types.first());
        let Some(mut largest) = cheapest.filter_map(|kind| cpu_of.get(kind.name.as_str())).max().copied()
        else {
            return best;
        };
        for _ in 0..SMALLER_MAX {
            let Some(size) = sizes.range(..largest).next_back() else { break };
            largest = *size;
            if (self.options.time_is_up)() {
                break;
            }
            let found = self.tried(Attempt { largest: Some(largest), ..base.clone() });
            if self.concedes_no_more(&found, &best) {
                best = best.or(found);
            }
        }
        best
    }

    /// Attempts without one type or another that the best plan buys. A type that carries some pods for little tempts others
    /// onto it whose nodes then cost more than elsewhere.
    pub(super) fn without_types(&self, mut best: Decision, base: &Attempt) -> Decision {
        let mut without = BTreeSet::new();
        let mut tries = (PODS_TRIED_MAX / self.pods.len().max(1)).min(TYPES_TRIED_MAX);
        for _ in 0..TYPES_LEFT_OUT_MAX {
            let bought = best.plan.nodes.iter().filter_map(|node| node.instance_types.first());
            let bought: BTreeSet<String> = bought.map(|kind| kind.name.clone()).collect();
            let mut next = None;
            for name in bought {
                if tries == 0 || (self.options.time_is_up)() {
                    return best;
                }
                tries -= 1;
                let mut fewer: BTreeSet<String> = without.clone();
                if !fewer.insert(name) {
                    continue;
                }
                let found = self.tried(Attempt { without: fewer.clone(), ..base.clone() });
                if found.rank < best.rank && self.concedes_no_more(&found, &best) {
                    (best, next) = (found, Some(fewer));
                }
            }
            let Some(fewer) = next else { break };
            without = fewer;
        }
        best
    }

    /// Attempts without one family of types or another that the best plan buys, and without one size or another, where pods
    /// have no place although they may have one. A node that takes the pods which fit it best may take those that a rule or
    /// a limit lets the others be beside.
    pub(super) fn without_kinds(&self, mut best: Decision) -> Decision {
        let mut without = BTreeSet::new();
        let mut tries = KINDS_TRIED_MAX;
        loop {
            let like = Attempt { quotas: Quotas::new(), ..best.attempt.clone() };
            let mut next = None;
            for kind in self.kinds(&best.plan) {
                if best.rank.unplaced.is_empty() || tries == 0 || (self.options.time_is_up)() {
                    return best;
                }
                tries -= 1;
                let fewer: BTreeSet<String> = without.union(&kind).cloned().collect();
                for attempt in in_several_orders(&Attempt { without: fewer.clone(), ..like.clone() }) {
                    let found = self.tried(attempt);
                    if found.places_more_than(&best) {
                        (best, next) = (found, Some(fewer.clone()));
                    }
                }
            }
            let Some(fewer) = next else { return best };
            without = fewer;
        }
    }

    /// All attempts once more among every other type, and among the rest, where limits keep a few pods out: each step takes what is
    /// best for the pods at hand, and from other types it comes to other nodes.
    pub(super) fn in_halves(&self, mut best: Decision) -> Decision {
        let types = self.snapshot.classes.iter().flat_map(|offer| offer.instance_types.iter());
        let names: BTreeSet<&str> = types.map(|kind| kind.name.as_str()).collect();
        for half in 0..2 {
            let unplaced: usize = best.rank.unplaced.iter().sum();
            let is_worth_it = unplaced > 0 && unplaced * FEW_OF <= self.pods.len();
            if self.is_part || !is_worth_it || (self.options.time_is_up)() {
                break;
            }
            let left_out = names.iter().enumerate().filter(|(index, _)| index % 2 != half);
            let mut without: BTreeSet<String> = left_out.map(|(_, name)| (*name).to_owned()).collect();
            let part = without_types(self.snapshot, &without);
            let found = Question { snapshot: &part, is_part: true, ..*self }.best();
            if found.places_more_than(&best) {
                without.extend(found.attempt.without.iter().cloned());
                let among_all = self.decide(&Attempt { without, ..found.attempt });
                if among_all.places_more_than(&best) {
                    best = among_all;
                }
            }
        }
        best
    }

    /// The types of each family and of each size that a plan buys.
    fn kinds(&self, plan: &Plan) -> Vec<BTreeSet<String>> {
        let bought = plan.nodes.iter().filter_map(|node| node.instance_types.first());
        let parts: BTreeSet<(usize, &str)> = bought
            .filter_map(|kind| kind.name.split_once('.'))
            .flat_map(|(family, size)| [(0, family), (1, size)])
            .collect();
        let all = || self.snapshot.classes.iter().flat_map(|offer| offer.instance_types.iter());
        let is_of = |name: &str, (place, part): (usize, &str)| name.split('.').nth(place) == Some(part);
        let of = |part| {
            all().map(|kind| kind.name.as_str()).filter(|name| is_of(name, part)).map(str::to_owned).collect()
        };
        parts.into_iter().map(of).collect()
    }

    /// The best attempt once more, with the pods of a few nodes packed anew in the end; and where limits bind the same with
    /// pods promised nodes the other way round, from which packing anew may come further.
    pub(super) fn renewed(&self, mut best: Decision) -> Decision {
        if best.plan.nodes.is_empty() || (self.options.time_is_up)() {
            return best;
        }
        let renewed = Attempt { finish: Finish::Renewed, ..best.attempt.clone() };
        // Pods that are packed anew may share a node of a pool that another of them is in, as with Karpenter.
        let found = self.decide(&renewed);
        if self.lacking(&found.plan) <= self.lacking(&best.plan) {
            best = best.or(found);
        }
        if !renewed.tight {
            return best;
        }
        let opening = renewed.opening.other();
        let other = Attempt { opening, surcharges: Vec::new(), order: Order::default(), ..renewed };
        let found = self.decide(&other);
        if self.concedes_no_more(&found, &best) {
            best = best.or(found);
        }
        best
    }

    /// Attempts in which pods are promised nodes one after another: in Karpenter's order, so that what it has a place for
    /// has one here, and in ours.
    pub(super) fn one_after_another(
        &self,
        mut best: Decision,
        bound: &BTreeSet<(usize, String)>,
        base: &mut Attempt,
    ) -> Decision {
        // Where all have a place, one such attempt may be cheaper; the others are for those without.
        let is_whole = best.rank.unplaced.is_empty() && best.rank.broken == 0;
        let orders = if is_whole { &SERIAL_ORDERS[..1] } else { &SERIAL_ORDERS };
        let last = base.last.clone();
        let with_last = |of: Attempt| Attempt { last: last.clone(), ..of };
        let bases = if bound.is_empty() { vec![base.clone()] } else { within(bound) };
        for of in bases.into_iter().map(with_last) {
            for order in orders.iter().copied() {
                if (self.options.time_is_up)() {
                    return best;
                }
                let attempt = Attempt { order, opening: Opening::Serial, ..of.clone() };
                let found = self.decide(&attempt);
                if found.places_more_than(&best) {
                    *base = attempt;
                } else if !self.concedes_no_more(&found, &best) {
                    continue;
                }
                best = best.or(found);
            }
        }
        best
    }

    /// Whether a decision gives up no more than another of what comes before the price.
    fn concedes_no_more(&self, found: &Decision, best: &Decision) -> bool {
        found.concessions.are_within(best.concessions)
            && self.lacking(&found.plan) <= self.lacking(&best.plan)
    }

    /// How many types the spot nodes of a plan lack of those that they should offer.
    fn lacking(&self, plan: &Plan) -> usize {
        let spot = plan.nodes.iter().filter(|node| node.capacity_type == CapacityType::Spot);
        spot.map(|node| self.options.spot_types_min.saturating_sub(node.instance_types.len())).sum()
    }

    /// Attempts without one class of pods or another, where that lets more of the others have a place.
    pub(super) fn leaving_out(&self, mut best: Decision, base: &Attempt) -> Decision {
        let mut attempt = base.clone();
        while attempt.left_out.len() < LEFT_OUT_MAX {
            let mut next = None;
            for class in best.dispensable.clone() {
                if (self.options.time_is_up)() {
                    return best;
                }
                let mut without = attempt.clone();
                if !without.left_out.insert(class) {
                    continue;
                }
                let queued = Attempt { order: Order::Queue, opening: Opening::Serial, ..without.clone() };
                for found in [self.tried(without), self.decide(&queued)] {
                    if found.rank < best.rank {
                        (best, next) = (found, Some(class));
                    }
                }
            }
            let Some(class) = next else { break };
            attempt.left_out.insert(class);
        }
        best
    }
}

/// The same world, in which some types are not sold.
fn without_types(snapshot: &Snapshot, without: &BTreeSet<String>) -> Snapshot {
    let mut part = snapshot.clone();
    for offer in &mut part.classes {
        let sold = offer.instance_types.iter().filter(|kind| !without.contains(&kind.name));
        offer.instance_types = Arc::new(sold.cloned().collect());
    }
    part
}

/// An attempt in its own order, in both orders of pods that keep others away and those others, and with pods promised nodes
/// one after another.
fn in_several_orders(attempt: &Attempt) -> Vec<Attempt> {
    let of = |order: Order| Attempt { order, opening: Opening::Together, ..attempt.clone() };
    let serial = Attempt { order: Order::Queue, opening: Opening::Serial, ..attempt.clone() };
    let mut orders = vec![attempt.order, Order::KeepingApart, Order::KeptApart];
    orders.sort_by_key(|order| *order != attempt.order);
    orders.dedup();
    orders.into_iter().map(of).chain([serial]).collect()
}
