//! Commands of disruption: nodes that go of our own accord, once what their pods move to is ready.
//!
//! A command holds the claims that it names (`disrupt` writes it, and `interrupt` for EC2's rebalance recommendations
//! where they are followed); while its nodes stay open a place is planned for their pods
//! (`provision`), and once what these wait for is ready, the write that begins the end of its claims removes it
//! (`lifecycle`). So whoever dies between two steps leaves a command that the next tick goes on with, or none.
//!
//! How one goes on is planning's to say (`leaving::replacement`). What takes a machine whatever we want, as a spot
//! warning does, begins the end of its claim as always, and so lets it go.

use outrigger_model::{ClaimState, Command, NodeClaim, Plan, Snapshot, TerminationReason};
use outrigger_policy::disruption::ConsolidationCommand;
use outrigger_policy::leaving::replacement;

use crate::error::chain;
use crate::launch::launcher::Outcome;
use crate::ports::{Lease, LedgerError, Ports};

/// Issues a command over one claim, which was just read. Returns whether it holds the claim from now on: not where
/// that is not ready for pods, or a command holds it already. Works without the lease: for one reason there is but one
/// such command over a claim.
pub(crate) async fn issue(
    ports: Ports<'_>,
    claim: &NodeClaim,
    reason: TerminationReason,
    message: &str,
) -> Result<bool, LedgerError> {
    if claim.status.state != ClaimState::Initialized || claim.status.command.is_some() {
        return Ok(false);
    }
    let id = format!("{}-{}", claim.name, reason.as_str());
    let command = Command { id, ..Command::new(reason, message, vec![claim.name.clone()], ports.now()) };
    match ports.ledger.write_command(&command, None).await {
        Err(LedgerError::Conflict { .. }) => Ok(false),
        answer => answer.map(|()| true),
    }
}

/// Commits a command that was found twice. `None` where a claim of its nodes is not ready for pods any more, is held
/// already, or is not known.
pub(crate) async fn commit(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &Snapshot,
    found: &ConsolidationCommand,
) -> Result<Option<Command>, LedgerError> {
    let Some(claims) = free_claims(snapshot, &found.delete) else { return Ok(None) };
    let names: Vec<String> = claims.iter().map(|claim| claim.name.clone()).collect();
    let new = Command::new(found.reason.into(), found.message(), names, ports.now());
    // Where nobody is on the nodes, and nothing takes their place, there is nothing to wait for.
    let waits = !found.existing.is_empty() || !found.replace_with.is_empty();
    let replacements = (!waits).then(Vec::new);
    let command = Command { may_cost: found.may_cost, replacements, ..new };
    ports.ledger.write_command(&command, Some(lease)).await?;
    Ok(Some(command))
}

/// The claims of some nodes; `None` unless all of them are ready for pods and held by nobody.
fn free_claims<'s>(snapshot: &'s Snapshot, nodes: &[String]) -> Option<Vec<&'s NodeClaim>> {
    let of_node = |name: &String| {
        let node = snapshot.nodes.iter().find(|node| &node.name == name)?;
        let mut claims = snapshot.claims.iter();
        let claim =
            claims.find(|claim| node.instance_id().is_some() && claim.instance_id() == node.instance_id())?;
        let is_free = claim.status.state == ClaimState::Initialized && claim.status.command.is_none();
        is_free.then_some(claim)
    };
    nodes.iter().map(of_node).collect()
}

/// Gives up commands whose pods have no place for what that may cost: their nodes stay as they are.
///
/// Errors when the lease has gone.
pub(crate) async fn give_up_too_dear(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &Snapshot,
    plan: &Plan,
) -> Result<(), LedgerError> {
    let is_too_dear = |command: &&Command| plan.too_dear.contains(&command.id);
    for command in snapshot.commands.iter().filter(is_too_dear) {
        match ports.ledger.end_command(command, &[], Some(lease)).await {
            Ok(_) => {
                tracing::info!(command = command.id, may_cost = ?command.may_cost, "given up: its pods cost more");
            }
            Err(error @ LedgerError::LeaseLost { .. }) => return Err(error),
            Err(error) => {
                tracing::info!(command = command.id, error = chain(&error), "not given up this time");
            }
        }
    }
    Ok(())
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
    let noted = replacement::noted(snapshot, plan, |claim| outcome.is_on_its_way(claim));
    // One that is given up next must not be written before: it would have changed meanwhile.
    for command in noted.into_iter().filter(|command| !plan.too_dear.contains(&command.id)) {
        tracing::info!(command = command.id, replacements = ?command.replacements, "what its pods wait for");
        match ports.ledger.write_command(&command, Some(lease)).await {
            Ok(()) => {}
            Err(error @ LedgerError::LeaseLost { .. }) => return Err(error),
            Err(error) => {
                tracing::info!(command = command.id, error = chain(&error), "not written down this time");
            }
        }
    }
    Ok(())
}
