//! Claims whose Node or NodeClaim somebody deleted: which of them end, and which wait until that is
//! said to be meant.
//!
//! A chart that is removed, a pool that is deleted or a loop in a shell marks every object within
//! seconds. Whoever does it, so many nodes end only once it is said to be meant.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{Node, NodeClaim, TerminationCause, TerminationReason, labels};

use super::tick::Tick;
use crate::chain::chain;
use crate::claim::index::Nodes;
use crate::guards::Guard;
use crate::ports::{Event, EventReason, Lease, Subject, Sweep};

/// Deletions this close together count together.
const TOGETHER: SignedDuration = SignedDuration::from_mins(10);
/// So many nodes may always be deleted.
const ALWAYS_ALLOWED: usize = 3;
/// Beyond that one in so many.
const ALLOWED_SHARE: usize = 10;

/// The claims whose end began of late since they were deleted, and when that was: those that are
/// not over, and those of `before`. `meant` says which of them are known to be meant.
pub(crate) fn of_late(
    claims: &[NodeClaim],
    before: &BTreeMap<String, Timestamp>,
    meant: impl Fn(&NodeClaim) -> bool,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    let since = |claim: &NodeClaim| {
        let end = claim.status.termination.as_ref();
        end.filter(|end| end.reason == TerminationReason::Deleted).map(|end| end.since)
    };
    let mut ended: BTreeMap<String, Timestamp> = before.clone();
    for claim in claims {
        match since(claim).filter(|_| !meant(claim)) {
            Some(since) => drop(ended.insert(claim.name.clone(), since)),
            None => drop(ended.remove(&claim.name)),
        }
    }
    ended.retain(|_, since| now.duration_since(*since) < TOGETHER);
    ended
}

/// Whether so many are deleted at once that none of the `deleted`, whose end nobody has said to be
/// meant, may end now. `ended` is how many of them have ended of late, of `all` that are not over.
pub(crate) fn are_too_many(deleted: usize, ended: usize, total: usize) -> bool {
    deleted > 0 && deleted + ended > ALWAYS_ALLOWED.max(total / ALLOWED_SHARE)
}

impl Tick<'_> {
    /// The claims that were deleted, where these are so many at once that none ends before somebody
    /// says that it is meant. Objects that are deleted with their definition are told of, too.
    pub(crate) async fn held_deletions(
        &mut self,
        claims: &[NodeClaim],
        nodes: &Nodes<'_>,
        lease: Option<&Lease>,
    ) -> BTreeSet<String> {
        let gone = self.mirrors.gone_with_definition().len();
        if gone > 0 {
            tracing::error!(
                gone,
                "NodeClaims are deleted with their definition, which ends no node: apply it again"
            );
        }
        let living = claims.iter().filter(|claim| claim.status.state.accepts_pods());
        let deleted = living.filter(|claim| self.deletion(claim, nodes.of_claim(claim)).is_some());
        let deleted: BTreeSet<String> = deleted
            .filter(|claim| !self.is_deletion_meant(claim, nodes))
            .map(|claim| claim.name.clone())
            .collect();
        let ended = self.deleted_of_late(claims, nodes);
        let breaks = are_too_many(deleted.len(), ended.len(), claims.len());
        let held = if self.settings.guards.has(Guard::Breaker) && breaks {
            deleted
        } else {
            self.remember_deletions(deleted, ended, lease).await
        };
        self.summary.held_deletions = held.len() + gone;
        if !held.is_empty() {
            tracing::error!(count = held.len(), "so many nodes are deleted at once that none ends");
        }
        for claim in &held {
            let about = Subject::NodeClaim { name: claim.clone(), uid: self.mirrors.uid(claim) };
            let message = format!(
                "{} nodes are deleted at once, of {}; none ends until the annotation {}: \"true\" on \
                 NodeClaim or Node says that it is meant",
                held.len(),
                claims.len(),
                labels::DELETE_ANYWAY
            );
            let event = Event { about, reason: EventReason::DeletionHeld, message };
            self.patience.tell(self.ports, event).await;
        }
        held
    }

    /// Writes down that these claims are about to end. Returns those that must wait since that
    /// failed.
    async fn remember_deletions(
        &mut self,
        deleted: BTreeSet<String>,
        mut ended: BTreeMap<String, Timestamp>,
        lease: Option<&Lease>,
    ) -> BTreeSet<String> {
        let now = self.ports.now();
        if deleted.is_empty() || self.is_paused(TerminationReason::Deleted) {
            return BTreeSet::new();
        }
        ended.extend(deleted.iter().map(|claim| (claim.clone(), now)));
        let next = Sweep { deleted: ended, ..self.sweep.clone() };
        match self.ports.ledger.put_sweep(&next, lease).await {
            Ok(()) => {
                self.sweep = next;
                BTreeSet::new()
            }
            Err(error) => {
                tracing::warn!(
                    error = chain(&error),
                    "what was deleted ends later: it could not be written down"
                );
                deleted
            }
        }
    }

    pub(crate) fn deleted_of_late(
        &self,
        claims: &[NodeClaim],
        nodes: &Nodes<'_>,
    ) -> BTreeMap<String, Timestamp> {
        let is_meant = |claim: &NodeClaim| self.is_deletion_meant(claim, nodes);
        of_late(claims, &self.sweep.deleted, is_meant, self.ports.now())
    }

    /// Whether somebody says that the deletion of a claim is meant, on its object or on its node.
    fn is_deletion_meant(&self, claim: &NodeClaim, nodes: &Nodes<'_>) -> bool {
        let says_so =
            |node: &&Node| node.annotations.get(labels::DELETE_ANYWAY).is_some_and(|value| value == "true");
        self.mirrors.is_meant(&claim.name) || nodes.of_claim(claim).iter().any(says_so)
    }

    pub(crate) fn deletion(&self, claim: &NodeClaim, nodes: &[&Node]) -> Option<TerminationCause> {
        let deleted = |what: &str| {
            Some(TerminationCause::new(TerminationReason::Deleted, format!("its {what} was deleted")))
        };
        // Of several nodes with one providerID nobody knows which is the claim's.
        if matches!(nodes, [node] if node.deleting) {
            return deleted("Node");
        }
        if self.mirrors.is_deleted(&claim.name) { deleted("NodeClaim") } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::fixtures::{at, claim};
    use outrigger_model::{ClaimState, Termination};

    #[test]
    fn three_and_a_tenth_may_be_deleted_together() {
        // Deleted now, ended of late, all, and whether that is too much.
        let table = [
            (0, 0, 0, false),
            (3, 0, 3, false),
            (3, 0, 10, false),
            (4, 0, 10, true),
            (1, 2, 10, false),
            (2, 2, 10, true),
            (10, 0, 100, false),
            (11, 0, 100, true),
            (1, 10, 100, true),
            (0, 20, 100, false),
        ];
        for (deleted, ended, total, expected) in table {
            assert_eq!(are_too_many(deleted, ended, total), expected, "{deleted} {ended} {total}");
        }
    }

    #[test]
    fn what_ended_within_ten_minutes_is_remembered_unless_it_was_meant() {
        let ending = |name: &str, reason, since| {
            let claim = claim().with_status(|status| {
                status.state = ClaimState::Draining;
                status.termination = Some(Termination::new(reason, "test", at(since)));
            });
            NodeClaim { name: name.into(), ..claim }
        };
        let deleted = TerminationReason::Deleted;
        let claims = [
            ending("lately", deleted, 900),
            ending("long-ago", deleted, 400),
            ending("meant", deleted, 900),
            ending("expired", TerminationReason::Expired, 900),
            NodeClaim { name: "lives".into(), ..claim() },
        ];
        let before = [("gone", 800), ("gone-long", 400), ("meant", 900)];
        let before = before.map(|(name, since)| (name.to_owned(), at(since))).into();
        let deletions = of_late(&claims, &before, |claim| claim.name == "meant", at(1_000));
        assert_eq!(deletions, [("gone".to_owned(), at(800)), ("lately".to_owned(), at(900))].into());
    }
}
