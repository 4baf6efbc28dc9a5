//! Claims whose Node or NodeClaim somebody deleted: which of them end, and which wait until that is
//! said to be meant.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use outrigger_model::{Node, NodeClaim, TerminationCause, TerminationReason, labels};

use super::Tick;
use crate::error::chain;
use crate::guards::Guard;
use crate::node::deletion;
use crate::node::index::Nodes;
use crate::ports::{Event, Lease, Subject, Sweep};

impl Tick<'_> {
    /// The claims that were deleted, where these are so many at once that none ends before somebody
    /// says that it is meant. Objects that are deleted with their definition are told of, too.
    pub(super) async fn held_deletions(
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
        let breaks = deletion::are_too_many(deleted.len(), ended.len(), claims.len());
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
            let event = Event { about, warning: true, reason: "DeletionHeld", message };
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

    pub(super) fn deleted_of_late(
        &self,
        claims: &[NodeClaim],
        nodes: &Nodes<'_>,
    ) -> BTreeMap<String, Timestamp> {
        let is_meant = |claim: &NodeClaim| self.is_deletion_meant(claim, nodes);
        deletion::of_late(claims, &self.sweep.deleted, is_meant, self.ports.now())
    }

    /// Whether somebody says that the deletion of a claim is meant, on its object or on its node.
    fn is_deletion_meant(&self, claim: &NodeClaim, nodes: &Nodes<'_>) -> bool {
        let says_so =
            |node: &&Node| node.annotations.get(labels::DELETE_ANYWAY).is_some_and(|value| value == "true");
        self.mirrors.is_meant(&claim.name) || nodes.of_claim(claim).iter().any(says_so)
    }

    pub(super) fn deletion(&self, claim: &NodeClaim, nodes: &[&Node]) -> Option<TerminationCause> {
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
