//! Claims as statements make them: interrupted claims end, commands hold theirs. Whoever states
//! something has no right to write the claim itself.

use std::collections::BTreeMap;

use outrigger_model::{ClaimState, NodeClaim, TerminationCause, TerminationReason};

use super::{Interruption, LedgerState};

impl Interruption {
    /// The claim once it ends by this; `None` where it ends already, has no instance yet, or no
    /// interruption has such a reason.
    pub fn ended(&self, claim: &NodeClaim) -> Option<NodeClaim> {
        let is_interruption = matches!(self.reason, TerminationReason::Interrupted | TerminationReason::Lost);
        if !is_interruption {
            tracing::warn!(claim = self.claim, reason = %self.reason, "no interruption has this reason");
            return None;
        }
        claim.ending(&TerminationCause::new(self.reason, &self.message), self.at)
    }
}

impl LedgerState {
    /// The state with its claims as interruptions and commands have them. Every ledger hands it out
    /// so. Of two commands over one claim the first holds it.
    #[must_use]
    pub fn with_statements(mut self) -> Self {
        let interruptions: BTreeMap<&str, &Interruption> =
            self.interruptions.iter().map(|stated| (stated.claim.as_str(), stated)).collect();
        let mut holding: BTreeMap<&str, &str> = BTreeMap::new();
        for command in &self.commands {
            for claim in &command.claims {
                holding.entry(claim).or_insert(&command.id);
            }
        }
        for claim in &mut self.claims {
            let stated = interruptions.get(claim.name.as_str());
            if let Some(ended) = stated.and_then(|stated| stated.ended(claim)) {
                *claim = ended;
            }
            let held =
                holding.get(claim.name.as_str()).filter(|_| claim.status.state == ClaimState::Initialized);
            claim.status.command = held.map(|id| (*id).to_owned());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::Command;
    use outrigger_model::fixtures::{at, claim};

    fn stated(reason: TerminationReason) -> Interruption {
        Interruption { claim: claim().name, reason, message: "test".into(), at: at(5) }
    }

    fn state(of_claim: ClaimState, interruptions: Vec<Interruption>, commands: Vec<Command>) -> NodeClaim {
        let claims = vec![claim().with_status(|status| status.state = of_claim)];
        let state = LedgerState { claims, commands, interruptions, ..LedgerState::default() };
        state.with_statements().claims.remove(0)
    }

    #[test]
    fn a_claim_ends_by_what_was_stated_of_it_as_soon_as_it_can() {
        use ClaimState::{Draining, Initialized, Intent, Launched, Terminating};
        for (before, after) in
            [(Intent, Intent), (Launched, Terminating), (Initialized, Draining), (Terminating, Terminating)]
        {
            let read = state(before, vec![stated(TerminationReason::Interrupted)], Vec::new());
            assert_eq!(read.status.state, after, "{before:?}");
        }
        let read = state(Initialized, vec![stated(TerminationReason::Lost)], Vec::new());
        assert_eq!(
            read.status.termination.map(|end| (end.reason, end.since)),
            Some((TerminationReason::Lost, at(5)))
        );
    }

    #[test]
    fn no_interruption_has_the_reason_of_a_decision() {
        for reason in [TerminationReason::Deleted, TerminationReason::Empty, TerminationReason::InstanceGone]
        {
            assert_eq!(
                state(ClaimState::Initialized, vec![stated(reason)], Vec::new()).status.termination,
                None
            );
        }
    }

    #[test]
    fn the_first_command_holds_a_claim_that_is_ready_and_does_not_end() {
        let command = |id: &str| Command {
            id: id.into(),
            ..Command::new(TerminationReason::Rebalanced, "test", vec![claim().name], at(0))
        };
        let both = vec![command("a"), command("b")];
        let read = state(ClaimState::Initialized, Vec::new(), both.clone());
        assert_eq!(read.status.command.as_deref(), Some("a"));
        assert_eq!(state(ClaimState::Registered, Vec::new(), both.clone()).status.command, None);
        let ends = state(ClaimState::Initialized, vec![stated(TerminationReason::Interrupted)], both);
        assert_eq!((ends.status.command, ends.status.state), (None, ClaimState::Draining));
    }
}
