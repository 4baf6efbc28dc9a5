//! What a tick says of an operator's pause.

use jiff::Timestamp;
use outrigger_model::Pause;

use crate::guards::{Guard, Guards};
use crate::ports::LedgerState;

/// The pause that is in force. It goes into the log when a tick, which has `said` none yet, first
/// sees it.
pub(crate) fn in_force(
    ledger: &LedgerState,
    said: &mut Option<Pause>,
    guards: Guards,
    now: Timestamp,
) -> Option<Pause> {
    let counts = |pause: &Pause| guards.has(Guard::PauseHeeded) && pause.is_in_force(now);
    let pause = ledger.pause.clone().filter(counts);
    if let Some(pause) = &pause
        && said.is_none()
    {
        tracing::warn!("{pause}");
        *said = Some(pause.clone());
    }
    pause
}
