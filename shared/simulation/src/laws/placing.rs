//! How soon planned pods are on their nodes.

use std::time::Duration;

use outrigger_model::{NodeClaim, NominatedPod, PodState};

use super::is_calm;
use crate::scenario::{Function, Scenario};
use crate::state::State;
use crate::time::Moment;

/// How long a planned pod waits at most once its node is ready.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// Planned pods that still wait for a node, [`LONGEST_WAIT`] after it became ready. Nothing is asked while there
/// is trouble, once a function has died, where lifecycle stands still some time or functions look once a minute,
/// and where nodes are smaller than was planned.
pub(crate) fn overdue(state: &State, scenario: &Scenario, node: &str, moment: Moment) -> Vec<String> {
    let as_planned = scenario.allocatable_percent == 100 && scenario.memory_percent == 100;
    let undisturbed =
        state.deaths == 0 && !scenario.freezes(Function::Lifecycle) && is_calm(scenario, moment);
    if scenario.poll_window.is_zero() || !as_planned || !undisturbed {
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
