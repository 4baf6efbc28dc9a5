//! What was stated of claims by those who may not write them.

use outrigger_engine::ports::Interruption;
use outrigger_model::ClaimState;

use super::Table;

impl Table {
    /// States it, unless something was stated of the claim before; returns whether nothing was.
    pub(super) fn interrupt(&mut self, stated: &Interruption) -> bool {
        if self.interruptions.contains_key(&stated.claim) {
            return false;
        }
        self.claim_writes += 1;
        self.interruptions.insert(stated.claim.clone(), stated.clone());
        self.restate(&stated.claim);
        true
    }

    /// Forgets it. What stands in no claim by then is lost.
    pub(super) fn forget_interruption(&mut self, claim: &str) {
        self.interruptions.remove(claim);
        if self.unwritten.remove(claim).is_some() {
            self.broken
                .push(format!("the interruption of claim {claim} was forgotten before it was written"));
        }
    }

    /// Makes a claim what every reader sees: as it ends by what was stated of it, and held by the
    /// first command that names it.
    pub(super) fn restate(&mut self, name: &str) {
        let Some(claim) = self.claims.get_mut(name) else { return };
        if let Some(ended) = self.interruptions.get(name).and_then(|stated| stated.ended(claim)) {
            let written = std::mem::replace(claim, ended);
            self.unwritten.insert(name.to_owned(), written);
        }
        let names = |claims: &[String]| claims.iter().any(|claim| claim == name);
        let holding = self.commands.values().find(|command| names(&command.claims));
        let held = holding.filter(|_| claim.status.state == ClaimState::Initialized);
        claim.status.command = held.map(|command| command.id.clone());
    }
}
