//! What must be true of a world at its end.

use std::time::Duration;

use outrigger_model::{ClaimState, NodeClaim};

use super::Asks;
use crate::cloud::NO_LAUNCH;
use crate::play::Ending;

/// How long a world rests at its end. Trouble is long over by then, and so is everything that it
/// caused.
const REST: Duration = Duration::from_mins(8);

/// What was not as it must be in a world that has run for so long.
pub(crate) fn complaints(ending: &Ending, asks: Asks, duration: Duration) -> Vec<String> {
    let mut complaints = ending.summary.broken_laws.clone();
    if asks != Asks::Laws {
        complaints.extend(ending.summary.unexpected.iter().cloned());
    }
    if matches!(asks, Asks::Settled | Asks::Rest) {
        complaints.extend(left_over(ending));
    }
    if asks == Asks::Rest {
        let rest_by = duration.saturating_sub(REST);
        complaints.extend(restless(ending, rest_by));
        complaints.extend(ending.kept.iter().cloned());
        let late = ending.last_writes.iter().filter(|(_, at)| **at > rest_by);
        complaints.extend(late.map(|(what, at)| format!("after {} s {what} is still written", at.as_secs())));
    }
    complaints
}

/// Launches that stay open, claims that are not ready, and what ledger, EC2 and cluster do not
/// agree about.
fn left_over(ending: &Ending) -> Vec<String> {
    let open = ending.intents.iter().filter(|intent| intent.ended_at.is_none());
    let mut leftovers: Vec<_> = open.map(|intent| format!("launch {} is still open", intent.id)).collect();
    leftovers.extend(ending.commands.iter().map(|command| format!("command {} is still there", command.id)));
    let living: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| !claim.status.state.is_terminal()).collect();
    let unready = living.iter().filter(|claim| claim.status.state != ClaimState::Initialized);
    leftovers.extend(unready.map(|claim| format!("claim {} is still {:?}", claim.name, claim.status.state)));
    let held = living.iter().filter(|claim| claim.status.command.is_some());
    leftovers.extend(held.map(|claim| format!("a command still holds claim {}", claim.name)));
    let instances = ending.instances.iter().filter(|(_, launch)| launch != NO_LAUNCH).count();
    let stale = living.iter().filter(|claim| ending.mirrors.get(&claim.name) != Some(&claim.version));
    leftovers.extend(
        stale.map(|claim| format!("the NodeClaim object of {} does not show it as it is", claim.name)),
    );
    for (count, what) in
        [(instances, "instances"), (ending.nodes.len(), "nodes"), (ending.mirrors.len(), "NodeClaim objects")]
    {
        if count != living.len() {
            leftovers.push(format!("{} claims live, and {count} {what}", living.len()));
        }
    }
    leftovers
}

/// Nothing is done any more once demand is fixed and all trouble is over.
fn restless(ending: &Ending, rest_by: Duration) -> Option<String> {
    let late = ending.summary.timeline.iter().find(|happening| happening.at > rest_by)?;
    Some(format!("after {} s something still happens: {}", late.at.as_secs(), late.text))
}
