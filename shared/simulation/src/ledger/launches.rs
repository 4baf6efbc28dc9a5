//! Launches, and what becomes of their claims when they are answered.

use jiff::Timestamp;
use outrigger_engine::ports::{Lease, LedgerError, PreparedLaunch};
use outrigger_model::{ClaimOutcome, ClaimState, Intent, IntentState};

use super::{Table, limits};

impl Table {
    /// Every intent ever written, in order of id.
    pub(crate) fn intents(&self) -> impl Iterator<Item = &Intent> {
        self.intents.values()
    }

    pub(crate) fn prepare(&mut self, lease: &Lease, launch: &PreparedLaunch) -> Result<u64, LedgerError> {
        self.check_lease(lease)?;
        limits::check(&launch.claims)?;
        let taken = launch.claims.iter().any(|claim| self.claims.contains_key(&claim.name));
        if launch.generation != self.generation || taken || self.intents.contains_key(&launch.intent.id) {
            return Err(LedgerError::Conflict { what: "the generation".into() });
        }
        self.claim_writes += 1;
        self.claims.extend(launch.claims.iter().map(|claim| (claim.name.clone(), claim.clone())));
        self.intents.insert(launch.intent.id.clone(), launch.intent.clone());
        self.generation += 1;
        Ok(self.generation)
    }

    /// An intent, if it is in one of these states.
    pub(crate) fn intent(&mut self, id: &str, allowed: &[IntentState]) -> Result<&mut Intent, LedgerError> {
        let stored = self.intents.get_mut(id).filter(|intent| allowed.contains(&intent.state));
        stored.ok_or_else(|| LedgerError::Conflict { what: format!("intent {id}") })
    }

    /// A claim whose launch was answered becomes what its outcome makes of it.
    pub(crate) fn answer(&mut self, outcome: &ClaimOutcome, at: Timestamp) {
        self.claim_writes += 1;
        let claim = self.claims.get_mut(outcome.claim());
        let Some(claim) = claim.filter(|claim| claim.status.state == ClaimState::Intent) else { return };
        *claim = claim.answered(outcome, at);
        self.restate(outcome.claim());
    }
}
