//! What must hold while an operator has paused Outrigger: whoever has read of the pause begins
//! nothing that it stops.

use outrigger_model::{NodeClaim, Pause};

use super::departure::{CLOCK_TOLERANCE, may_know_another_claim};
use crate::state::State;
use crate::time::{Moment, after};

/// The pause that a run has read, and that still counts.
fn read_by<'s>(state: &'s State, owner: &str, moment: Moment) -> Option<&'s Pause> {
    let look = state.looks.by(owner)?;
    let ago = moment.elapsed.saturating_sub(look.ledger);
    let was_read = |pause: &&Pause| after(pause.since, ago + CLOCK_TOLERANCE) < moment.at;
    let pause = state.ledger.pause().filter(was_read)?;
    (pause.is_in_force(moment.at) && !may_know_another_claim(state, moment)).then_some(pause)
}

/// A launch is written down.
pub(crate) fn launch(state: &State, owner: &str, moment: Moment) -> Option<String> {
    let stops = |pause: &&Pause| pause.stops_launches(moment.at);
    let pause = read_by(state, owner, moment).filter(stops)?;
    Some(format!("{owner} writes a launch down, although {pause}"))
}

/// A command is committed.
pub(crate) fn commitment(state: &State, owner: &str, moment: Moment) -> Option<String> {
    let stops = |pause: &&Pause| pause.stops_disruption(moment.at);
    let pause = read_by(state, owner, moment).filter(stops)?;
    Some(format!("{owner} commits a command, although {pause}"))
}

/// A claim is written whose end begins.
pub(crate) fn end(state: &State, owner: &str, claim: &NodeClaim, moment: Moment) -> Option<String> {
    let begun = |claim: &NodeClaim| claim.status.termination.as_ref().map(|end| end.reason);
    let before = state.ledger.claims().find(|before| before.name == claim.name);
    let reason = begun(claim).filter(|_| before.is_some_and(|before| begun(before).is_none()))?;
    let stops = |pause: &&Pause| pause.stops_end(reason, moment.at);
    let pause = read_by(state, owner, moment).filter(stops)?;
    Some(format!("{owner} begins the end of {}, which is {reason}, although {pause}", claim.name))
}
