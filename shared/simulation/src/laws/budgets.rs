//! How many nodes of a pool may be given up by choice at once, read from its NodePool by itself.

use std::time::Duration;

use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use outrigger_model::node_pool::schedule::Schedule;
use outrigger_model::node_pool::{Budget, DisruptionReason};
use outrigger_model::{ClaimState, Command, NillableDuration, NodeClaim, NodePool, TerminationReason};

use super::departure::{CLOCK_TOLERANCE, may_know_another_claim};
use crate::looks::Look;
use crate::state::State;
use crate::time::{Moment, after};

/// Commands that have waited for longer come to nothing, whoever has not given them up yet.
const CURRENT: Duration = Duration::from_mins(8);

/// What a command of disrupt must not do that was just written: with it, more nodes of a pool are
/// given up by choice than its budgets allow for the command's reason, by the nodes that the run
/// has seen.
pub(crate) fn commitment(state: &State, owner: &str, command: &Command, moment: Moment) -> Vec<String> {
    let Some(reason) = by_choice(command.reason).filter(|_| !may_know_another_claim(state, moment)) else {
        return Vec::new();
    };
    let Some(look) = state.looks.by(owner) else {
        return vec![format!("{owner} committed {} without a look at the cluster", command.id)];
    };
    let held = state.ledger.claims().filter(|claim| command.holds(claim));
    let mut pools: Vec<&str> = held.map(|claim| claim.spec.node_pool.as_str()).collect();
    pools.sort_unstable();
    pools.dedup();
    let pools = state.cluster.node_pools().iter().filter(|pool| pools.contains(&pool.name.as_str()));
    pools.flat_map(|pool| over(state, pool, reason, look, moment)).collect()
}

/// What of a pool's own rules is broken.
fn over(
    state: &State,
    pool: &NodePool,
    reason: DisruptionReason,
    look: &Look,
    moment: Moment,
) -> Vec<String> {
    let why = reason.as_str();
    let by_choice = given_up(state, pool, moment, |_| true);
    let most = allowed(pool, reason, look, moment);
    let budget = most.filter(|most| by_choice > *most).map(|most| {
        format!("{by_choice} nodes of NodePool {} go by choice, and {most} may for {why}", pool.name)
    });
    let drifted = given_up(state, pool, moment, |reason| reason == DisruptionReason::Drifted);
    let wave = wave(pool).filter(|wave| reason == DisruptionReason::Drifted && drifted > *wave);
    let wave = wave.map(|wave| {
        format!("{drifted} drifted nodes of NodePool {} go, and {wave} may in a wave", pool.name)
    });
    budget.into_iter().chain(wave).collect()
}

/// How many drifted nodes of a pool are replaced at once, where it says so.
fn wave(pool: &NodePool) -> Option<usize> {
    pool.annotations.get("outrigger.dev/drift-at-once")?.parse().ok()
}

/// The reasons for which disrupt gives nodes up.
fn by_choice(reason: TerminationReason) -> Option<DisruptionReason> {
    match reason {
        TerminationReason::Empty => Some(DisruptionReason::Empty),
        TerminationReason::Underutilized => Some(DisruptionReason::Underutilized),
        TerminationReason::Drifted => Some(DisruptionReason::Drifted),
        _ => None,
    }
}

/// How many nodes of a pool are held by disrupt's commands, or end because of one, for some of the
/// reasons.
fn given_up(
    state: &State,
    pool: &NodePool,
    moment: Moment,
    counts: impl Fn(DisruptionReason) -> bool,
) -> usize {
    let is_there =
        |claim: &&NodeClaim| claim.instance_id().is_some_and(|id| state.cluster.nodes().contains_key(id));
    let of_pool = state.ledger.claims().filter(|claim| claim.spec.node_pool == pool.name).filter(is_there);
    of_pool.filter_map(|claim| why_given_up(state, claim, moment)).filter(|reason| counts(*reason)).count()
}

fn why_given_up(state: &State, claim: &NodeClaim, moment: Moment) -> Option<DisruptionReason> {
    let end = claim.status.termination.as_ref().filter(|_| claim.status.state != ClaimState::Gone);
    let is_current = |command: &&Command| after(command.since, CURRENT) > moment.at;
    let mut current = state.ledger.commands().filter(is_current);
    let held = || current.find_map(|command| by_choice(command.reason).filter(|_| command.holds(claim)));
    end.and_then(|end| by_choice(end.reason)).or_else(held)
}

/// The least that a budget allows which held all the time since the run's look; `None` where none
/// did.
fn allowed(pool: &NodePool, reason: DisruptionReason, look: &Look, moment: Moment) -> Option<usize> {
    let ago = moment.elapsed.saturating_sub(look.ledger) + CLOCK_TOLERANCE;
    let since = SignedDuration::try_from(ago).ok().and_then(|ago| moment.at.checked_sub(ago).ok())?;
    let until = after(moment.at, CLOCK_TOLERANCE);
    let budgets = pool.spec.disruption.budgets.iter();
    let speaks = |budget: &&Budget| budget.reasons.as_ref().is_none_or(|reasons| reasons.contains(&reason));
    let holds = |budget: &&Budget| holds_at(budget, since) && holds_at(budget, until);
    budgets.filter(speaks).filter(holds).map(|budget| count(budget, look.nodes_of(pool))).min()
}

/// How many of so many nodes a budget lets go. What cannot be read lets none go.
fn count(budget: &Budget, nodes: usize) -> usize {
    match budget.nodes.strip_suffix('%') {
        Some(percent) => percent.parse().map_or(0, |percent: usize| (nodes * percent).div_ceil(100)),
        None => budget.nodes.parse().unwrap_or(0),
    }
}

/// Whether a budget was due within its duration before a time: each minute of it is asked.
fn holds_at(budget: &Budget, at: Timestamp) -> bool {
    let Some(schedule) = &budget.schedule else { return true };
    let length = budget.duration.as_deref().and_then(|text| text.parse::<NillableDuration>().ok()?.get());
    let (Ok(schedule), Some(length)) = (schedule.parse::<Schedule>(), length) else { return true };
    let begun = at.as_second().div_euclid(60) * 60;
    let minutes = i64::try_from(length.as_secs().div_ceil(60)).unwrap_or(i64::MAX);
    let is_due = |second: i64| {
        let due = Timestamp::from_second(second).ok();
        due.filter(|due| after(*due, length) > at)
            .is_some_and(|due| schedule.is_due(Offset::UTC.to_datetime(due)))
    };
    (0..minutes).any(|minute| is_due(begun - 60 * minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_holds_for_its_duration_after_each_time_of_its_schedule() {
        let budget = Budget {
            nodes: "0".into(),
            schedule: Some("10 9 * * *".into()),
            duration: Some("1h".into()),
            reasons: None,
        };
        let table = [("09:09:59", false), ("09:10:00", true), ("10:09:59", true), ("10:10:00", false)];
        for (time, expected) in table {
            let at = format!("2026-01-01T{time}Z").parse().unwrap();
            assert_eq!(holds_at(&budget, at), expected, "{time}");
        }
    }

    #[test]
    fn percentages_are_rounded_up() {
        let of_eleven = |nodes: &str| {
            let budget = Budget { nodes: nodes.into(), schedule: None, duration: None, reasons: None };
            count(&budget, 11)
        };
        assert_eq!(["10%", "100%", "0%", "3", "0"].map(of_eleven), [2, 11, 0, 3, 0]);
    }
}
