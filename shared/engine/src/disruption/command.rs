//! Commands of disruption: nodes that go of our own accord, once what their pods move to is ready.
//!
//! A command and its hold on its claims are written as one (`interrupt`, for EC2's rebalance recommendations where
//! they are followed); while its nodes stay open a place is planned for their pods (`provision`), and once what these
//! wait for is ready, the write that begins the end of its claims removes it (`lifecycle`). So whoever dies between
//! two steps leaves a command that the next tick goes on with, or none.
//!
//! How one goes on is planning's to say (`leaving::replacement`). What takes a machine whatever we want, as a spot
//! warning does, begins the end of its claim as always, and so lets it go.

use outrigger_model::{ClaimState, Command, NodeClaim, Plan, Snapshot, TerminationReason};
use outrigger_planning::leaving::replacement;

use crate::error::chain;
use crate::launch::launcher::Outcome;
use crate::node::terminate::ATTEMPTS;
use crate::ports::{Lease, LedgerError, Ports};

/// Issues a command over one claim, which was just read. Returns whether it holds the claim from now on: not where
/// that is not ready for pods, or a command holds it already. Works without the lease: the claim's version keeps two
/// commands apart.
pub(crate) async fn issue(
    ports: Ports<'_>,
    mut claim: NodeClaim,
    reason: TerminationReason,
    message: &str,
) -> Result<bool, LedgerError> {
    for _ in 0..ATTEMPTS {
        if claim.status.state != ClaimState::Initialized || claim.status.command.is_some() {
            return Ok(false);
        }
        let command = Command::new(reason, message, vec![claim.name.clone()], ports.now());
        let held = claim.clone().with_status(|status| status.command = Some(command.id.clone()));
        match ports.ledger.write_command(&command, &[held], None).await {
            Err(LedgerError::Conflict { .. }) => {}
            answer => return answer.map(|()| true),
        }
        let Some(again) = ports.ledger.claim(&claim.name).await? else { return Ok(false) };
        claim = again;
    }
    Err(LedgerError::Conflict { what: format!("claim {}", claim.name) })
}

/// Writes down what the pods of nodes that are to be replaced wait for, as a plan and its launches have it. What
/// cannot be written now is left for the next plan.
///
/// Errors when the lease has gone.
pub(crate) async fn note_replacements(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
) -> Result<(), LedgerError> {
    for command in replacement::noted(snapshot, plan, |claim| outcome.is_on_its_way(claim)) {
        tracing::info!(command = command.id, replacements = ?command.replacements, "what its pods wait for");
        match ports.ledger.write_command(&command, &[], Some(lease)).await {
            Ok(()) => {}
            Err(error @ LedgerError::LeaseLost { .. }) => return Err(error),
            Err(error) => {
                tracing::info!(command = command.id, error = chain(&error), "not written down this time");
            }
        }
    }
    Ok(())
}
