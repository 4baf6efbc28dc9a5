//! What must hold while an API server's clock is wrong.

use jiff::SignedDuration;
use outrigger_model::{NodeClaim, TerminationReason};

/// By how much clocks may differ.
const TOLERANCE: SignedDuration = SignedDuration::from_mins(1);

/// Whether the clock of an API server that has answered is too far ahead or behind for ages to be
/// told.
pub(crate) fn are_unknown(server_ahead: Option<SignedDuration>) -> bool {
    server_ahead.is_some_and(|ahead| ahead.abs() > TOLERANCE)
}

/// Nobody ends a claim for its age then.
pub(crate) fn ended(before: Option<&NodeClaim>, after: &NodeClaim) -> Option<String> {
    use TerminationReason::{Expired, NotInitialized, NotRegistered};
    let began = after
        .status
        .termination
        .as_ref()
        .filter(|_| before.is_some_and(|before| before.status.termination.is_none()))?;
    let is_for_age = matches!(began.reason, Expired | NotInitialized | NotRegistered);
    is_for_age
        .then(|| format!("claim {} ended for its age while clocks differ: {}", after.name, began.reason))
}
