//! What must hold of launches: what EC2 lately did not have is not asked for, and their templates
//! stay.

use std::time::Duration;

use outrigger_model::FleetRequest;

use super::departure::{CLOCK_TOLERANCE, may_know_another_claim};
use crate::state::State;
use crate::time::Moment;

/// A template lives so long at least once it was used. Its use is written down again only every ten
/// minutes, and it may be deleted an hour after that.
const TEMPLATE_LIVES: Duration = Duration::from_mins(50);

/// A launch that is written down asks for nothing of which its run had read that EC2 does not have
/// it.
pub(crate) fn asks_again(state: &State, owner: &str, request: &FleetRequest, moment: Moment) -> Vec<String> {
    let Some(look) = state.looks.by(owner) else { return Vec::new() };
    if may_know_another_claim(state, moment) {
        return Vec::new();
    }
    let was_read = |noted: Duration| noted.saturating_add(CLOCK_TOLERANCE) < look.ledger;
    let missing: Vec<_> = state
        .ledger
        .unavailable()
        .filter(|(offering, noted)| was_read(*noted) && offering.until > moment.at)
        .map(|(offering, _)| offering)
        .collect();
    let is_missing = |kind: &str, zone: &str| {
        missing.iter().any(|offering| offering.speaks_of(kind, zone, request.capacity_type))
    };
    let again = request.overrides.iter().filter(|asked| is_missing(&asked.instance_type, &asked.zone));
    again
        .map(|asked| {
            let (kind, zone) = (&asked.instance_type, &asked.zone);
            format!("{owner} asks for {kind} in {zone} again, which EC2 does not have")
        })
        .collect()
}

/// A template of our own is deleted that was used lately.
pub(crate) fn deleted_template(state: &State, id: &str, moment: Moment) -> Option<String> {
    let used = state.cloud.template_used(id)?;
    let ago = moment.elapsed.saturating_sub(used);
    let name = format!("launch template {id}");
    (ago < TEMPLATE_LIVES).then(|| format!("{name} was deleted {} s after a launch used it", ago.as_secs()))
}
