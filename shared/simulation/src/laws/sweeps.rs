//! What must hold of what a sweep finds.

use outrigger_engine::ports::Sweep;

use crate::state::State;

/// No sweep takes an instance for an orphan that belongs to a claim or to an open launch. EC2 shows
/// only what was written down before, so whoever asks it first finds the launch in the ledger. A
/// table that was restored is another matter: sweeps find out there what it has forgotten, and
/// adopt that.
pub(crate) fn orphans(state: &State, sweep: &Sweep) -> Vec<String> {
    if state.restored_at.is_some() {
        return Vec::new();
    }
    let is_claimed = |id: &str| {
        let mut claims = state.ledger.claims().filter(|claim| !claim.status.state.is_terminal());
        claims.any(|claim| claim.instance_id() == Some(id))
    };
    let is_launching = |id: &str| {
        let machine = state.cloud.machines().get(id);
        machine.is_some_and(|machine| super::departure::is_launching(state, machine))
    };
    let orphans = sweep.orphans.keys().filter(|id| is_claimed(id) || is_launching(id));
    orphans.map(|id| format!("a sweep takes {id} for an orphan, which belongs to a launch")).collect()
}
