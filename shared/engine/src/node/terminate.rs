//! The beginning of a claim's end. It only ever moves forward, and doing it twice is doing it once. Who may not write
//! claims states an interruption instead.

use jiff::Timestamp;
use outrigger_model::{
    ClaimState, NillableDuration, Node, NodeClaim, Taint, Termination, TerminationReason, labels,
};

use crate::node::change::{opened, unchanged};
use crate::ports::{ClusterError, Lease, LedgerError, NodeChange, Ports};

/// How often a claim that somebody else writes at the same time is tried again.
pub(crate) const ATTEMPTS: usize = 5;

/// The value that Karpenter gives the label that keeps load balancers away.
const EXCLUDED_BY: &str = "karpenter";

/// Why a claim is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Why.
    pub(crate) reason: TerminationReason,
    /// Why, for people.
    pub(crate) message: String,
    /// When patience with its pods ends at the latest; the claim's own `terminationGracePeriod` may end it earlier.
    pub(crate) by: Option<Timestamp>,
    /// The claims whose nodes its pods move to, where these wait for them.
    pub(crate) replaced_by: Vec<String>,
}

impl Cause {
    /// A cause that sets no time limit of its own.
    pub(crate) fn new(reason: TerminationReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), by: None, replaced_by: Vec::new() }
    }
}

/// Begins the end of a claim: one whose node has joined drains, one that nothing runs on is terminated. Returns the
/// claim as it was written, or `None` when nothing had to be: it ends already, is over, was never launched, or is not
/// known.
pub(crate) async fn begin(
    ports: Ports<'_>,
    claim: &str,
    cause: &Cause,
    lease: Option<&Lease>,
) -> Result<Option<NodeClaim>, LedgerError> {
    let Some(found) = ports.ledger.claim(claim).await? else { return Ok(None) };
    let began = rewrite(ports, found, lease, |claim| ending(claim, cause, ports.now())).await?;
    if let Some(NodeClaim { name, status, .. }) = &began {
        let (reason, why) = (cause.reason, &cause.message);
        tracing::info!(claim = name, state = ?status.state, %reason, why, "the claim ends");
    }
    Ok(began)
}

/// Writes what `step` makes of a claim that was just read, and of what others make of it meanwhile. Returns the claim
/// as it was written, or `None` where `step` finds nothing to write, or the claim is gone.
pub(crate) async fn rewrite(
    ports: Ports<'_>,
    mut found: NodeClaim,
    lease: Option<&Lease>,
    step: impl Fn(&NodeClaim) -> Option<NodeClaim> + Send,
) -> Result<Option<NodeClaim>, LedgerError> {
    for _ in 0..ATTEMPTS {
        let Some(next) = step(&found) else { return Ok(None) };
        match ports.ledger.update_claim(&next, lease).await {
            Err(LedgerError::Conflict { .. }) => {}
            answer => return answer.map(Some),
        }
        let Some(again) = ports.ledger.claim(&found.name).await? else { return Ok(None) };
        found = again;
    }
    Err(LedgerError::Conflict { what: format!("claim {}", found.name) })
}

/// Keeps new pods away from a node, and load balancers from sending it anything new; fine when it is so already. Works
/// without the lease, and before the end of its claim has begun.
pub(crate) async fn close(ports: Ports<'_>, node: &Node) -> Result<(), ClusterError> {
    change(ports, closing(node)).await
}

/// [`close`] for the drain of an ending claim. Each drain is written down on the node, also where that was closed
/// before, so that nobody opens it any more who saw it before the drain began: its version has changed.
pub(crate) async fn close_for(ports: Ports<'_>, node: &Node, end: &Termination) -> Result<(), ClusterError> {
    change(ports, closing_for(node, end)).await
}

async fn change(ports: Ports<'_>, change: Option<NodeChange>) -> Result<(), ClusterError> {
    match change {
        Some(change) => ports.cluster.change_node(&change).await,
        None => Ok(()),
    }
}

/// The claim once its end has begun, or has to come sooner; `None` when the cause changes nothing.
pub(crate) fn ending(claim: &NodeClaim, cause: &Cause, now: Timestamp) -> Option<NodeClaim> {
    let state = match (claim.status.state, cause.reason.is_past_draining()) {
        (ClaimState::Registered | ClaimState::Initialized | ClaimState::Draining, false) => {
            ClaimState::Draining
        }
        (ClaimState::Launched, _)
        | (ClaimState::Registered | ClaimState::Initialized | ClaimState::Draining, true) => {
            ClaimState::Terminating
        }
        (ClaimState::Intent | ClaimState::Terminating | ClaimState::Gone | ClaimState::Failed, _) => {
            return None;
        }
    };
    let mut end = claim.status.termination.clone().unwrap_or_else(|| begun(claim, cause, now));
    end.by = end.by.into_iter().chain(cause.by).min();
    if state == ClaimState::Terminating {
        end.terminating_at = end.terminating_at.or(Some(now));
    }
    let changed = state != claim.status.state || claim.status.termination.as_ref() != Some(&end);
    changed.then(|| {
        claim.clone().with_status(|status| {
            status.state = state;
            status.termination = Some(end);
            status.command = None;
        })
    })
}

fn begun(claim: &NodeClaim, cause: &Cause, now: Timestamp) -> Termination {
    let grace = claim.spec.termination_grace_period.and_then(NillableDuration::get);
    let by = grace.map(|grace| now.saturating_add(grace).unwrap_or(Timestamp::MAX));
    let replaced_by = cause.replaced_by.clone();
    Termination { by, replaced_by, ..Termination::new(cause.reason, &cause.message, now) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::fixtures::{at, claim, node};
    use std::collections::BTreeMap;

    const ALL: [ClaimState; 8] = [
        ClaimState::Intent,
        ClaimState::Launched,
        ClaimState::Registered,
        ClaimState::Initialized,
        ClaimState::Draining,
        ClaimState::Terminating,
        ClaimState::Gone,
        ClaimState::Failed,
    ];

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
        let own = BTreeMap::from([(labels::EXCLUDE_FROM_LOAD_BALANCERS.to_owned(), "me".to_owned())]);
        let excluded = Node { labels: own, ..closed.clone() };
        assert_eq!(reopening(&excluded).gone_labels.len(), 0, "somebody else's label stays");
        let reopened = Node { taints: Vec::new(), ..closed };
        assert_eq!(closing(&reopened).unwrap().labels.len(), 0, "the label is there");
    }

    #[test]
    fn each_drain_writes_to_a_node_once_even_where_it_is_closed() {
        let end = begun(&claim(), &Cause::new(TerminationReason::Deleted, "test"), at(7));
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

    #[test]
    fn states_only_move_along_their_edges() {
        for reason in [TerminationReason::Deleted, TerminationReason::InstanceGone] {
            for state in ALL {
                let before = claim().with_status(|status| status.state = state);
                let after = ending(&before, &Cause::new(reason, "test"), at(0));
                let became = after.map(|claim| claim.status.state);
                let expected = match state {
                    ClaimState::Launched => Some(ClaimState::Terminating),
                    ClaimState::Registered | ClaimState::Initialized | ClaimState::Draining => {
                        let past = reason == TerminationReason::InstanceGone;
                        Some(if past { ClaimState::Terminating } else { ClaimState::Draining })
                    }
                    _ => None,
                };
                assert_eq!(became, expected, "{state:?} {reason}");
                assert!(became.is_none_or(|next| next == state || state.may_become(next)), "{state:?}");
            }
        }
    }

    #[test]
    fn patience_ends_at_the_earliest_time_that_anybody_named() {
        let draining = |by: Option<i64>, asked: Option<i64>, now: i64| {
            let grace = by.map(|seconds| NillableDuration::seconds(seconds.unsigned_abs()));
            let mut living = claim().with_status(|status| status.state = ClaimState::Initialized);
            living.spec.termination_grace_period = grace;
            let cause = Cause { by: asked.map(at), ..Cause::new(TerminationReason::Deleted, "test") };
            ending(&living, &cause, at(now)).unwrap()
        };
        let by = |claim: &NodeClaim| claim.status.termination.as_ref().unwrap().by.map(Timestamp::as_second);
        assert_eq!(by(&draining(None, None, 10)), None);
        assert_eq!(by(&draining(Some(60), None, 10)), Some(70));
        assert_eq!(by(&draining(Some(60), Some(30), 10)), Some(30));
        assert_eq!(by(&draining(Some(60), Some(300), 10)), Some(70));
        let ends = draining(Some(60), None, 10);
        let again = |asked: Option<i64>| {
            let cause = Cause { by: asked.map(at), ..Cause::new(TerminationReason::Interrupted, "again") };
            ending(&ends, &cause, at(20))
        };
        assert_eq!(again(None), None, "a second cause is no news");
        assert_eq!(again(Some(100)), None, "and never a reprieve");
        let sooner = again(Some(50)).unwrap();
        assert_eq!((by(&sooner), sooner.status.state), (Some(50), ClaimState::Draining));
        assert_eq!(sooner.status.termination.unwrap().reason, TerminationReason::Deleted);
    }
}
