//! Nodes whose providerID names an instance that they are not named after.

use outrigger_model::{ClaimState, Node, NodeClaim};

use super::tick::Tick;
use crate::claim::index::Nodes;
use crate::identity::is_pretender;
use crate::ports::{Event, EventReason, Subject};

impl Tick<'_> {
    /// Tells people of nodes that are not believed, and asks EC2 in the next pass where an address
    /// decides.
    pub(crate) async fn heed_pretenders(&mut self, claims: &[NodeClaim], nodes: &Nodes<'_>) {
        let claim_of = |node: &Node| claims.iter().find(|claim| claim.instance_id() == node.instance_id());
        self.awaits_names = nodes.pretenders.iter().any(|node| {
            claim_of(node)
                .is_some_and(|claim| claim.status.state == ClaimState::Launched && !is_pretender(node, claim))
        });
        for node in &nodes.pretenders {
            let Some(claim) = claim_of(node).filter(|claim| is_pretender(node, claim)) else { continue };
            let instance = claim.instance_id().unwrap_or_default();
            tracing::warn!(node = node.name, instance, "the node's providerID is not believed");
            let message = format!(
                "its providerID names the instance {instance}, but {} is neither that id nor the instance's private \
                 DNS name; Outrigger leaves the node alone",
                node.name
            );
            let (about, reason) = (Subject::node(node), EventReason::ForeignProviderID);
            self.patience.tell(self.ports, Event { about, reason, message }).await;
        }
    }
}
