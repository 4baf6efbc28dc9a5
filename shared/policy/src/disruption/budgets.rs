//! How many nodes of a pool may be disrupted now, and for which reason: Karpenter's budgets.

pub mod window;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_model::node_pool::{Budget, DisruptionReason};
use outrigger_model::{NodePool, Snapshot};

use super::drift;
use super::kept::WhyKept;
use super::managed_nodes::{ManagedNode, managed_nodes};
use window::Window;

/// The budgets of all pools, as they stand in a snapshot.
pub struct Budgets<'a> {
    pools: BTreeMap<&'a str, PoolNodes<'a>>,
    now: Timestamp,
}

/// A pool, and how its nodes count against its budgets.
struct PoolNodes<'a> {
    pool: &'a NodePool,
    /// Its initialised nodes whose instance is not being terminated; percentages are of these.
    pub nodes: usize,
    /// Those of its initialised nodes that are not ready or are leaving, for whatever reason.
    disrupting: usize,
    /// Those of its drifted nodes that a command holds or that are leaving.
    drifting: usize,
}

/// What one budget allows now.
enum Standing {
    /// Its hours are over, or yet to come.
    Shut,
    /// So many nodes at once.
    Allows(usize),
    /// None.
    Closed(Closed),
}

/// How many nodes of a pool may be disrupted now, for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// How many more nodes may be.
    pub remaining: usize,
    /// How many may be at once: the least that an active budget allows, or a wave of drift
    /// (`outrigger.dev/drift-at-once`).
    pub at_once: usize,
    /// How many of the pool's nodes are not ready or are leaving already.
    pub disrupting: usize,
    /// How long none may be at all; `None` where some may be at once.
    pub closed: Option<Closed>,
}

/// How long a budget allows no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closed {
    /// Until this time, when its hours are over.
    Until(Timestamp),
    /// For as long as it stands.
    Always,
    /// Until it is mended: its number, schedule or duration cannot be read.
    Unreadable,
}

impl Allowance {
    /// Why a node is kept; `None` where one more may be disrupted.
    pub fn kept(&self, now: Timestamp) -> Option<WhyKept> {
        let why = match self.closed {
            Some(closed) => WhyKept::BudgetClosed { closed, now, budget: String::new() },
            None => WhyKept::BudgetUsedUp { at_once: self.at_once },
        };
        (self.remaining == 0).then_some(why)
    }
}

impl<'a> Budgets<'a> {
    /// As a snapshot has them.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let none = |pool: &'a NodePool| {
            (pool.name.as_str(), PoolNodes { pool, nodes: 0, disrupting: 0, drifting: 0 })
        };
        let mut pools: BTreeMap<&str, PoolNodes<'_>> = snapshot.node_pools.iter().map(none).collect();
        for managed in managed_nodes(snapshot).iter().filter(|managed| managed.is_initialized()) {
            if let Some(pool_nodes) = pools.get_mut(managed.pool_name) {
                pool_nodes.nodes += usize::from(!managed.is_terminating());
                pool_nodes.disrupting += usize::from(is_disrupting(managed));
                pool_nodes.drifting += usize::from(is_drifting(managed, snapshot.taken_at));
            }
        }
        Self { pools, now: snapshot.taken_at }
    }

    /// How many nodes of a pool may be disrupted for a reason; none of a pool that is not known.
    pub fn allowance(&self, pool: &str, reason: DisruptionReason) -> Allowance {
        self.pools
            .get(pool)
            .map_or_else(Allowance::default, |pool_nodes| pool_nodes.allowance(reason, self.now))
    }

    /// The budget that allows the fewest nodes of a pool at once for a reason, in its fields.
    pub fn strictest(&self, pool: &str, reason: DisruptionReason) -> Option<String> {
        let pool_nodes = self.pools.get(pool)?;
        let allowing = pool_nodes.matching(reason).filter_map(|(index, budget)| {
            match pool_nodes.standing(budget, self.now) {
                Standing::Allows(nodes) => Some((nodes, index, budget)),
                Standing::Closed(_) => Some((0, index, budget)),
                Standing::Shut => None,
            }
        });
        let (_, index, budget) = allowing.min_by_key(|(nodes, index, _)| (*nodes, *index))?;
        Some(describe(index, budget))
    }

    /// Why a node of a pool is kept from disruption for a reason at all, with the budget that
    /// forbids it.
    pub fn closed(&self, pool: &str, reason: DisruptionReason) -> Option<WhyKept> {
        let pool_nodes = self.pools.get(pool)?;
        let closing = pool_nodes.matching(reason).filter_map(|(index, budget)| {
            match pool_nodes.standing(budget, self.now) {
                Standing::Closed(closed) => Some((closed, index, budget)),
                Standing::Shut | Standing::Allows(_) => None,
            }
        });
        let (closed, index, budget) = closing.max_by_key(|(closed, index, _)| (*closed, Reverse(*index)))?;
        Some(WhyKept::BudgetClosed { closed, now: self.now, budget: describe(index, budget) })
    }
}

/// Whether it has drifted and goes, or a command is to replace it: which command, and why, does not
/// matter.
fn is_drifting(managed: &ManagedNode<'_>, now: Timestamp) -> bool {
    (managed.command().is_some() || managed.is_leaving()) && !drift::reasons(managed, now).is_empty()
}

fn is_disrupting(managed: &ManagedNode<'_>) -> bool {
    !managed.node.ready || managed.is_leaving() || managed.is_held_now
}

impl PoolNodes<'_> {
    fn allowance(&self, reason: DisruptionReason, now: Timestamp) -> Allowance {
        let mut allowance =
            Allowance { at_once: self.nodes, disrupting: self.disrupting, ..Allowance::default() };
        for (_, budget) in self.matching(reason) {
            match self.standing(budget, now) {
                Standing::Shut => {}
                Standing::Allows(nodes) => allowance.at_once = allowance.at_once.min(nodes),
                Standing::Closed(closed) => {
                    (allowance.at_once, allowance.closed) = (0, allowance.closed.max(Some(closed)));
                }
            }
        }
        let mut remaining = allowance.at_once.saturating_sub(self.disrupting);
        if reason == DisruptionReason::Drifted {
            let wave = self.pool.disruption_wishes().drift_at_once.unwrap_or(usize::MAX);
            remaining = remaining.min(wave.saturating_sub(self.drifting));
            allowance.at_once = allowance.at_once.min(wave);
        }
        Allowance { remaining, ..allowance }
    }

    /// The budgets for a reason, each with its place in the pool's list.
    fn matching(&self, reason: DisruptionReason) -> impl Iterator<Item = (usize, &Budget)> {
        let budgets = self.pool.spec.disruption.budgets.iter().enumerate();
        budgets.filter(move |(_, budget)| {
            budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason))
        })
    }

    /// What a budget allows now.
    fn standing(&self, budget: &Budget, now: Timestamp) -> Standing {
        match (Window::of_budget(budget, now), self.count(budget)) {
            (Window::Unreadable, _) | (_, None) => Standing::Closed(Closed::Unreadable),
            (Window::Shut, _) => Standing::Shut,
            (_, Some(nodes)) if nodes > 0 => Standing::Allows(nodes),
            (Window::Open { until: Some(until) }, _) => Standing::Closed(Closed::Until(until)),
            (Window::Open { until: None }, _) => Standing::Closed(Closed::Always),
        }
    }

    /// How many nodes a budget allows at once; a percentage rounds up. `None` where it cannot be
    /// read.
    fn count(&self, budget: &Budget) -> Option<usize> {
        match budget.nodes.strip_suffix('%') {
            Some(percent) => {
                let percent: usize = percent.parse().ok()?;
                Some(self.nodes.saturating_mul(percent).div_ceil(100))
            }
            None => budget.nodes.parse().ok(),
        }
    }
}

/// A budget in its fields.
fn describe(index: usize, budget: &Budget) -> String {
    let mut text = format!("spec.disruption.budgets[{index}]: nodes {:?}", budget.nodes);
    let hours = budget.schedule.iter().map(|schedule| format!(", schedule {schedule:?}"));
    let hours = hours.chain(budget.duration.iter().map(|duration| format!(", duration {duration}")));
    text.extend(hours);
    if let Some(reasons) = &budget.reasons {
        let names: Vec<&str> = reasons.iter().map(|reason| reason.as_str()).collect();
        text.push_str(", reasons ");
        text.push_str(&names.join(" "));
    }
    text
}

#[cfg(test)]
mod tests;
