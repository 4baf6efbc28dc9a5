//! What `interrupt` has stated of claims, written into them.

use outrigger_model::NodeClaim;

use super::tick::Tick;
use crate::TickError;
use crate::ports::{Interruption, Lease};

impl Tick<'_> {
    /// Writes into claims what was stated of them, and forgets the statements. Whoever dies in
    /// between leaves the statement, and the next pass writes the same again.
    pub(crate) async fn note_interruptions(
        &mut self,
        claims: &mut [NodeClaim],
        interruptions: &[Interruption],
        lease: Option<&Lease>,
    ) {
        for stated in interruptions {
            if self.time_is_up() {
                return;
            }
            let claim = claims.iter_mut().find(|claim| claim.name == stated.claim);
            // What has no instance yet ends as soon as it has one.
            if claim.as_ref().is_some_and(|claim| claim.instance_id().is_none()) {
                continue;
            }
            if let Err(error) = self.note_interruption(claim, stated, lease).await {
                self.report_stuck_claim(&stated.claim, &error);
            }
        }
    }

    async fn note_interruption(
        &self,
        claim: Option<&mut NodeClaim>,
        stated: &Interruption,
        lease: Option<&Lease>,
    ) -> Result<(), TickError> {
        if let Some(claim) = claim {
            *claim = self.ports.ledger.update_claim(claim, lease).await?;
        }
        self.ports.ledger.forget_interruption(stated).await?;
        Ok(())
    }
}
