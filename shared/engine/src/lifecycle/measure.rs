//! Nodes that are not what was bought: too little of something, or several in the place of one.

use outrigger_model::{Node, NodeCheck, NodeClaim, SeenResources, Shortfall};

use super::Tick;
use crate::TickError;
use crate::node::consistency;
use crate::ports::{Event, Subject};

impl Tick<'_> {
    /// Notes in a claim what its machine has by the catalogue; nothing for a type that the catalogue lacks.
    pub(super) async fn note_expected(&mut self, claim: &mut NodeClaim) -> Result<(), TickError> {
        let is_kops = claim.spec.node_class.is_instance_group();
        let Some(instance_type) =
            claim.status.instance.as_ref().map(|instance| instance.instance_type.clone())
        else {
            return Ok(());
        };
        let entry = self.catalog().await?.entry(&instance_type);
        claim.status.node_check.expected =
            entry.map(|entry| consistency::expected(&entry.facts, is_kops)).unwrap_or_default();
        Ok(())
    }

    /// Writes down what the nodes of a claim differ in from what was bought, and tells people, whenever that changes.
    pub(super) async fn measure(&mut self, claim: &mut NodeClaim, nodes: &[&Node]) -> Result<(), TickError> {
        let mut duplicates: Vec<String> = match nodes {
            [] | [_] => Vec::new(),
            several => several.iter().map(|node| node.name.clone()).collect(),
        };
        duplicates.sort();
        let shortfall = match nodes {
            [node] if claim.status.initialized_at.is_some() => consistency::shortfall(claim, node),
            _ => claim.status.node_check.shortfall.as_ref().map(|known| known.message.clone()),
        };
        let check = &claim.status.node_check;
        let known = check.shortfall.as_ref().map(|known| &known.message);
        let is_known = known == shortfall.as_ref();
        if check.duplicates == duplicates && is_known {
            return Ok(());
        }
        if !duplicates.is_empty() && check.duplicates != duplicates {
            let message = format!("several nodes carry its providerID: {}", duplicates.join(", "));
            self.complain(claim, "MultipleNodesFound", message).await;
        }
        if let Some(message) = shortfall.clone().filter(|_| !is_known) {
            self.complain(claim, "FailedConsistencyCheck", message).await;
        }
        let since = self.ports.now();
        let mut node_check = NodeCheck { duplicates, ..claim.status.node_check.clone() };
        if !is_known {
            node_check.shortfall = shortfall.map(|message| Shortfall { since, message });
        }
        let next = claim.clone().with_status(|status| status.node_check = node_check);
        *claim = self.ports.ledger.update_claim(&next, None).await?;
        Ok(())
    }

    async fn complain(&self, claim: &NodeClaim, reason: &'static str, message: String) {
        tracing::warn!(claim = claim.name, reason, message, "the node is not what was bought");
        let about = Subject::NodeClaim { name: claim.name.clone(), uid: self.mirrors.uid(&claim.name) };
        self.patience.tell(self.ports, Event { about, warning: true, reason, message }).await;
    }

    /// Remembers what the node of a claim offers, where that is news about its type, image and class.
    pub(super) async fn learn(&mut self, claim: &NodeClaim, node: &Node) -> Result<(), TickError> {
        if let Some(lesson) = consistency::lesson(claim, node, &self.seen_resources) {
            let SeenResources { instance_type, image_id, memory, allocatable, .. } = &lesson;
            tracing::info!(instance_type, image_id, %memory, %allocatable, "learnt");
            self.ports.ledger.put_seen_resources(&lesson, self.ports.now()).await?;
            self.seen_resources.retain(|known| known.key() != lesson.key());
            self.seen_resources.push(lesson);
        }
        Ok(())
    }
}
