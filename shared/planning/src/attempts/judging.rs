//! How good a decision is, and what speaks for another attempt.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{Plan, Pod, Refusal, Report};

use super::{Attempt, Cause, Decision, Rank};
use crate::classes::PodClass;
use crate::packing::Packed;
use crate::placing::{Batch, Placed, Quotas};
use crate::templates::Template;
use crate::topology::{Rule, RuleKind};

/// How many classes are looked at.
const CLASSES_MAX: usize = 12;

/// What an attempt came to.
pub(super) struct Outcome<'a, 'b> {
    pub(super) placed: Placed<'a>,
    pub(super) found: Packed,
    pub(super) classes: &'b [PodClass<'a>],
    pub(super) templates: &'b [Template<'a>],
}

/// What comes before the price: wishes and the order of terms and pools. A decision that knows fewer types may give up more
/// of it, and is no better for being cheaper then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Concessions {
    /// The ways that were given up before the one in which each pod is placed.
    ways: u64,
    /// The pools that come before each pod's.
    pools: u64,
}

impl Concessions {
    pub(super) const fn are_within(self, other: Self) -> bool {
        self.ways <= other.ways && self.pools <= other.pools
    }
}

/// How good a plan is, and what speaks for another attempt.
pub(super) fn judged(plan: Plan, report: Report, pods: &[&Pod], outcome: Outcome<'_, '_>) -> Decision {
    let Outcome { placed, found, classes, templates } = outcome;
    let taken = taken(&placed.batches, &found);
    let broken = placed.balance.broken(&placed.batches, classes, &taken, |key, value| {
        found.drafts.iter().any(|draft| draft.may_have(&templates[draft.template], key, value))
    });
    let stuck = |kind: fn(RuleKind) -> bool| {
        placed.stuck.iter().filter_map(|stuck| stuck.rule).any(|rule| kind(rule.kind))
    };
    let is_unsettled = placed.batches.iter().any(Batch::is_unsettled)
        && (broken > 0 || stuck(|kind| matches!(kind, RuleKind::Spread { .. })));
    let spreads =
        |rule: &Rule| !rule.is_wish && !rule.is_per_host && matches!(rule.kind, RuleKind::Spread { .. });
    let not_spread = placed.stuck.iter().any(|stuck| {
        let ways = &classes[stuck.class].ways;
        ways.iter().flat_map(|way| &way.rules).any(spreads)
    });
    let causes = [
        (Cause::NotSpread, not_spread),
        (Cause::KeptApart, stuck(|kind| kind == RuleKind::Apart)),
        (Cause::NotNear, stuck(|kind| kind == RuleKind::Near)),
        (Cause::Unsettled, is_unsettled),
        (Cause::MaySpreadFirst, placed.may_spread_first),
    ];
    let limits = found.refusals.iter().filter_map(|(_, template, refusal)| match refusal {
        Refusal::Limit { resource, .. } => Some((templates[*template].rank, resource.clone())),
        _ => None,
    });
    let cost = plan.price().nanos().saturating_add(plan.node_price().nanos());
    let unplaced = unplaced(&report, pods);
    Decision {
        dispensable: if unplaced.is_empty() { Vec::new() } else { dispensable(classes) },
        rank: Rank { broken, unplaced, cost },
        attempt: Attempt::default(),
        concessions: concessions(&found, templates),
        causes: causes.into_iter().filter(|(_, holds)| *holds).map(|(cause, _)| cause).collect(),
        limits: limits.collect(),
        short: short(&placed.batches, &found, &taken),
        plan,
        report,
    }
}

fn concessions(found: &Packed, templates: &[Template<'_>]) -> Concessions {
    let mut sum = Concessions::default();
    for draft in &found.drafts {
        for portion in &draft.pods {
            sum.ways += portion.way as u64 * u64::from(portion.count);
            sum.pools += templates[draft.template].rank as u64 * u64::from(portion.count);
        }
    }
    sum
}

/// The classes of pods that no others must be near, or that are not the only ones for it.
fn dispensable(classes: &[PodClass<'_>]) -> Vec<usize> {
    let is_wanted = |class: usize| {
        let others = || classes.iter().enumerate().filter(|(other, _)| *other != class);
        let mut rules = others().flat_map(|(_, other)| &other.ways).flat_map(|way| &way.rules);
        rules.any(|rule| {
            !rule.is_wish
                && rule.kind == RuleKind::Near
                && classes[class].selected_by.contains(&rule.group)
                && !others().any(|(_, other)| other.selected_by.contains(&rule.group))
        })
    };
    (0..classes.len()).take(CLASSES_MAX).filter(|class| !is_wanted(*class)).collect()
}

/// How many pods without a place there are of each priority, from the highest down.
fn unplaced(report: &Report, pods: &[&Pod]) -> Vec<usize> {
    let unplaced: BTreeSet<_> = report.unplaced().map(|(pod, _)| pod).collect();
    if unplaced.is_empty() {
        return Vec::new();
    }
    let mut counts: BTreeMap<Reverse<i32>, usize> = BTreeMap::new();
    for pod in pods {
        *counts.entry(Reverse(pod.spec.priority)).or_default() += usize::from(unplaced.contains(&pod.id));
    }
    counts.into_values().collect()
}

/// How many pods of each batch have a node.
fn taken(batches: &[Batch<'_>], packed: &Packed) -> Vec<usize> {
    let mut taken = vec![0; batches.len()];
    for portion in packed.drafts.iter().flat_map(|draft| &draft.pods) {
        taken[portion.member] += portion.count as usize;
    }
    taken
}

/// The domains in which packing did not find nodes for all pods of a class.
fn short(batches: &[Batch<'_>], packed: &Packed, taken: &[usize]) -> Quotas {
    let mut short = Quotas::new();
    for (index, batch) in batches.iter().enumerate().filter(|(_, batch)| !batch.domains.is_empty()) {
        if taken[index] < batch.pods.len() && !packed.unreached[index] {
            *short.entry((batch.class, batch.domains.clone())).or_default() += taken[index];
        }
    }
    short
}
