//! Commands of disruption: nodes that go of our own accord, once what their pods move to is ready.
//!
//! A command and its hold on its claims are written as one (`interrupt`, for EC2's rebalance recommendations where they are followed);
//! while its nodes stay open a place is planned for their pods (`provision`), and once what these wait for is ready, the write that
//! begins the end of its claims removes it (`lifecycle`). So whoever dies between two steps leaves a command that the next tick goes on
//! with, or none.
//!
//! It is voluntary: a node or a pod that asks not to be disrupted keeps the node, and after a while without replacements the command is
//! given up. What takes a machine whatever we want, as a spot warning does, begins the end of its claim as always, and so lets it go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{
    ClaimState, Command, Node, NodeClaim, Plan, Pod, PodState, Snapshot, Taint, Target, TerminationReason,
    labels,
};

use crate::error::chain;
use crate::launch::launcher::Outcome;
use crate::node::terminate::ATTEMPTS;
use crate::observe::staying::Staying;
use crate::ports::{Lease, LedgerError, Ports};

/// How long replacements are waited for (Karpenter's commands: 10 min at least); a machine joins within a few minutes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

/// Issues a command over one claim, which was just read. Returns whether it holds the claim from now on: not where that is not ready
/// for pods, or a command holds it already. Works without the lease: the claim's version keeps two commands apart.
pub(crate) async fn issue(
    ports: Ports<'_>,
    mut claim: NodeClaim,
    reason: TerminationReason,
    message: &str,
) -> Result<bool, LedgerError> {
    for _ in 0..ATTEMPTS {
        if claim.state != ClaimState::Initialized || claim.command.is_some() {
            return Ok(false);
        }
        let command = Command::new(reason, message, vec![claim.name.clone()], ports.now());
        let held = NodeClaim { command: Some(command.id.clone()), ..claim.clone() };
        match ports.ledger.write_command(&command, &[held], None).await {
            Err(LedgerError::Conflict { .. }) => {}
            answer => return answer.map(|()| true),
        }
        let Some(again) = ports.ledger.claim(&claim.name).await? else { return Ok(false) };
        claim = again;
    }
    Err(LedgerError::Conflict { what: format!("claim {}", claim.name) })
}

/// Whether replacements are still waited for.
fn is_current(command: &Command, now: Timestamp) -> bool {
    SignedDuration::try_from(PATIENCE).is_ok_and(|patience| now.duration_since(command.since) < patience)
}

/// The claims that are held by commands whose replacements are still waited for.
pub(crate) fn held<'l>(
    claims: &'l [NodeClaim],
    commands: &'l [Command],
    now: Timestamp,
) -> impl Iterator<Item = &'l NodeClaim> {
    let commands = commands.iter().filter(move |command| is_current(command, now));
    commands.flat_map(|command| claims.iter().filter(|claim| command.holds(claim)))
}

/// Shows the nodes that are to be replaced as they will be once their drain begins, so that nothing is planned onto them, and a
/// place elsewhere for their pods.
pub(crate) fn close_in(snapshot: &mut Snapshot, staying: &Staying<'_>) {
    let held: BTreeSet<&str> = held(&snapshot.claims, &snapshot.commands, snapshot.taken_at)
        .filter_map(NodeClaim::instance_id)
        .collect();
    if held.is_empty() {
        return;
    }
    let pods = snapshot.pods_by_node();
    let on =
        |node: &Node| pods.get(node.name.as_str()).map(Vec::as_slice).unwrap_or_default().iter().copied();
    let is_held = |node: &Node| node.instance_id().is_some_and(|id| held.contains(id));
    let is_replaced =
        |node: &Node| is_held(node) && !node.is_disrupted() && kept_by(node, on(node), staying).is_none();
    let replaced: Vec<bool> = snapshot.nodes.iter().map(is_replaced).collect();
    for (node, _) in snapshot.nodes.iter_mut().zip(replaced).filter(|(_, is_replaced)| *is_replaced) {
        node.taints.push(Taint::disrupted());
    }
}

/// Why a node may not be drained of our own accord; `None` where it may.
pub(crate) fn kept_by<'p>(
    node: &Node,
    pods: impl IntoIterator<Item = &'p Pod>,
    staying: &Staying<'_>,
) -> Option<String> {
    if node.annotations.get(labels::DO_NOT_DISRUPT).is_some_and(|value| value == "true") {
        return Some(format!("the node {} asks not to be disrupted", node.name));
    }
    let mut asked = pods.into_iter().filter(|pod| !pod.state.is_over() && pod.is_drainable());
    asked.find_map(|pod| staying.reason(pod))
}

/// Writes down what the pods of nodes that are to be replaced wait for, as a plan and its launches have it. What cannot be written
/// now is left for the next plan.
///
/// Errors when the lease has gone.
pub(crate) async fn note_replacements(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &Snapshot,
    (plan, outcome): (&Plan, &Outcome),
) -> Result<(), LedgerError> {
    if snapshot.commands.is_empty() {
        return Ok(());
    }
    let places = places(snapshot, plan, outcome);
    for command in snapshot.commands.iter().filter(|command| is_current(command, snapshot.taken_at)) {
        let replacements = replacements(command, snapshot, &places);
        if replacements == command.replacements {
            continue;
        }
        tracing::info!(command = command.id, ?replacements, "what its pods wait for");
        let next = Command { replacements, ..command.clone() };
        match ports.ledger.write_command(&next, &[], Some(lease)).await {
            Ok(()) => {}
            Err(error @ LedgerError::LeaseLost { .. }) => return Err(error),
            Err(error) => {
                tracing::info!(command = command.id, error = chain(&error), "not written down this time");
            }
        }
    }
    Ok(())
}

/// The claims that the pods of a command's nodes wait for; `None` while a node is kept, or some pod has no place.
fn replacements(
    command: &Command,
    snapshot: &Snapshot,
    places: &BTreeMap<&str, &str>,
) -> Option<Vec<String>> {
    let of = |claim: &NodeClaim| {
        let node = snapshot.nodes.iter().find(|node| node.instance_id() == claim.instance_id());
        node.filter(|node| node.is_disrupted()).map(|node| node.name.as_str())
    };
    let held = snapshot.claims.iter().filter(|claim| command.holds(claim));
    let nodes: BTreeSet<&str> = held.map(of).collect::<Option<_>>()?;
    let is_moved = |pod: &&Pod| {
        pod.state == PodState::Leaving && pod.node_name.as_deref().is_some_and(|name| nodes.contains(name))
    };
    let waits_for: Option<BTreeSet<&str>> =
        snapshot.pods.iter().filter(is_moved).map(|pod| places.get(pod.uid.as_str()).copied()).collect();
    Some(waits_for?.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// The claim on whose node each pod has a place, by the pod's uid; an empty name where that is ready.
fn places<'p>(snapshot: &'p Snapshot, plan: &'p Plan, outcome: &Outcome) -> BTreeMap<&'p str, &'p str> {
    let mut places: BTreeMap<&str, &str> = BTreeMap::new();
    for planned in plan.nodes.iter().filter(|planned| outcome.is_on_its_way(&planned.claim)) {
        places.extend(planned.pods.iter().map(|pod| (pod.uid.as_str(), planned.claim.as_str())));
    }
    for placement in &plan.existing {
        let waits_for = match &placement.target {
            Target::Claim(name) => name.as_str(),
            Target::Node(name) => starting(snapshot, name).unwrap_or_default(),
        };
        places.extend(placement.pods.iter().map(|pod| (pod.uid.as_str(), waits_for)));
    }
    places
}

/// The claim of a node that has joined and is not ready for pods yet.
fn starting<'s>(snapshot: &'s Snapshot, node: &str) -> Option<&'s str> {
    let node = snapshot.nodes.iter().find(|found| found.name == node)?;
    let claim = snapshot.claims.iter().find(|claim| claim.instance_id() == node.instance_id())?;
    (claim.state < ClaimState::Initialized).then_some(claim.name.as_str())
}

/// How a command goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It waits for this.
    Wait(String),
    /// All that the pods of its nodes wait for is ready.
    Drain,
    /// It has waited for long enough.
    GiveUp,
}

/// How a command goes on. `ready` holds the claims whose nodes are ready for pods.
pub(crate) fn step(command: &Command, ready: &BTreeSet<String>, now: Timestamp) -> Step {
    if !is_current(command, now) {
        return Step::GiveUp;
    }
    let Some(replacements) = &command.replacements else {
        return Step::Wait("a place for its pods, to be replaced".to_owned());
    };
    let missing: Vec<&str> =
        replacements.iter().filter(|name| !ready.contains(*name)).map(String::as_str).collect();
    if missing.is_empty() {
        Step::Drain
    } else {
        Step::Wait(format!("{}, which replace it, to be ready", missing.join(", ")))
    }
}

#[cfg(test)]
mod tests;
