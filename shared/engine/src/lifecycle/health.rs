//! Nodes that do not heal: what EC2 says of their instances, what their conditions say, and their repair.

use outrigger_model::{Node, NodeClaim};

use super::Tick;
use crate::error::chain;
use crate::node::index::Nodes;
use crate::node::repair::{Health, Verdict};
use crate::ports::{Event, Lease, Subject};

impl Tick<'_> {
    /// Begins the end of claims whose nodes do not heal, or hastens it. Once a sweep is often enough for what must
    /// last for minutes. Without EC2's answer nobody can say how much of a pool is unhealthy, and nothing is done.
    pub(super) async fn repair(
        &mut self,
        claims: &mut [NodeClaim],
        nodes: &Nodes<'_>,
        lease: Option<&Lease>,
    ) {
        let statuses = match self.ports.cloud.instance_statuses().await {
            Ok(statuses) => statuses,
            Err(error) => {
                tracing::warn!(error = chain(&error), "EC2 does not say how its instances are");
                return;
            }
        };
        self.summary.repair_blocked.clear();
        let (guards, now) = (self.settings.guards, self.ports.now());
        let by_conditions = self.settings.node_repair && self.ages_are_known();
        let health = Health::new(&nodes.all, &statuses, by_conditions, guards, now);
        for claim in claims.iter_mut() {
            let on = nodes.of_claim(claim);
            match health.verdict(claim, on) {
                None => {}
                Some(Verdict::End(cause)) if self.is_paused(cause.reason) => {}
                Some(Verdict::End(cause)) => self.begin_end(claim, &cause, lease).await,
                Some(Verdict::Blocked(why)) => self.tell_of_blocked_repair(claim, on, why.to_string()).await,
            }
            if self.time_is_up() {
                break;
            }
        }
    }

    async fn tell_of_blocked_repair(&mut self, claim: &NodeClaim, nodes: &[&Node], why: String) {
        tracing::warn!(claim = claim.name, why, "the node is not repaired");
        for node in nodes {
            let (about, reason) = (Subject::node(node), "NodeRepairBlocked");
            self.patience
                .tell(self.ports, Event { about, warning: true, reason, message: why.clone() })
                .await;
        }
        self.summary.repair_blocked.insert(claim.name.clone(), why);
    }
}
