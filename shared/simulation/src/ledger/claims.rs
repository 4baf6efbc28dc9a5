//! Claims.

use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError};
use outrigger_model::NodeClaim;

use super::Table;

impl Table {
    /// Every claim ever written, in order of name.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &NodeClaim> {
        self.claims.values()
    }

    /// How often a claim was written.
    pub(crate) const fn claim_writes(&self) -> u64 {
        self.claim_writes
    }

    /// Writes a claim down whose instance runs already.
    pub(crate) fn adopt(&mut self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<(), LedgerError> {
        self.check_lease_if_any(lease)?;
        if self.claims.contains_key(&claim.name) {
            return Err(conflict(claim));
        }
        self.claims.insert(claim.name.clone(), NodeClaim { version: 1, ..claim.clone() });
        self.claim_writes += 1;
        self.generation += 1;
        Ok(())
    }

    /// Errors where a claim does not stand at the version that was read.
    pub(crate) fn check_version(&self, claim: &NodeClaim) -> Result<(), LedgerError> {
        let is_current = |stored: &&NodeClaim| stored.version == claim.version || !self.promises.versions;
        let stored = self.claims.get(&claim.name).filter(is_current);
        stored.map(|_| ()).ok_or_else(|| conflict(claim))
    }

    /// Writes a claim over the one that is there.
    pub(crate) fn replace(&mut self, claim: &NodeClaim) -> NodeClaim {
        let next = claim.in_next_version();
        self.claim_writes += 1;
        let shown = self.claims.insert(next.name.clone(), next.clone());
        let written = self.unwritten.remove(&next.name);
        // Who writes has read the claim as it was written, or with what was stated of it since.
        let seen = written.iter().chain(&shown).map(|before| backwards(before, claim));
        self.broken.extend(seen.min_by_key(Vec::len).unwrap_or_default());
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
