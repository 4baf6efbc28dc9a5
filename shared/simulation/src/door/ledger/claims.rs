//! Claims.

use async_trait::async_trait;
use outrigger_engine::ports::{Claims, Lease, LedgerError};
use outrigger_model::NodeClaim;

use crate::calls::Call;
use crate::door::Door;
use crate::laws;
use crate::ledger::limits;

#[async_trait]
impl Claims for Door {
    async fn adopt(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<(), LedgerError> {
        self.call_on(Call::Adopt, &claim.name, |state, _| state.ledger.adopt(claim, lease)).await
    }

    async fn claim(&self, name: &str) -> Result<Option<NodeClaim>, LedgerError> {
        self.look_up(Call::Claim, |table| table.claims.get(name).cloned()).await
    }

    async fn update_claim(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<NodeClaim, LedgerError> {
        self.call_on(Call::UpdateClaim, &claim.name, |state, moment| {
            let by_itself = laws::disruption::end_by_itself(state, claim);
            let though_paused = laws::pause::end(state, self.run().1, claim, moment);
            if laws::ages::are_unknown(self.clock_difference()) {
                state.broken.extend(laws::ages::ended(state.ledger.claims.get(&claim.name), claim));
            }
            let deletions = laws::pools::deletion(state, state.ledger.claims.get(&claim.name), claim, moment);
            state.ledger.check_lease_if_any(lease)?;
            state.ledger.check_version(claim)?;
            limits::check(std::slice::from_ref(claim))?;
            let written = state.ledger.replace(claim);
            state.broken.extend(by_itself.into_iter().chain(though_paused));
            state.broken.extend(deletions);
            state.tell_of(&written, moment);
            Ok(written)
        })
        .await
    }

    /// Nothing here costs anything to be passed over.
    async fn put_away(&self) -> Result<usize, LedgerError> {
        Ok(0)
    }
}
