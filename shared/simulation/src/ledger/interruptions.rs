//! What was stated of claims by those who may not write them.

use outrigger_model::ClaimState;

use super::Table;

impl Table {
    /// Makes a claim what every reader sees: as it ends by what was stated of it, and held by the
    /// first command that names it.
    pub(crate) fn restate(&mut self, name: &str) {
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
