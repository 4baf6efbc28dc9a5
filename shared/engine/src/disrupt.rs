//! The disrupt tick: nodes that are not worth their price, or are not what they should be any more
//! -> commands.
//!
//! It launches nothing and drains nothing. What it finds worth doing is proposed first, and becomes
//! a command once a later tick finds the same: a command holds its claims, provision plans for
//! their pods, and lifecycle drains the nodes when what replaces them is ready.

mod deletion_costs;
#[cfg(test)]
mod fixtures;
mod marks;
mod memory;
mod quiet;
mod rest;
mod verdicts;

use std::collections::BTreeMap;

use jiff::SignedDuration;
use outrigger_model::{ClaimState, DisruptionMemory, Pause, Proposal, Quarter, Snapshot};
use outrigger_planning::consolidate;
use outrigger_policy::demand::{ended_quarters, sampled};
use outrigger_policy::disruption::{Consolidation, ConsolidationCommand, DisruptionSettings};
use outrigger_policy::{MinValuesPolicy, Options, Preferences};
use serde::Serialize;
use tokio::time::Instant;

use crate::TickError;
use crate::bell::ring;
use crate::chain::chain;
use crate::claim::command::commit;
use crate::guards::{Guard, Guards};
use crate::lease_guard::LeaseGuard;
use crate::observe::offers::Offers;
use crate::observe::{Purpose, SnapshotInputs, snapshot};
use crate::pause::in_force;
use crate::ports::{Lease, LedgerError, Ports, Scope};
use crate::sweep::adoption::is_new_ledger;
use quiet::Sight;

/// The name of the function and of its lease.
pub const FUNCTION: &str = "disrupt";
/// How long after it was proposed a command must be found again (Karpenter's
/// `commandValidationDelay`).
const VALIDATION_DELAY: SignedDuration = SignedDuration::from_secs(15);
/// What rings for provision and lifecycle: the nodes of commands are to be replaced and drained.
pub const NOTICE: &str = "Command Committed";

/// How a tick behaves.
#[derive(Clone, Debug)]
pub struct DisruptSettings {
    /// The kOps cluster's name.
    pub cluster: String,
    /// Who we are, for the lease: new for every invocation.
    pub owner: String,
    /// When a disruption is worth it.
    pub disruption: DisruptionSettings,
    /// What becomes of what pods prefer (Karpenter's PREFERENCE_POLICY).
    pub preferences: Preferences,
    /// What becomes of minValues that cannot be kept (Karpenter's MIN_VALUES_POLICY).
    pub min_values: MinValuesPolicy,
    /// What keeps it from doing harm.
    pub guards: Guards,
}

impl DisruptSettings {
    /// The defaults of [`DisruptionSettings`], Karpenter's defaults, and all guards on.
    pub fn new(cluster: impl Into<String>, owner: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            owner: owner.into(),
            disruption: DisruptionSettings::default(),
            preferences: Preferences::default(),
            min_values: MinValuesPolicy::default(),
            guards: Guards::default(),
        }
    }
}

/// What a tick did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Whether another function held the lease, so that this one did nothing.
    pub held_elsewhere: bool,
    /// How many nodes were looked at.
    pub nodes: usize,
    /// Commands that were committed: the claims of each, by the command's id.
    pub committed: BTreeMap<String, Vec<String>>,
    /// How many commands are proposed, for a later tick to find again.
    pub proposed: usize,
    /// How many nodes are kept, by the code of the reason.
    pub kept: BTreeMap<String, usize>,
    /// Dollars per hour of all nodes of ours, with what they cost beside their instances.
    pub cost_per_hour: f64,
    /// The same once all that was found is done.
    pub cost_per_hour_after: f64,
    /// An operator's pause that was in force.
    pub pause: Option<Pause>,
    /// By how many seconds the API server's clock is ahead of ours, where that is so much that
    /// nothing was looked at.
    pub clock_difference: Option<i64>,
    /// Whether no node was looked at: all is as it was when nothing was to be done, or the last
    /// look at a large cluster is good yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_quiet: bool,
}

/// One tick. Nothing is written after `deadline`.
pub async fn tick(
    ports: Ports<'_>,
    settings: &DisruptSettings,
    deadline: Instant,
) -> Result<Summary, TickError> {
    if is_new_ledger(ports).await? {
        // Nothing runs yet, and provision begins the ledger.
        return Ok(Summary::default());
    }
    let Some(guard) = LeaseGuard::take(ports, FUNCTION, &settings.owner, Instant::now()).await? else {
        return Ok(Summary { held_elsewhere: true, ..Summary::default() });
    };
    let mut tick = Tick { ports, settings, deadline, summary: Summary::default() };
    let result = guard.beside(ports, Box::pin(tick.run(&guard))).await;
    guard.give_back(ports).await;
    result.map(|()| tick.summary)
}

struct Tick<'a> {
    ports: Ports<'a>,
    settings: &'a DisruptSettings,
    deadline: Instant,
    summary: Summary,
}

impl Tick<'_> {
    async fn run(&mut self, guard: &LeaseGuard) -> Result<(), TickError> {
        let remembered = self.ports.ledger.disruption_memory().await?;
        let Some((snapshot, memory, sight)) = self.look(&remembered).await? else {
            return Ok(());
        };
        let deadline = self.deadline;
        let time_is_up = move || Instant::now() >= deadline;
        let options = Options {
            preferences: self.settings.preferences,
            min_values: self.settings.min_values,
            time_is_up: &time_is_up,
            ..Options::default()
        };
        let decision = async { consolidate(&snapshot, &options, &self.settings.disruption) };
        let consolidation = guard.keep_for(self.ports, deadline, decision).await?;
        self.count(&consolidation);
        let proposals = self.commit_all(guard.lease(), &snapshot, &consolidation).await?;
        self.summary.proposed = proposals.len();
        let memory = DisruptionMemory {
            proposals,
            waste: consolidation.waste.clone(),
            drifted: consolidation.drifted.clone(),
            quiet: sight.after(&snapshot, &consolidation),
            rest: rest::after(&snapshot, &consolidation),
            ..memory
        };
        if time_is_up() {
            tracing::warn!("no time is left to remember what was found; the next tick finds it anew");
            return Ok(());
        }
        self.remember_demand(&snapshot, &remembered, guard.lease()).await?;
        if memory != remembered {
            self.ports.ledger.put_disruption_memory(&memory, guard.lease()).await?;
        }
        let marked = marks::marked(&snapshot, &consolidation);
        if self.settings.guards.has(Guard::SoftTaint) {
            self.mark(&snapshot, &marked).await;
        }
        self.set_deletion_costs(&snapshot, &consolidation.ranking, &marked).await;
        let claims = self.summary.committed.values().flatten().cloned().collect();
        ring(self.ports, NOTICE, &self.settings.cluster, claims).await;
        self.tell(&snapshot, &consolidation).await;
        Ok(())
    }

    /// What the decision is made from, with what is remembered of the pods of nodes; `None` while
    /// an operator has paused disruption, no node of ours is ready, nobody need look again yet, or
    /// the API server's clock is wrong, so that nobody knows how old pods are.
    async fn look(
        &mut self,
        remembered: &DisruptionMemory,
    ) -> Result<Option<(Snapshot, DisruptionMemory, Sight)>, TickError> {
        let ledger = self.ports.ledger.load().await?;
        if in_force(&ledger, &mut self.summary.pause, self.settings.guards, self.ports.now()).is_some() {
            return Ok(None);
        }
        if !ledger.claims.iter().any(|claim| claim.status.state == ClaimState::Initialized) {
            return Ok(None);
        }
        let sight = Sight::new(self.ports, &ledger).await;
        if let Some(cost_per_hour) = sight.cost_without_a_look(remembered, self.ports.now()) {
            self.summary.is_quiet = true;
            self.summary.cost_per_hour = cost_per_hour.dollars();
            return Ok(None);
        }
        let mut offers = Offers::new(self.ports.cloud.catalog().await?);
        let (state, _) = self.ports.cluster.list(Scope::Everything).await?;
        if let Some(ahead) = self.ports.clock_difference() {
            tracing::error!(
                ahead_seconds = ahead.as_secs(),
                "the API server's clock is wrong: no node is given up"
            );
            self.summary.clock_difference = Some(ahead.as_secs());
            return Ok(None);
        }
        let gathered = SnapshotInputs {
            cluster: &self.settings.cluster,
            max_new_nodes_per_minute: None,
            spot_refusals: &[],
            purpose: Purpose::Disruption,
        };
        let mut snapshot = snapshot(self.ports, gathered, ledger, &state, &mut offers).await?;
        let current = remembered.proposals.iter().filter(|proposal| proposal.is_current(snapshot.taken_at));
        snapshot.proposals = current.cloned().collect();
        snapshot.waste.clone_from(&remembered.waste);
        snapshot.drifted = Some(remembered.drifted.clone());
        let pods = memory::pods_seen(&snapshot, remembered);
        snapshot.pod_events = pods.iter().map(|(node, seen)| (node.clone(), seen.since)).collect();
        let demand = sampled(&snapshot, &remembered.demand);
        Ok(Some((snapshot, DisruptionMemory { pods, demand, ..DisruptionMemory::default() }, sight)))
    }

    /// Enters the quarter-hour that has just ended into the week's demand, before what is
    /// remembered of it goes. Where the week cannot be read or written, disruption goes on without
    /// it.
    async fn remember_demand(
        &self,
        snapshot: &Snapshot,
        remembered: &DisruptionMemory,
        lease: &Lease,
    ) -> Result<(), LedgerError> {
        let ended = ended_quarters(&remembered.demand, snapshot.taken_at);
        if ended.is_empty() {
            return Ok(());
        }
        match self.enter_demand(snapshot, ended, lease).await {
            Err(error) if !matches!(error, LedgerError::LeaseLost { .. }) => {
                tracing::warn!(error = chain(&error), "what pods asked for is not remembered");
                Ok(())
            }
            result => result,
        }
    }

    async fn enter_demand(
        &self,
        snapshot: &Snapshot,
        ended: Vec<(&str, Quarter, u64)>,
        lease: &Lease,
    ) -> Result<(), LedgerError> {
        let mut history = self.ports.ledger.demand_history().await?;
        for (pool, quarter, cpu_millis) in ended {
            history.entry(pool.to_owned()).or_default().set(quarter, cpu_millis);
        }
        history.retain(|name, _| snapshot.node_pools.iter().any(|pool| pool.name == *name));
        self.ports.ledger.put_demand_history(&history, lease).await
    }

    fn count(&mut self, consolidation: &Consolidation) {
        let disrupted: usize = consolidation.commands.iter().map(|command| command.delete.len()).sum();
        self.summary.nodes = consolidation.kept.len() + disrupted;
        for kept in &consolidation.kept {
            *self.summary.kept.entry(kept.reason.as_str().to_owned()).or_default() += 1;
        }
        let dollars =
            |cost: &outrigger_policy::disruption::NodeCost| cost.instances.dollars() + cost.beside.dollars();
        self.summary.cost_per_hour = dollars(&consolidation.before);
        self.summary.cost_per_hour_after = dollars(&consolidation.after);
        tracing::info!(
            nodes = self.summary.nodes,
            commands = consolidation.commands.len(),
            disrupted,
            before = self.summary.cost_per_hour,
            after = self.summary.cost_per_hour_after,
            "looked at all nodes"
        );
    }

    /// Commits what was proposed long enough ago; returns what is proposed now.
    async fn commit_all(
        &mut self,
        lease: &Lease,
        snapshot: &Snapshot,
        consolidation: &Consolidation,
    ) -> Result<Vec<Proposal>, LedgerError> {
        let mut proposals = Vec::new();
        for command in consolidation.commands.iter().filter(|command| command.starts_now) {
            let since = command.proposed_since.unwrap_or(snapshot.taken_at);
            let is_old = snapshot.taken_at.duration_since(since) >= VALIDATION_DELAY;
            let is_validated = is_old || !self.settings.guards.has(Guard::Validation);
            let may_commit = is_validated && Instant::now() < self.deadline;
            if may_commit && self.commit(lease, snapshot, command).await? {
                continue;
            }
            let mut nodes = command.delete.clone();
            nodes.sort();
            let found_at = Some(snapshot.taken_at);
            proposals.push(Proposal { reason: command.reason, nodes, since, found_at });
        }
        Ok(proposals)
    }

    /// Says whether the command holds its claims from now on. Where somebody else wrote one of them
    /// meanwhile, the next tick looks again.
    async fn commit(
        &mut self,
        lease: &Lease,
        snapshot: &Snapshot,
        planned: &ConsolidationCommand,
    ) -> Result<bool, LedgerError> {
        let committed = match commit(self.ports, lease, snapshot, planned).await {
            Err(error @ LedgerError::LeaseLost { .. }) => return Err(error),
            Err(error) => {
                tracing::info!(nodes = ?planned.delete, error = chain(&error), "not committed this time");
                return Ok(false);
            }
            Ok(committed) => committed,
        };
        let Some(command) = committed else { return Ok(false) };
        tracing::info!(
            command = command.id,
            nodes = ?planned.delete,
            reason = %command.reason,
            why = command.message,
            "committed"
        );
        self.summary.committed.insert(command.id, command.claims);
        Ok(true)
    }
}
