//! How soon planned pods are on their nodes.

use std::time::Duration;

use outrigger_model::{NodeClaim, NominatedPod, PodState};

use crate::scenario::{Function, Scenario};
use crate::state::State;
use crate::time::Moment;

/// How long a planned pod waits at most once its node is ready.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(15);
/// How long the trouble of a world must be over before anything is asked of its pace: functions that stood still
/// have gone on by then, and what they left lying has been taken up.
const CALM_AFTER: Duration = Duration::from_mins(6);

/// Planned pods that still wait for a node, [`LONGEST_WAIT`] after it became ready. Nothing is asked while there
/// is trouble, once a function has died, where lifecycle stands still some time or functions look once a minute,
/// and where nodes are smaller than was planned.
pub(crate) fn overdue(state: &State, scenario: &Scenario, node: &str, moment: Moment) -> Vec<String> {
    let as_planned = scenario.allocatable_percent == 100 && scenario.memory_percent == 100;
    if scenario.poll_window.is_zero() || !as_planned || !is_calm(state, scenario, moment) {
        return Vec::new();
    }
    let lives = |claim: &&NodeClaim| !claim.status.state.is_terminal() && claim.status.termination.is_none();
    let claims: Vec<&NodeClaim> = state.ledger.claims().filter(lives).collect();
    let claim = claims.iter().find(|claim| claim.status.node_name.as_deref() == Some(node));
    let Some(claim) = claim else { return Vec::new() };
    // A pod that was planned for again is the newest plan's.
    let is_newest = |pod: &&NominatedPod| {
        let names = |other: &NodeClaim| other.status.nominated.iter().any(|one| one.uid == pod.uid);
        !claims.iter().any(|other| other.created_at > claim.created_at && names(other))
    };
    let waits = |pod: &&NominatedPod| {
        let seen = state.cluster.pods().get(&pod.uid);
        seen.is_some_and(|pod| pod.node_name.is_none() && pod.state == PodState::Unschedulable)
    };
    let overdue = claim.status.nominated.iter().filter(waits).filter(is_newest);
    let seconds = LONGEST_WAIT.as_secs();
    overdue.map(|pod| format!("{} still waits for {node}, ready for {seconds} s", pod.pod)).collect()
}

fn is_calm(state: &State, scenario: &Scenario, moment: Moment) -> bool {
    let is_over = |event: &crate::scenario::Event| {
        let ends = event.at.saturating_add(event.length().unwrap_or_default());
        event.at > moment.elapsed || ends.saturating_add(CALM_AFTER) < moment.elapsed
    };
    state.deaths == 0 && !scenario.freezes(Function::Lifecycle) && scenario.events.iter().all(is_over)
}
