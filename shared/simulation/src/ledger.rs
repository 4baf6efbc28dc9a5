//! The ledger in memory, with the conditions that the port promises. One write is one transaction.
//!
//! Functions read and change it through their door alone, call by call.

mod claims;
mod commands;
mod interruptions;
mod launches;
mod leases;
pub(crate) mod limits;
mod memory;
mod reports;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use outrigger_engine::ports::{Interruption, LedgerState, Sweep};
use outrigger_model::{
    Command, DemandHistory, DisruptionMemory, Intent, LaunchHealth, NodeClaim, Pause, Report, SeenResources,
    UnavailableOffering,
};

use crate::scenario::Promises;
use leases::HeldLease;

/// Everything that the table holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) cluster_uid: Option<String>,
    generation: u64,
    leases: BTreeMap<String, HeldLease>,
    pub(crate) claims: BTreeMap<String, NodeClaim>,
    /// Raised by every write of a claim, and by every table that takes the place of another.
    pub(crate) claim_writes: u64,
    pub(crate) commands: BTreeMap<String, Command>,
    /// What was stated of claims. In `claims` it stands already, as every reader sees it.
    pub(crate) interruptions: BTreeMap<String, Interruption>,
    /// The claims of which something was stated that nobody has written into them yet, as they are
    /// written.
    pub(crate) unwritten: BTreeMap<String, NodeClaim>,
    pub(crate) intents: BTreeMap<String, Intent>,
    /// Events that were handled, and until when that counts.
    pub(crate) handled: BTreeMap<String, Timestamp>,
    /// With the moment at which each was noted.
    unavailable: BTreeMap<(String, String, &'static str), (UnavailableOffering, Duration)>,
    pub(crate) seen_resources: Vec<SeenResources>,
    pub(crate) reports: BTreeMap<String, (Timestamp, Report)>,
    pub(crate) sweep: Sweep,
    pub(crate) disruption_memory: DisruptionMemory,
    pub(crate) demand_history: DemandHistory,
    promises: Promises,
    pub(crate) health: LaunchHealth,
    pub(crate) pause: Option<Pause>,
    /// Writes of claims that no claim may undergo.
    pub(crate) broken: Vec<String>,
}

impl Table {
    pub(crate) fn new(promises: Promises) -> Self {
        Self { promises, ..Self::default() }
    }

    /// The table when this older copy takes the place of `current`. Epochs of leases never go back,
    /// since functions that run now hold them.
    pub(crate) fn restored_over(&self, current: &Self) -> Self {
        Self {
            leases: current.leases.clone(),
            broken: current.broken.clone(),
            claim_writes: current.claim_writes + 1,
            ..self.clone()
        }
    }

    /// The table when it has been lost and is empty.
    pub(crate) fn lost(&self) -> Self {
        Self { claim_writes: self.claim_writes + 1, ..Self::default() }
    }

    /// What it holds that is not over, in one moment.
    #[cfg(feature = "week")]
    pub(crate) fn load(&self) -> LedgerState {
        self.load_on(self.first_page())
    }

    /// The beginning of a read: the generation, then the open launches, then some of the claims.
    /// DynamoDB reads a table page by page, and others write between two pages.
    pub(crate) fn first_page(&self) -> LedgerState {
        let open = |intent: &&Intent| !intent.state.is_over();
        let living: Vec<&NodeClaim> =
            self.claims.values().filter(|claim| !claim.status.state.is_terminal()).collect();
        LedgerState {
            generation: self.generation,
            intents: self.intents.values().filter(open).cloned().collect(),
            claims: living.iter().take(living.len() / 2).copied().cloned().collect(),
            ..LedgerState::default()
        }
    }

    /// A read gone on with, after what it has already.
    pub(crate) fn load_on(&self, first: LedgerState) -> LedgerState {
        let last = first.claims.last().map(|claim| claim.name.clone());
        let is_next = |claim: &&NodeClaim| {
            !claim.status.state.is_terminal() && last.as_ref().is_none_or(|last| claim.name > *last)
        };
        let mut claims = first.claims;
        claims.extend(self.claims.values().filter(is_next).cloned());
        let state = LedgerState {
            generation: first.generation,
            intents: first.intents,
            claims,
            commands: self.commands.values().cloned().collect(),
            interruptions: self.interruptions.values().cloned().collect(),
            unavailable: self.unavailable().map(|(offering, _)| offering.clone()).collect(),
            health: self.health.clone(),
            seen_resources: self.seen_resources.clone(),
            pause: self.pause.clone(),
        };
        state.with_statements()
    }

    /// Laws that writes have broken.
    pub(crate) fn broken(&self) -> &[String] {
        &self.broken
    }
}
