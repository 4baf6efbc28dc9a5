//! The ledger in memory, with the conditions that the port promises. One write is one transaction.

mod commands;
mod interruptions;
mod limits;
mod port;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use outrigger_engine::ports::{Interruption, Lease, LedgerError, LedgerState, PreparedLaunch, Sweep};
use outrigger_model::{
    ClaimOutcome, ClaimState, Command, DemandHistory, DisruptionMemory, Intent, IntentState, LaunchHealth,
    NodeClaim, Pause, Report, SeenResources, UnavailableOffering,
};

use crate::scenario::Promises;
use crate::time::{Moment, after};

/// Everything that the table holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    cluster_uid: Option<String>,
    generation: u64,
    leases: BTreeMap<String, HeldLease>,
    claims: BTreeMap<String, NodeClaim>,
    /// Raised by every write of a claim, and by every table that takes the place of another.
    claim_writes: u64,
    commands: BTreeMap<String, Command>,
    /// What was stated of claims. In `claims` it stands already, as every reader sees it.
    interruptions: BTreeMap<String, Interruption>,
    /// The claims of which something was stated that nobody has written into them yet, as they are
    /// written.
    unwritten: BTreeMap<String, NodeClaim>,
    intents: BTreeMap<String, Intent>,
    /// Events that were handled, and until when that counts.
    handled: BTreeMap<String, Timestamp>,
    /// With the moment at which each was noted.
    unavailable: BTreeMap<(String, String, &'static str), (UnavailableOffering, Duration)>,
    seen_resources: Vec<SeenResources>,
    reports: BTreeMap<String, (Timestamp, Report)>,
    sweep: Sweep,
    disruption_memory: DisruptionMemory,
    demand_history: DemandHistory,
    promises: Promises,
    health: LaunchHealth,
    pause: Option<Pause>,
    /// Writes of claims that no claim may undergo.
    broken: Vec<String>,
}

/// A lease stays as an item when it is given back, so that its epoch only ever rises.
#[derive(Clone, Debug)]
struct HeldLease {
    owner: Option<String>,
    epoch: u64,
    expires_at: Timestamp,
    /// How often somebody took it who found it over and not given back.
    taken_over: usize,
    /// The longest that it was ever kept for at once.
    longest: Duration,
}

impl Table {
    pub(crate) fn new(promises: Promises) -> Self {
        Self { promises, ..Self::default() }
    }

    /// How often the lease of each function was taken over from one who had not given it back, and
    /// the longest that it was kept for at once.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (&str, usize, Duration)> {
        self.leases.iter().map(|(function, held)| (function.as_str(), held.taken_over, held.longest))
    }

    /// Every claim ever written, in order of name.
    pub(crate) fn claims(&self) -> impl Iterator<Item = &NodeClaim> {
        self.claims.values()
    }

    /// Every intent ever written, in order of id.
    pub(crate) fn intents(&self) -> impl Iterator<Item = &Intent> {
        self.intents.values()
    }

    fn bind(&mut self, cluster_uid: &str) -> Result<(), LedgerError> {
        let found = self.cluster_uid.get_or_insert_with(|| cluster_uid.to_owned());
        if found == cluster_uid {
            return Ok(());
        }
        Err(LedgerError::Foreign { found: found.clone(), expected: cluster_uid.to_owned() })
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

    /// How often a claim was written.
    pub(crate) const fn claim_writes(&self) -> u64 {
        self.claim_writes
    }

    /// Writes a claim that no launch has made.
    fn adopt(&mut self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<(), LedgerError> {
        if let Some(lease) = lease {
            self.check_lease(lease)?;
        }
        if self.claims.contains_key(&claim.name) {
            return Err(LedgerError::Conflict { what: format!("claim {}", claim.name) });
        }
        self.claims.insert(claim.name.clone(), NodeClaim { version: 1, ..claim.clone() });
        self.claim_writes += 1;
        self.generation += 1;
        Ok(())
    }

    fn acquire(&mut self, function: &str, owner: &str, now: Timestamp, ttl: Duration) -> Option<Lease> {
        let expires_at = after(now, ttl);
        let lease = self.leases.entry(function.to_owned()).or_insert(HeldLease {
            owner: None,
            epoch: 0,
            expires_at,
            taken_over: 0,
            longest: ttl,
        });
        match lease.owner.as_deref() {
            Some(holder) if holder == owner => {}
            Some(_) if lease.expires_at > now => return None,
            holder => {
                lease.taken_over += usize::from(holder.is_some());
                lease.epoch += 1;
            }
        }
        lease.owner = Some(owner.to_owned());
        lease.expires_at = expires_at;
        Some(Lease { function: function.to_owned(), owner: owner.to_owned(), epoch: lease.epoch })
    }

    fn renew(&mut self, lease: &Lease, now: Timestamp, ttl: Duration) -> Result<(), LedgerError> {
        self.check_lease(lease)?;
        if let Some(held) = self.leases.get_mut(&lease.function) {
            held.expires_at = after(now, ttl);
            held.longest = held.longest.max(ttl);
        }
        Ok(())
    }

    fn release(&mut self, lease: &Lease) {
        if self.check_lease(lease).is_ok()
            && let Some(held) = self.leases.get_mut(&lease.function)
        {
            held.owner = None;
        }
    }

    fn check_lease(&self, lease: &Lease) -> Result<(), LedgerError> {
        let held = self.leases.get(&lease.function);
        let current =
            |held: &HeldLease| held.epoch == lease.epoch && held.owner.as_ref() == Some(&lease.owner);
        if held.is_some_and(current) || !self.promises.epochs {
            Ok(())
        } else {
            Err(LedgerError::LeaseLost { function: lease.function.clone() })
        }
    }

    /// What it holds that is not over, in one moment.
    #[cfg(feature = "week")]
    pub(crate) fn load(&self) -> LedgerState {
        self.load_on(self.first_page())
    }

    /// The beginning of a read: the generation, then the open launches, then some of the claims.
    /// DynamoDB reads a table page by page, and others write between two pages.
    fn first_page(&self) -> LedgerState {
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
    fn load_on(&self, first: LedgerState) -> LedgerState {
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

    fn prepare(&mut self, lease: &Lease, launch: &PreparedLaunch) -> Result<u64, LedgerError> {
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

    fn mark_sent(&mut self, lease: &Lease, intent: &str, at: Timestamp) -> Result<(), LedgerError> {
        self.check_lease(lease)?;
        let item = self.intent(intent, &[IntentState::Prepared])?;
        item.state = IntentState::Sent;
        item.sent_at = Some(at);
        Ok(())
    }

    fn resolve(&mut self, intent: &str, outcomes: &[ClaimOutcome], at: Timestamp) -> Result<(), LedgerError> {
        let item = self.intent(intent, &[IntentState::Sent, IntentState::Resolved])?;
        if item.state == IntentState::Resolved {
            return Ok(());
        }
        item.state = IntentState::Resolved;
        item.ended_at = Some(at);
        for outcome in outcomes {
            self.answer(outcome, at);
        }
        Ok(())
    }

    /// A claim whose launch was answered becomes what its outcome makes of it.
    fn answer(&mut self, outcome: &ClaimOutcome, at: Timestamp) {
        self.claim_writes += 1;
        let claim = self.claims.get_mut(outcome.claim());
        let Some(claim) = claim.filter(|claim| claim.status.state == ClaimState::Intent) else { return };
        *claim = claim.answered(outcome, at);
        self.restate(outcome.claim());
    }

    fn abandon(&mut self, intent: &str, why: &str, at: Timestamp) -> Result<(), LedgerError> {
        let allowed = [IntentState::Prepared, IntentState::Sent, IntentState::Abandoned];
        let item = self.intent(intent, &allowed)?;
        if item.state == IntentState::Abandoned {
            return Ok(());
        }
        item.state = IntentState::Abandoned;
        item.ended_at = Some(at);
        for claim in item.claims.clone() {
            self.answer(&ClaimOutcome::Failed { claim, why: why.to_owned() }, at);
        }
        Ok(())
    }

    fn intent(&mut self, id: &str, allowed: &[IntentState]) -> Result<&mut Intent, LedgerError> {
        let found = self.intents.get_mut(id).filter(|intent| allowed.contains(&intent.state));
        found.ok_or_else(|| LedgerError::Conflict { what: format!("intent {id}") })
    }

    /// Who holds the lease of a function.
    pub(crate) fn holder(&self, function: &str, now: Timestamp) -> Option<&str> {
        let lease = self.leases.get(function).filter(|lease| lease.expires_at > now)?;
        lease.owner.as_deref()
    }

    /// Laws that writes have broken.
    pub(crate) fn broken(&self) -> &[String] {
        &self.broken
    }

    fn update_claim(&mut self, claim: &NodeClaim, lease: Option<&Lease>) -> Result<NodeClaim, LedgerError> {
        if let Some(lease) = lease {
            self.check_lease(lease)?;
        }
        self.check_version(claim)?;
        limits::check(std::slice::from_ref(claim))?;
        Ok(self.replace(claim))
    }

    fn check_version(&self, claim: &NodeClaim) -> Result<(), LedgerError> {
        let is_current = |stored: &&NodeClaim| stored.version == claim.version || !self.promises.versions;
        let stored = self.claims.get(&claim.name).filter(is_current);
        stored.map(|_| ()).ok_or_else(|| LedgerError::Conflict { what: format!("claim {}", claim.name) })
    }

    /// Writes a claim over the one that is there.
    fn replace(&mut self, claim: &NodeClaim) -> NodeClaim {
        let next = claim.in_next_version();
        self.claim_writes += 1;
        let before = self.claims.insert(next.name.clone(), next.clone());
        let before = self.unwritten.remove(&next.name).or(before);
        self.broken.extend(before.iter().flat_map(|before| backwards(before, claim)));
        self.restate(&next.name);
        next
    }

    fn put_disruption_memory(&mut self, memory: &DisruptionMemory, lease: &Lease) -> Result<(), LedgerError> {
        self.check_lease(lease)?;
        self.disruption_memory = memory.clone();
        Ok(())
    }

    fn put_demand_history(&mut self, history: &DemandHistory, lease: &Lease) -> Result<(), LedgerError> {
        self.check_lease(lease)?;
        self.demand_history = history.clone();
        Ok(())
    }

    fn put_sweep(&mut self, sweep: &Sweep, lease: Option<&Lease>) -> Result<(), LedgerError> {
        if let Some(lease) = lease {
            self.check_lease(lease)?;
        }
        self.sweep = sweep.clone();
        Ok(())
    }

    fn handled(&self, events: &[String], now: Timestamp) -> BTreeSet<String> {
        let counts = |event: &&String| self.handled.get(*event).is_some_and(|until| *until > now);
        events.iter().filter(counts).cloned().collect()
    }

    fn put_handled(&mut self, events: &[String], until: Timestamp) {
        self.handled.extend(events.iter().map(|event| (event.clone(), until)));
    }

    fn put_unavailable(&mut self, offerings: &[UnavailableOffering], moment: Moment) {
        for offering in offerings {
            let known = self.unavailable.get(&key(offering));
            if known.is_none_or(|(known, _)| known.until < offering.until) {
                self.unavailable.insert(key(offering), (offering.clone(), moment.elapsed));
            }
        }
    }

    fn clear_unavailable(&mut self, offerings: &[UnavailableOffering]) {
        self.unavailable.retain(|_, (known, _)| {
            !offerings.iter().any(|over| {
                known.until == over.until && known.reason == over.reason && key(known) == key(over)
            })
        });
    }

    fn put_health(&mut self, health: &LaunchHealth) -> Result<(), LedgerError> {
        if health.version != self.health.version {
            return Err(LedgerError::Conflict { what: "how launches have fared".into() });
        }
        self.health = LaunchHealth { version: health.version + 1, ..health.clone() };
        Ok(())
    }

    /// Writes an operator's pause over the one that is there, or removes it.
    pub(crate) fn put_pause(&mut self, pause: Option<Pause>) {
        self.pause = pause;
    }

    /// The pause that an operator has written.
    pub(crate) const fn pause(&self) -> Option<&Pause> {
        self.pause.as_ref()
    }

    /// What EC2 did not have, and when each was noted.
    pub(crate) fn unavailable(&self) -> impl Iterator<Item = (&UnavailableOffering, Duration)> {
        self.unavailable.values().map(|(offering, noted)| (offering, *noted))
    }

    /// How launches have fared lately.
    pub(crate) const fn health(&self) -> &LaunchHealth {
        &self.health
    }

    fn put_seen_resources(&mut self, seen: &SeenResources) {
        match self.seen_resources.iter_mut().find(|known| known.key() == seen.key()) {
            Some(known) if known.version < seen.version => known.clone_from(seen),
            Some(_) => {}
            None => self.seen_resources.push(seen.clone()),
        }
    }

    /// The last report of a function.
    pub(crate) fn report(&self, function: &str) -> Option<&(Timestamp, Report)> {
        self.reports.get(function)
    }
}

fn key(offering: &UnavailableOffering) -> (String, String, &'static str) {
    (offering.instance_type.clone(), offering.zone.clone(), offering.capacity_type.as_str())
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
