//! Commands of disruption: nodes that go of our own accord, once what their pods move to is ready.
//!
//! A command holds the claims that it names (`disrupt` writes it, and `interrupt` for EC2's
//! rebalance recommendations where they are followed); while its nodes stay open a place is planned
//! for their pods (`provision`), and once what these wait for is ready, the write that begins the
//! end of its claims removes it (`lifecycle`). So whoever dies between two steps leaves a command
//! that the next tick goes on with, or none.
//!
//! How one goes on is planning's to say (`leaving::replacement`). What takes a machine whatever we
//! want, as a spot warning does, begins the end of its claim as always, and so lets it go.

use std::collections::BTreeSet;

use outrigger_model::{
    ClaimState, Command, NillableDuration, Node, NodeClaim, Plan, Snapshot, TerminationCause,
    TerminationReason,
};
use outrigger_policy::disruption::ConsolidationCommand;
use outrigger_policy::leaving::eviction::{EvictionBlocker, EvictionRules};
use outrigger_policy::leaving::replacement::{
    self, CommandStep, DisruptionBlocker, REPLACEMENT_TIMEOUT, command_blocker, placed, step, unplaced,
};

use super::tick::{Tick, cause_of};
use crate::TickError;
use crate::chain::chain;
use crate::claim::index::Nodes;
use crate::claim::start::awaits_only_pods;
use crate::guards::Guard;
use crate::launch::launcher::LaunchResults;
use crate::observe::budgets::disruption_budgets;
use crate::ports::{Event, EventReason, Lease, LedgerError, Ports, Subject};

/// Issues a command over one claim, which was just read. Returns whether it holds the claim from
/// now on: not where that is not ready for pods, or a command holds it already. Works without the
/// lease: for one reason there is but one such command over a claim.
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

/// Commits a command that was found twice. `None` where a claim of its nodes is not ready for pods
/// any more, is held already, or is not known.
pub(crate) async fn commit(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &Snapshot,
    planned: &ConsolidationCommand,
) -> Result<Option<Command>, LedgerError> {
    let Some(claims) = free_claims(snapshot, &planned.delete) else { return Ok(None) };
    let names: Vec<String> = claims.iter().map(|claim| claim.name.clone()).collect();
    let new = Command::new(planned.reason.into(), planned.message(), names, ports.now());
    // Where nobody is on the nodes, and nothing takes their place, there is nothing to wait for.
    let waits = !planned.existing.is_empty() || !planned.replace_with.is_empty();
    let replacements = (!waits).then(Vec::new);
    let command = Command { may_cost: planned.may_cost, replacements, ..new };
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

/// Writes down what the pods of nodes that are to be replaced wait for, as a plan and its launches
/// have it. What cannot be written now is left for the next plan.
///
/// Errors when the lease has gone.
pub(crate) async fn note_replacements(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &LaunchResults,
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

impl Tick<'_> {
    /// Takes every command as far as its replacements allow.
    pub(crate) async fn advance_commands(
        &mut self,
        commands: &[Command],
        claims: &mut [NodeClaim],
        nodes: &Nodes<'_>,
        lease: Option<&Lease>,
    ) {
        let ready: BTreeSet<String> = claims
            .iter()
            .filter(|claim| is_ready(claim, nodes.of_claim(claim)))
            .map(|claim| claim.name.clone())
            .collect();
        for command in commands {
            if self.time_is_up() {
                return;
            }
            let step = step(command, &ready, self.ports.now());
            let placed = placed(command, claims);
            let held: Vec<&mut NodeClaim> = claims.iter_mut().filter(|claim| command.holds(claim)).collect();
            if let Err(error) = self.advance_command(command, step, &placed, held, nodes, lease).await {
                self.report_stuck_claim(&command.claims.join(", "), &error);
            }
        }
    }

    async fn advance_command(
        &mut self,
        command: &Command,
        step: CommandStep,
        placed: &BTreeSet<String>,
        held: Vec<&mut NodeClaim>,
        nodes: &Nodes<'_>,
        lease: Option<&Lease>,
    ) -> Result<(), TickError> {
        if held.is_empty() {
            return self.remove(command, lease).await;
        }
        if let CommandStep::Wait(what) = &step
            && self.settings.guards.has(Guard::Replacements)
        {
            self.waits(&held, &what.to_string());
            return Ok(());
        }
        if step != CommandStep::GiveUp && self.is_paused(command.reason) {
            self.waits(&held, "an operator's pause to end");
            return Ok(());
        }
        if step != CommandStep::GiveUp
            && self.settings.guards.has(Guard::LastLook)
            && !self.mirrors.are_known()
        {
            self.waits(&held, "its NodeClaim object to be read");
            return Ok(());
        }
        let placed = (step == CommandStep::Drain).then_some(placed);
        let kept = self.kept(command, placed, &held, nodes).await;
        let nodes: Vec<&Node> = held.iter().flat_map(|claim| nodes.of_claim(claim)).copied().collect();
        let why = match (step, kept) {
            // Its time is over, whatever fails.
            (CommandStep::GiveUp, Err(error)) => {
                Some(format!("what is on it cannot be read: {}", cause_of(&error)))
            }
            (CommandStep::GiveUp, Ok(kept)) => kept.map(|kept| kept.to_string()),
            (_, kept) => match kept? {
                None => return self.execute(command, held, lease).await,
                Some(why) if may_pass(&why) => {
                    self.waits(&held, &why.to_string());
                    return Ok(());
                }
                Some(why) => Some(why.to_string()),
            },
        };
        self.give_up(command, held, lease).await?;
        self.tell_of_no_replacement(command, &nodes, why).await;
        Ok(())
    }

    fn waits(&mut self, held: &[&mut NodeClaim], what: &str) {
        self.summary.waiting.extend(held.iter().map(|claim| (claim.name.clone(), what.to_owned())));
    }

    /// Begins the end of all claims that the command still holds.
    async fn execute(
        &mut self,
        command: &Command,
        held: Vec<&mut NodeClaim>,
        lease: Option<&Lease>,
    ) -> Result<(), TickError> {
        let message = match command.replacements.as_deref() {
            None | Some([]) => command.message.clone(),
            Some(_) => format!("{}, and what replaces it is ready", command.message),
        };
        let replaced_by = command.replacements.clone().unwrap_or_default();
        let cause = TerminationCause { replaced_by, ..TerminationCause::new(command.reason, message) };
        let now = self.ports.now();
        let next: Vec<NodeClaim> = held.iter().filter_map(|claim| claim.ending(&cause, now)).collect();
        let written = self.ports.ledger.end_command(command, &next, lease).await?;
        tracing::info!(command = command.id, claims = ?command.claims, "the command is carried out");
        for (claim, next) in held.into_iter().zip(written) {
            *claim = next;
            self.tell_of_end(claim, &cause).await;
        }
        Ok(())
    }

    async fn give_up(
        &self,
        command: &Command,
        held: Vec<&mut NodeClaim>,
        lease: Option<&Lease>,
    ) -> Result<(), TickError> {
        self.ports.ledger.end_command(command, &[], lease).await?;
        for claim in held {
            claim.status.command = None;
        }
        Ok(())
    }

    /// Removes a command that holds nothing: its claims end by themselves, or another command holds
    /// them.
    async fn remove(&self, command: &Command, lease: Option<&Lease>) -> Result<(), TickError> {
        self.ports.ledger.end_command(command, &[], lease).await?;
        Ok(())
    }

    /// Why none of the nodes may be drained of our own accord, by what is on them now; each pod
    /// must be among those that have a place, where these are given.
    async fn kept(
        &self,
        command: &Command,
        placed: Option<&BTreeSet<String>>,
        held: &[&mut NodeClaim],
        nodes: &Nodes<'_>,
    ) -> Result<Option<DisruptionBlocker>, TickError> {
        if !self.settings.guards.has(Guard::LastLook) {
            return Ok(None);
        }
        let budgets = disruption_budgets(self.ports).await?;
        let rules = EvictionRules { budgets: &budgets, now: self.ports.now() };
        for claim in held {
            for node in nodes.of_claim(claim) {
                let pods = self.ports.cluster.pods_on(&node.name).await?;
                let pods = || pods.iter().map(|on| &on.pod);
                let minds = |why: &DisruptionBlocker| self.settings.guards.has(guard_of(why));
                let asked = command_blocker(command, claim, node, pods(), rules).filter(minds);
                let kept = asked.or_else(|| unplaced(placed?, pods(), rules));
                if kept.is_some() {
                    return Ok(kept);
                }
            }
        }
        Ok(None)
    }

    async fn tell_of_no_replacement(&self, command: &Command, nodes: &[&Node], kept: Option<String>) {
        let patience = NillableDuration::seconds(REPLACEMENT_TIMEOUT.as_secs());
        let why = match (kept, &self.pause) {
            (Some(kept), _) => kept,
            (None, Some(pause)) => pause.to_string(),
            (None, None) => format!("nothing that replaces it was ready within {patience}"),
        };
        let message = format!("it is not drained, although {}: {why}", command.message);
        tracing::warn!(command = command.id, message, "the command is given up");
        for about in nodes.iter().map(|node| Subject::node(node)) {
            let reason = EventReason::DisruptionBlocked;
            self.ports.publish(&Event { about, reason, message: message.clone() }).await;
        }
    }
}

/// What guards what keeps a node.
const fn guard_of(why: &DisruptionBlocker) -> Guard {
    match why {
        DisruptionBlocker::Pod(EvictionBlocker::DoNotDisrupt { .. }) => Guard::LookAtWishes,
        DisruptionBlocker::Pod(_) => Guard::LookAtBudgets,
        _ => Guard::LastLook,
    }
}

/// Whether what keeps a node may end by itself while its command waits.
const fn may_pass(why: &DisruptionBlocker) -> bool {
    !matches!(why, DisruptionBlocker::Occupied(_) | DisruptionBlocker::Unreadable(_))
}

/// Whether pods may be placed on the node of a claim: it is initialised, or kept closed for nothing
/// but the pods that are to move to it.
fn is_ready(claim: &NodeClaim, nodes: &[&Node]) -> bool {
    match (claim.status.state, nodes) {
        (ClaimState::Initialized, _) => true,
        (ClaimState::Registered, [node]) => awaits_only_pods(claim, node),
        _ => false,
    }
}
