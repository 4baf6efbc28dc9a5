//! EC2's rebalance recommendations, where they are followed: the claim is marked (`interrupt`), a place is planned for the pods of
//! its node while that stays open (`provision`), and once what they wait for is ready its end begins (`lifecycle`).
//!
//! It is voluntary: a node or a pod that asks not to be disrupted keeps the node, and after a while without a replacement the mark is
//! taken off again. A spot warning that comes meanwhile begins the claim's end as always.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{
    ClaimState, Node, NodeClaim, Plan, Pod, PodState, Rebalance, Snapshot, Target, labels,
};

use crate::drain;
use crate::launch::Outcome;
use crate::observe::chain;
use crate::ports::{Lease, LedgerError, Ports};
use crate::staying::Staying;
use crate::terminate::{self, is_closed};

/// How long a replacement is waited for. EC2 says nothing of how long its advice holds; a machine joins within a few minutes.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

/// Marks a claim as one to be replaced. Returns whether it was marked now; without the lease, and doing it twice is doing it once.
pub(crate) async fn mark(ports: Ports<'_>, claim: NodeClaim) -> Result<bool, LedgerError> {
    let since = ports.now();
    let marked = |claim: &NodeClaim| {
        let is_due = claim.state == ClaimState::Initialized && claim.rebalance.is_none();
        let rebalance = Some(Rebalance { since, replacements: None });
        is_due.then(|| NodeClaim { rebalance, ..claim.clone() })
    };
    Ok(terminate::rewrite(ports, claim, None, marked).await?.is_some())
}

/// The mark of a claim that waits for its replacement.
pub(crate) fn wanted(claim: &NodeClaim, now: Timestamp) -> Option<&Rebalance> {
    let is_current = |mark: &&Rebalance| {
        SignedDuration::try_from(PATIENCE).is_ok_and(|patience| now.duration_since(mark.since) < patience)
    };
    claim.rebalance.as_ref().filter(|_| claim.state == ClaimState::Initialized).filter(is_current)
}

/// Shows the nodes that are to be replaced as they will be once their drain begins, so that nothing is planned onto them, and a
/// place elsewhere for their pods.
pub(crate) fn close_in(snapshot: &mut Snapshot, staying: &Staying<'_>) {
    let now = snapshot.taken_at;
    let marked: BTreeSet<&str> = snapshot
        .claims
        .iter()
        .filter(|claim| wanted(claim, now).is_some())
        .filter_map(NodeClaim::instance_id)
        .collect();
    if marked.is_empty() {
        return;
    }
    let pods = snapshot.pods_by_node();
    let on =
        |node: &Node| pods.get(node.name.as_str()).map(Vec::as_slice).unwrap_or_default().iter().copied();
    let is_marked = |node: &Node| node.instance_id().is_some_and(|id| marked.contains(id));
    let is_replaced =
        |node: &Node| is_marked(node) && !is_closed(node) && kept_by(node, on(node), staying).is_none();
    let replaced: Vec<bool> = snapshot.nodes.iter().map(is_replaced).collect();
    for (node, _) in snapshot.nodes.iter_mut().zip(replaced).filter(|(_, is_replaced)| *is_replaced) {
        node.taints.push(drain::taint());
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
    let mut asked = pods.into_iter().filter(|pod| pod.state != PodState::Finished && drain::is_asked(pod));
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
    for claim in &snapshot.claims {
        let Some(mark) = wanted(claim, snapshot.taken_at) else { continue };
        let replacements = replacements(claim, snapshot, plan, outcome);
        if replacements == mark.replacements {
            continue;
        }
        tracing::info!(claim = claim.name, ?replacements, "what its pods wait for");
        let next = NodeClaim { rebalance: Some(Rebalance { replacements, ..mark.clone() }), ..claim.clone() };
        match ports.ledger.update_claim(&next, Some(lease)).await {
            Ok(_) => {}
            Err(error @ LedgerError::LeaseLost { .. }) => return Err(error),
            Err(error) => {
                tracing::info!(claim = claim.name, error = chain(&error), "not written down this time");
            }
        }
    }
    Ok(())
}

/// The claims that the pods of a claim's node wait for; `None` while the node is kept, or some pod has no place.
fn replacements(
    claim: &NodeClaim,
    snapshot: &Snapshot,
    plan: &Plan,
    outcome: &Outcome,
) -> Option<Vec<String>> {
    let of = |id: Option<&str>| snapshot.nodes.iter().find(|node| node.instance_id() == id);
    let node = of(claim.instance_id()).filter(|node| is_closed(node))?;
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
    let leaving = snapshot.pods.iter().filter(|pod| pod.state == PodState::Leaving);
    let leaving = leaving.filter(|pod| pod.node_name.as_ref() == Some(&node.name));
    let waits_for: Option<BTreeSet<&str>> =
        leaving.map(|pod| places.get(pod.uid.as_str()).copied()).collect();
    Some(waits_for?.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// The claim of a node that has joined and is not ready for pods yet.
fn starting<'s>(snapshot: &'s Snapshot, node: &str) -> Option<&'s str> {
    let node = snapshot.nodes.iter().find(|found| found.name == node)?;
    let claim = snapshot.claims.iter().find(|claim| claim.instance_id() == node.instance_id())?;
    (claim.state < ClaimState::Initialized).then_some(claim.name.as_str())
}

/// How a claim that is marked goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It waits for this.
    Wait(String),
    /// All that its pods wait for is ready.
    Drain,
    /// It has waited for long enough.
    GiveUp,
}

/// How a claim goes on; `None` where it is not marked, or ends already. `ready` holds the claims whose nodes are ready for pods.
pub(crate) fn step(claim: &NodeClaim, ready: &BTreeSet<String>, now: Timestamp) -> Option<Step> {
    claim.rebalance.as_ref().filter(|_| claim.state == ClaimState::Initialized)?;
    let Some(mark) = wanted(claim, now) else { return Some(Step::GiveUp) };
    let Some(replacements) = &mark.replacements else {
        return Some(Step::Wait("a place for its pods, to be replaced".to_owned()));
    };
    let missing: Vec<&str> =
        replacements.iter().filter(|name| !ready.contains(*name)).map(String::as_str).collect();
    Some(if missing.is_empty() {
        Step::Drain
    } else {
        Step::Wait(format!("{}, which replace it, to be ready", missing.join(", ")))
    })
}

#[cfg(test)]
mod tests;
