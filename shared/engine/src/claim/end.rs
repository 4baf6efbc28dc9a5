//! The beginning of a claim's end, written down, and its node closed. Who may not write claims
//! states an interruption instead.

use outrigger_model::{
    ClaimState, Node, NodeClaim, NodeOutcome, Taint, Termination, TerminationCause, TerminationReason, labels,
};

use super::tick::Tick;
use crate::chain::chain;
use crate::claim::change::{opened, unchanged};
use crate::claim::index::Nodes;
use crate::claim::liveness;
use crate::launch::health;
use crate::ports::{ClusterError, Event, EventReason, Lease, LedgerError, NodeChange, Ports, Subject};

/// How often a claim that somebody else writes at the same time is tried again.
pub(crate) const ATTEMPTS: usize = 5;

/// The value that Karpenter gives the label that keeps load balancers away.
const EXCLUDED_BY: &str = "karpenter";

/// Begins the end of a claim: one whose node has joined drains, one that nothing runs on is
/// terminated. Returns the claim as it was written, or `None` when nothing had to be: it ends
/// already, is over, was never launched, or is not known.
pub(crate) async fn begin(
    ports: Ports<'_>,
    claim: &str,
    cause: &TerminationCause,
    lease: Option<&Lease>,
) -> Result<Option<NodeClaim>, LedgerError> {
    let Some(stored) = ports.ledger.claim(claim).await? else { return Ok(None) };
    let began = rewrite(ports, stored, lease, |claim| claim.ending(cause, ports.now())).await?;
    if let Some(NodeClaim { name, status, .. }) = &began {
        let (reason, why) = (cause.reason, &cause.message);
        tracing::info!(claim = name, state = ?status.state, %reason, why, "the claim ends");
    }
    Ok(began)
}

/// Writes what `step` makes of a claim that was just read, and of what others make of it meanwhile.
/// Returns the claim as it was written, or `None` where `step` finds nothing to write, or the claim
/// is gone.
pub(crate) async fn rewrite(
    ports: Ports<'_>,
    mut stored: NodeClaim,
    lease: Option<&Lease>,
    step: impl Fn(&NodeClaim) -> Option<NodeClaim> + Send,
) -> Result<Option<NodeClaim>, LedgerError> {
    for _ in 0..ATTEMPTS {
        let Some(next) = step(&stored) else { return Ok(None) };
        match ports.ledger.update_claim(&next, lease).await {
            Err(LedgerError::Conflict { .. }) => {}
            answer => return answer.map(Some),
        }
        let Some(again) = ports.ledger.claim(&stored.name).await? else { return Ok(None) };
        stored = again;
    }
    Err(LedgerError::Conflict { what: format!("claim {}", stored.name) })
}

/// Keeps new pods away from a node, and load balancers from sending it anything new; fine when it
/// is so already. Works without the lease, and before the end of its claim has begun.
pub(crate) async fn close(ports: Ports<'_>, node: &Node) -> Result<(), ClusterError> {
    change(ports, closing(node)).await
}

/// [`close`] for the drain of an ending claim. Each drain is written down on the node, also where
/// that was closed before, so that nobody opens it any more who saw it before the drain began: its
/// version has changed.
pub(crate) async fn close_for(ports: Ports<'_>, node: &Node, end: &Termination) -> Result<(), ClusterError> {
    change(ports, closing_for(node, end)).await
}

async fn change(ports: Ports<'_>, change: Option<NodeChange>) -> Result<(), ClusterError> {
    match change {
        Some(change) => ports.cluster.change_node(&change).await,
        None => Ok(()),
    }
}

/// What keeps new pods and new connections away from a node; `None` when it is so already.
fn closing(node: &Node) -> Option<NodeChange> {
    let taint = Taint::disrupted();
    let excluded = node.labels.contains_key(labels::EXCLUDE_FROM_LOAD_BALANCERS);
    if excluded && node.is_disrupted() {
        return None;
    }
    let mut change = unchanged(node);
    if !excluded {
        change.labels.insert(labels::EXCLUDE_FROM_LOAD_BALANCERS.into(), EXCLUDED_BY.into());
    }
    if !change.taints.contains(&taint) {
        change.taints.push(taint);
    }
    Some(change)
}

/// What closes a node for this drain; `None` when it is so already.
fn closing_for(node: &Node, end: &Termination) -> Option<NodeChange> {
    let since = end.since.to_string();
    let is_marked = node.annotations.get(labels::DRAINING) == Some(&since);
    let mut change = closing(node).or_else(|| (!is_marked).then(|| unchanged(node)))?;
    change.annotations.insert(labels::DRAINING.into(), since);
    Some(change)
}

/// What undoes [`close`].
pub(crate) fn reopening(node: &Node) -> NodeChange {
    let mut change = opened(node);
    change.taints.retain(|taint| *taint != Taint::disrupted());
    let excluded = node.labels.get(labels::EXCLUDE_FROM_LOAD_BALANCERS);
    if excluded.is_some_and(|by| by == EXCLUDED_BY) {
        change.gone_labels.insert(labels::EXCLUDE_FROM_LOAD_BALANCERS.into());
    }
    change
}

impl Tick<'_> {
    /// Begins the end of claims whose Node or NodeClaim somebody deleted, and of those whose time
    /// is up.
    pub(crate) async fn begin_ends(
        &mut self,
        claims: &mut [NodeClaim],
        nodes: &Nodes<'_>,
        lease: Option<&Lease>,
    ) {
        let is_partitioned = liveness::is_partitioned(nodes.listed.iter().copied());
        let held = self.held_deletions(claims, nodes, lease).await;
        for claim in claims.iter_mut().filter(|claim| claim.status.state.accepts_pods()) {
            if self.time_is_up() {
                return;
            }
            let on = nodes.of_claim(claim);
            let (timeout, now) = (self.settings.initialization_timeout, self.ports.now());
            let overdue = || liveness::overdue(claim, on, timeout, is_partitioned, now);
            let deletion = self.deletion(claim, on).filter(|_| !held.contains(&claim.name));
            let cause = deletion.or_else(|| self.ages_are_known().then(overdue).flatten());
            if let Some(cause) = cause.filter(|cause| !self.is_paused(cause.reason)) {
                let cause = self.with_console(claim, cause).await;
                self.begin_end(claim, &cause, lease).await;
            }
        }
    }

    /// Why a machine did not join may be told by its console.
    async fn with_console(&self, claim: &NodeClaim, cause: TerminationCause) -> TerminationCause {
        let (TerminationReason::NotRegistered, Some(id)) = (cause.reason, claim.instance_id()) else {
            return cause;
        };
        match self.ports.cloud.boot_progress(id).await {
            Ok(Some(progress)) => {
                let message = format!("{}; its console tells: {progress}", cause.message);
                TerminationCause { message, ..cause }
            }
            Ok(None) => cause,
            Err(error) => {
                tracing::warn!(claim = claim.name, error = chain(&error), "its console could not be read");
                cause
            }
        }
    }

    pub(crate) async fn begin_end(
        &mut self,
        claim: &mut NodeClaim,
        cause: &TerminationCause,
        lease: Option<&Lease>,
    ) {
        match begin(self.ports, &claim.name, cause, lease).await {
            Ok(None) => {}
            Ok(Some(next)) => {
                let before = std::mem::replace(claim, next);
                self.count_failure(&before, cause).await;
                self.tell_of_end(claim, cause).await;
            }
            Err(error) => self.report_stuck_claim(&claim.name, &error.into()),
        }
    }

    /// Tells people that the end of a claim has begun, and why.
    pub(crate) async fn tell_of_end(&mut self, claim: &NodeClaim, cause: &TerminationCause) {
        self.summary.ending.push(claim.name.clone());
        let about = Subject::NodeClaim { name: claim.name.clone(), uid: self.mirrors.uid(&claim.name) };
        let (reason, message) = (EventReason::from(cause.reason), cause.message.clone());
        self.ports.publish(&Event { about, reason, message }).await;
    }

    /// A claim whose machine never came to be of use counts against its pool.
    async fn count_failure(&self, before: &NodeClaim, cause: &TerminationCause) {
        let is_failure = match cause.reason {
            TerminationReason::NotRegistered | TerminationReason::NotInitialized => true,
            TerminationReason::InstanceGone => before.status.state == ClaimState::Launched,
            _ => false,
        };
        if !is_failure {
            return;
        }
        let outcome = NodeOutcome {
            claim: before.name.clone(),
            created_at: before.created_at,
            failure: Some(cause.message.clone()),
        };
        health::update(self.ports, |health, now| {
            health::count(health, &before.spec.node_pool, outcome.clone(), now)
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::TerminationReason;
    use outrigger_model::fixtures::{at, node};
    use std::collections::BTreeMap;

    #[test]
    fn a_node_is_closed_once() {
        let open = node(Vec::new());
        let change = closing(&open).unwrap();
        assert_eq!(change.taints, [Taint::disrupted()]);
        assert_eq!(change.labels[labels::EXCLUDE_FROM_LOAD_BALANCERS], "karpenter");
        assert_eq!(
            (&change.finalizers, &change.resource_version),
            (&open.finalizers, &open.resource_version)
        );
        let closed = Node { labels: change.labels, ..node(change.taints) };
        assert_eq!(closing(&closed), None);
        let change = reopening(&closed);
        assert_eq!((change.taints.len(), change.gone_labels.len()), (0, 1));
        let users = BTreeMap::from([(labels::EXCLUDE_FROM_LOAD_BALANCERS.to_owned(), "me".to_owned())]);
        let excluded = Node { labels: users, ..closed.clone() };
        assert_eq!(reopening(&excluded).gone_labels.len(), 0, "somebody else's label stays");
        let reopened = Node { taints: Vec::new(), ..closed };
        assert_eq!(closing(&reopened).unwrap().labels.len(), 0, "the label is there");
    }

    #[test]
    fn each_drain_writes_to_a_node_once_even_where_it_is_closed() {
        let end = Termination::new(TerminationReason::Deleted, "test", at(7));
        let mark = BTreeMap::from([(labels::DRAINING.to_owned(), "1970-01-01T00:00:07Z".to_owned())]);
        let closed = |annotations| {
            let change = closing(&node(Vec::new())).unwrap();
            Node { labels: change.labels, annotations, ..node(change.taints) }
        };
        let opened = closing_for(&node(Vec::new()), &end).unwrap();
        assert_eq!((opened.annotations, opened.taints), (mark.clone(), vec![Taint::disrupted()]));
        let change = closing_for(&closed(BTreeMap::new()), &end).unwrap();
        assert_eq!((&change.annotations, change.taints), (&mark, vec![Taint::disrupted()]));
        assert_eq!(closing_for(&closed(mark.clone()), &end), None);
        let later = Termination { since: at(8), ..end };
        assert!(closing_for(&closed(mark), &later).is_some(), "another drain");
    }
}
