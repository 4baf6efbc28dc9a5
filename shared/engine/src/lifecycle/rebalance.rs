//! Nodes that are to be replaced before they are drained: EC2's rebalance recommendations, where they are followed.

use std::collections::BTreeSet;

use outrigger_model::{ClaimState, NillableDuration, Node, NodeClaim, TerminationReason};

use super::{ByInstance, Tick, nodes_of};
use crate::TickError;
use crate::observe::chain;
use crate::ports::{Event, Lease, Subject};
use crate::rebalance::{PATIENCE, Step, kept_by, step};
use crate::staying::{Staying, disruption_budgets};
use crate::terminate::Cause;

impl Tick<'_> {
    /// Begins the end of claims whose replacements are ready, and leaves those alone that have waited for long enough.
    pub(super) async fn rebalance(
        &mut self,
        claims: &mut [NodeClaim],
        by_instance: &ByInstance<'_>,
        lease: Option<&Lease>,
    ) {
        let is_ready = |claim: &&NodeClaim| claim.state == ClaimState::Initialized;
        let ready: BTreeSet<String> =
            claims.iter().filter(is_ready).map(|claim| claim.name.clone()).collect();
        for claim in claims {
            let Some(step) = step(claim, &ready, self.ports.now()) else { continue };
            if self.time_is_up() {
                return;
            }
            let on = nodes_of(claim, by_instance);
            if let Err(error) = self.replace(claim, (step, &on), lease).await {
                self.cannot_go_on(&claim.name, &error);
            }
        }
    }

    async fn replace(
        &mut self,
        claim: &mut NodeClaim,
        (step, nodes): (Step, &[&Node]),
        lease: Option<&Lease>,
    ) -> Result<(), TickError> {
        if let Step::Wait(what) = step {
            self.summary.waiting.insert(claim.name.clone(), what);
            return Ok(());
        }
        let kept = self.kept(nodes).await?;
        match (step, kept) {
            (Step::Drain, None) => {
                let message = "EC2 expects to take its spot instance back, and what replaces it is ready";
                let cause = Cause::new(TerminationReason::Rebalanced, message);
                self.begin_end(claim, &cause, lease).await;
            }
            (Step::Drain, Some(why)) => drop(self.summary.waiting.insert(claim.name.clone(), why)),
            (_, kept) => {
                *claim = self.ports.ledger.update_claim(&unmarked(claim), lease).await?;
                self.tell_of_no_replacement(claim, nodes, kept).await;
            }
        }
        Ok(())
    }

    /// Why none of the nodes may be drained of our own accord, by what is on them now.
    async fn kept(&self, nodes: &[&Node]) -> Result<Option<String>, TickError> {
        let budgets = disruption_budgets(self.ports).await?;
        let staying = Staying { budgets: &budgets, now: self.ports.now() };
        for node in nodes {
            let pods = self.ports.cluster.pods_on(&node.name).await?;
            if let Some(why) = kept_by(node, pods.iter().map(|on| &on.pod), &staying) {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    async fn tell_of_no_replacement(&self, claim: &NodeClaim, nodes: &[&Node], kept: Option<String>) {
        let patience = NillableDuration::seconds(PATIENCE.as_secs());
        let why = kept.unwrap_or_else(|| format!("nothing that replaces it was ready within {patience}"));
        let message = format!("it is not drained on EC2's rebalance recommendation: {why}");
        tracing::warn!(claim = claim.name, message, "the node is left as it is");
        for about in nodes.iter().map(|node| Subject::node(node)) {
            let event = Event { about, warning: true, reason: "DisruptionBlocked", message: message.clone() };
            if let Err(error) = self.ports.cluster.publish_event(&event).await {
                tracing::warn!(claim = claim.name, error = chain(&error), "the event was not published");
            }
        }
    }
}

fn unmarked(claim: &NodeClaim) -> NodeClaim {
    NodeClaim { rebalance: None, ..claim.clone() }
}
