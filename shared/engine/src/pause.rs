//! What a tick says of an operator's pause.

use jiff::Timestamp;
use outrigger_model::Pause;

use crate::ports::LedgerState;

/// The pause that is in force. It goes into the log when a tick, which has `said` none yet, first sees it.
pub(crate) fn in_force(ledger: &LedgerState, said: &mut Option<Pause>, now: Timestamp) -> Option<Pause> {
    let pause = ledger.pause.clone().filter(|pause| pause.is_in_force(now));
    if let Some(pause) = &pause
        && said.is_none()
    {
        tracing::warn!("{pause}");
        *said = Some(pause.clone());
    }
    pause
}
