//! How many nodes commands end at once: no more than the budgets of their pool allow (Karpenter's
//! `spec.disruption.budgets`).

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::node_pool::{Budget, DisruptionReason};
use outrigger_model::{ClaimState, Command, Node, NodePool};
use outrigger_policy::disruption::Consolidation;
pub(super) use outrigger_policy::disruption::budgets::window::Window;
use outrigger_policy::leaving::replacement;

use super::Numbered;
use crate::Violation;
use crate::cluster_state::ClusterState;

/// Checks each command by itself, and all together that start now.
pub(super) fn check(consolidation: &Consolidation, cluster: &ClusterState<'_>, out: &mut Vec<Violation>) {
    let held =
        replacement::held(&cluster.snapshot.claims, &cluster.snapshot.commands, cluster.snapshot.taken_at);
    let held: BTreeSet<&str> = held.map(|claim| claim.name.as_str()).collect();
    let mut started: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (index, command) in consolidation.commands.iter().enumerate() {
        let first = command.delete.first().and_then(|name| cluster.nodes.get(name.as_str()));
        let Some(pool) = first.and_then(|node| cluster.pool(node.node_pool()?)) else { continue };
        let numbered = Numbered { number: index + 1, command };
        for Limit { what, allowed, already } in limits(cluster, pool, command.reason, &held) {
            let count = command.delete.len();
            if count > allowed {
                out.push(numbered.fault(format!("it ends {count} {what} at once; allowed: {allowed}")));
            } else if command.starts_now {
                let started = started.entry((&pool.name, what)).or_insert(already);
                *started += count;
                if *started > allowed {
                    let of_pool = format!("{started} {what} of {} at once", pool.name);
                    let reason = format!("it starts now, which makes {of_pool}; allowed: {allowed}");
                    out.push(numbered.fault(reason));
                }
            }
        }
    }
}

/// A number that commands may not pass.
struct Limit {
    /// What it counts.
    what: &'static str,
    allowed: usize,
    /// How many are disrupted already.
    already: usize,
}

/// The limits of a pool for a reason: its budgets, and of drifted nodes the wave that it asks for.
fn limits(
    cluster: &ClusterState<'_>,
    pool: &NodePool,
    reason: DisruptionReason,
    held: &BTreeSet<&str>,
) -> Vec<Limit> {
    let (nodes, already) = counted(cluster, pool, held);
    let allowed = at_once(cluster, pool, reason, nodes).min(Command::MAX_CLAIMS);
    let wave = pool.disruption_wishes().drift_at_once.filter(|_| reason == DisruptionReason::Drifted);
    // Which of those that are disrupted already have drifted is not looked at.
    let wave = wave.map(|allowed| Limit { what: "drifted nodes", allowed, already: 0 });
    [Limit { what: "nodes", allowed, already }].into_iter().chain(wave).collect()
}

/// How many nodes of a pool count, and how many of them are disrupted already.
fn counted(cluster: &ClusterState<'_>, pool: &NodePool, held: &BTreeSet<&str>) -> (usize, usize) {
    let (mut nodes, mut disrupted) = (0, 0);
    for node in cluster.snapshot.nodes.iter().filter(|node| node.node_pool() == Some(&pool.name)) {
        let claim = cluster.claim_of(node);
        let state = claim.map(|claim| claim.status.state);
        if !node.is_initialized() && state != Some(ClaimState::Initialized) {
            continue;
        }
        let is_held = claim.is_some_and(|claim| held.contains(claim.name.as_str()));
        nodes += usize::from(state.is_none_or(|state| state < ClaimState::Terminating));
        disrupted += usize::from(is_held || is_disrupted(node, state));
    }
    (nodes, disrupted)
}

fn is_disrupted(node: &Node, state: Option<ClaimState>) -> bool {
    !node.ready || node.deleting || node.is_disrupted() || state.is_some_and(|state| !state.accepts_pods())
}

/// How many of so many nodes may be disrupted at once: the least that an active budget allows, none
/// where one cannot be read.
fn at_once(cluster: &ClusterState<'_>, pool: &NodePool, reason: DisruptionReason, nodes: usize) -> usize {
    let concerns = |budget: &&Budget| budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason));
    let allowed = pool.spec.disruption.budgets.iter().filter(concerns).filter_map(|budget| {
        match Window::of_budget(budget, cluster.snapshot.taken_at) {
            Window::Shut => None,
            Window::Unreadable => Some(0),
            Window::Open { .. } => Some(share(&budget.nodes, nodes).unwrap_or(0)),
        }
    });
    allowed.fold(nodes, usize::min)
}

/// A number, or a percentage of the nodes, which rounds up.
fn share(text: &str, nodes: usize) -> Option<usize> {
    let Some(percent) = text.strip_suffix('%') else { return text.parse().ok() };
    percent.parse::<usize>().ok().map(|percent| (nodes * percent).div_ceil(100))
}
