//! What people ask for by annotating NodeClaim objects: that their nodes be left alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::{Node, NodeClaim, labels};

use super::tick::Tick;
use crate::ports::Lease;

impl Tick<'_> {
    /// Nodes with what their NodeClaim objects ask for.
    pub(crate) fn with_wishes(&self, mut nodes: Vec<Arc<Node>>, claims: &[NodeClaim]) -> Vec<Arc<Node>> {
        let wishes: BTreeMap<&str, String> = claims
            .iter()
            .filter_map(|claim| Some((claim.name.as_str(), self.mirrors.do_not_disrupt(claim)?)))
            .collect();
        if !wishes.is_empty() {
            for node in &mut nodes {
                let claim = node.annotations.get(labels::CLAIM);
                let wish = claim.and_then(|name| wishes.get(name.as_str()));
                if node.claim_do_not_disrupt.as_ref() != wish {
                    Arc::make_mut(node).claim_do_not_disrupt = wish.cloned();
                }
            }
        }
        nodes
    }

    /// Writes into claims what their objects ask for, so that the functions know it that do not
    /// read the objects. What cannot be written now is left for the next pass.
    pub(crate) async fn note_wishes(&mut self, claims: &mut [NodeClaim], lease: Option<&Lease>) {
        if !self.mirrors.are_known() {
            return;
        }
        for claim in claims.iter_mut().filter(|claim| claim.status.state.accepts_pods()) {
            let wish = self.mirrors.do_not_disrupt(claim);
            if wish == claim.status.do_not_disrupt || self.time_is_up() {
                continue;
            }
            let next = claim.clone().with_status(|status| status.do_not_disrupt = wish);
            match self.ports.ledger.update_claim(&next, lease).await {
                Ok(written) => *claim = written,
                Err(error) => self.report_stuck_claim(&claim.name.clone(), &error.into()),
            }
        }
    }
}
