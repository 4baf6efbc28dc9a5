//! Claims.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Claims, Lease, LedgerError};
use outrigger_model::NodeClaim;

use super::{Table, limits};
use crate::door::{Call, Door};
use crate::laws;

#[async_trait]
impl Claims for Door {
    async fn adopt(&self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<(), LedgerError> {
        self.call_on(Call::Adopt, &claim.name, |state, _| {
            let table = &mut state.ledger;
            table.check_lease_if_any(lease)?;
            if table.claims.contains_key(&claim.name) {
                return Err(conflict(claim));
            }
            table.claims.insert(claim.name.clone(), NodeClaim { version: 1, ..claim.clone() });
            table.claim_writes += 1;
            table.generation += 1;
            Ok(())
        })
        .await
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

impl Table {
    /// Every claim ever written, in order of name.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &NodeClaim> {
        self.claims.values()
    }

    /// How often a claim was written.
    pub(crate) const fn claim_writes(&self) -> u64 {
        self.claim_writes
    }

    /// Errors where a claim does not stand at the version that was read.
    pub(super) fn check_version(&self, claim: &NodeClaim) -> Result<(), LedgerError> {
        let is_current = |stored: &&NodeClaim| stored.version == claim.version || !self.promises.versions;
        let stored = self.claims.get(&claim.name).filter(is_current);
        stored.map(|_| ()).ok_or_else(|| conflict(claim))
    }

    /// Writes a claim over the one that is there.
    pub(super) fn replace(&mut self, claim: &NodeClaim) -> NodeClaim {
        let next = claim.in_next_version();
        self.claim_writes += 1;
        let before = self.claims.insert(next.name.clone(), next.clone());
        let before = self.unwritten.remove(&next.name).or(before);
        self.broken.extend(before.iter().flat_map(|before| backwards(before, claim)));
        self.restate(&next.name);
        next
    }
}

/// Somebody else has written the claim first.
fn conflict(claim: &NodeClaim) -> LedgerError {
    LedgerError::Conflict { what: format!("claim {}", claim.name) }
}

/// What a write does to a claim that must never happen: a step that is none, or patience that
/// grows.
fn backwards(before: &NodeClaim, after: &NodeClaim) -> Vec<String> {
    let mut broken = Vec::new();
    let (from, to) = (before.status.state, after.status.state);
    if from != to && !from.may_become(to) || from == to && from.is_terminal() {
        broken.push(format!("claim {} went from {from:?} to {to:?}", after.name));
    }
    let by =
        |claim: &NodeClaim| claim.status.termination.as_ref().map(|end| end.by.unwrap_or(Timestamp::MAX));
    if by(before).is_some_and(|before| by(after).is_none_or(|after| after > before)) {
        broken.push(format!("claim {} was given more time to end", after.name));
    }
    broken
}
