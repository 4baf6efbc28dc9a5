//! Claims on their way out: why they must end, the drain, the end of their instances, and sweeps.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use outrigger_model::{
    ClaimState, Intent, Node, NodeClaim, NodeOutcome, TerminationCause, TerminationReason,
};

use super::{Launches, Tick};
use crate::TickError;
use crate::error::chain;
use crate::launch::health;
use crate::node::evict::Draining;
use crate::node::index::Nodes;
use crate::node::liveness;
use crate::node::release::Release;
use crate::node::terminate::{begin, reopening};
use crate::ports::{Event, Lease, Machine, Subject};
use crate::sweep::collect::{self, Findings, Seen};

/// How many nodes are drained at once.
const CONCURRENT_DRAINS: usize = 8;
/// How often EC2, ledger and cluster are compared.
const SWEEP_EVERY: Duration = Duration::from_secs(50);

impl Tick<'_> {
    pub(super) fn time_for_a_sweep(&self) -> bool {
        let now = self.ports.now();
        let passed = |at| Duration::try_from(now.duration_since(at)).unwrap_or_default();
        self.sweep.at.is_none_or(|at| passed(at) >= SWEEP_EVERY)
    }

    pub(super) fn sweep_is_due(&self) -> bool {
        self.machines.is_some() && self.time_for_a_sweep()
    }

    /// Compares EC2, ledger and cluster. What was found is written down before anything is done
    /// about it.
    pub(super) async fn sweep(
        &mut self,
        claims: &mut [NodeClaim],
        launches: Launches<'_>,
        nodes: &Nodes<'_>,
        lease: Option<&Lease>,
    ) -> Result<(), TickError> {
        let Some((_, machines)) = &self.machines else { return Ok(()) };
        let of_unaccounted = self.launches_of(machines, claims, launches.intents).await;
        let seen = Seen { machines, claims, intents: launches.intents, launches: &of_unaccounted, nodes };
        let now = self.ports.now();
        let mut findings = collect::sweep(&seen, &self.sweep, self.settings.guards, now);
        let mut templates = self.unused_templates(launches, &mut findings.sweep);
        if self.pause.as_ref().is_some_and(|pause| pause.stops_cleanup(now)) {
            findings.keep_what_ec2_says();
            templates.clear();
        }
        findings.sweep.deleted = self.deleted_of_late(claims, nodes);
        self.ports.ledger.put_sweep(&findings.sweep, lease).await?;
        let Findings { sweep, mut orphans, strangers, unaccounted, ending, abandoned, closed } = findings;
        if let Some(count) = sweep.breaker {
            tracing::error!(count, "a sweep would end too many instances at once, and ends none");
        }
        if sweep.partitioned {
            tracing::warn!("so many nodes are not ready that a sweep concludes nothing");
        }
        self.summary.breaker = sweep.breaker;
        self.summary.partitioned = sweep.partitioned;
        self.summary.forgotten = sweep.forgotten.len();
        if !sweep.forgotten.is_empty() && !self.settings.adopt {
            let instances: Vec<_> = sweep.forgotten.keys().collect();
            tracing::error!(
                ?instances,
                "the ledger has forgotten these nodes; set Adopt to true to adopt them"
            );
        }
        self.sweep = sweep;
        for node in abandoned {
            tracing::warn!(node = node.name, "nothing stands behind the node; it is released");
            if let Err(error) = self.ports.cluster.release_node(&node.name, &node.uid).await {
                tracing::warn!(node = node.name, error = chain(&error), "the node was not released");
            }
        }
        for (claim, node) in closed {
            self.reopen(claim, node).await;
        }
        let spared = self.adopt(&unaccounted, nodes, lease).await;
        orphans.retain(|id| !spared.contains(id));
        self.tell_of_strangers(strangers.into_iter().filter(|id| !spared.contains(id)).collect());
        self.terminate_orphans(orphans).await;
        self.delete_templates(templates).await;
        for end in ending {
            if let Some(claim) = claims.iter_mut().find(|claim| claim.name == end.claim) {
                self.begin_end(claim, &end.cause, lease).await;
            }
        }
        self.put_away().await;
        Ok(())
    }

    fn tell_of_strangers(&mut self, strangers: Vec<String>) {
        if !strangers.is_empty() {
            tracing::error!(
                instances = ?strangers,
                "they have our tags, but no launch that the ledger knows made them: a person must look at them"
            );
        }
        self.summary.strangers = strangers;
    }

    /// Spares all ticks what is over. What is left lying costs them time and nothing else.
    async fn put_away(&self) {
        if self.time_is_up() {
            return;
        }
        match self.ports.ledger.put_away().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "claims and launches that are over were put away"),
            Err(error) => tracing::warn!(error = chain(&error), "what is over was not put away"),
        }
    }

    /// Lets pods onto a node again that nobody drains. The ledger is asked once more: its claim's
    /// end may have begun meanwhile.
    async fn reopen(&self, claim: &str, node: &Node) {
        let reopened = async {
            let claim = self.ports.ledger.claim(claim).await?;
            if claim.is_some_and(|claim| claim.status.state.accepts_pods()) {
                tracing::warn!(node = node.name, "nobody drains the node; it is opened again");
                self.ports.cluster.change_node(&reopening(node)).await?;
            }
            Ok::<(), TickError>(())
        };
        if let Err(error) = reopened.await {
            tracing::warn!(node = node.name, error = chain(&error), "the node was not opened again");
        }
    }

    /// What the ledger says of the launches whose instances nobody accounts for.
    async fn launches_of(
        &self,
        machines: &[Machine],
        claims: &[NodeClaim],
        intents: &[Intent],
    ) -> BTreeMap<String, Option<Intent>> {
        let named: BTreeSet<&str> =
            collect::unaccounted(machines, claims, intents).map(|(_, intent)| intent).collect();
        let mut launches = BTreeMap::new();
        for id in named {
            match self.ports.ledger.intent(id).await {
                Ok(launch) => drop(launches.insert(id.to_owned(), launch)),
                Err(error) => tracing::warn!(intent = id, error = chain(&error), "the launch cannot be read"),
            }
        }
        launches
    }

    async fn terminate_orphans(&mut self, orphans: Vec<String>) {
        if orphans.is_empty() {
            return;
        }
        tracing::warn!(?orphans, "no claim accounts for these instances; they are terminated");
        match self.ports.cloud.terminate(&orphans).await {
            Ok(refused) => {
                for (instance, why) in &refused {
                    tracing::error!(instance, why, "the orphan was not terminated");
                }
                self.summary.orphans.extend(orphans.into_iter().filter(|id| !refused.contains_key(id)));
            }
            Err(error) => tracing::warn!(error = chain(&error), "the orphans were not terminated"),
        }
    }

    /// Begins the end of claims whose Node or NodeClaim somebody deleted, and of those whose time
    /// is up.
    pub(super) async fn begin_ends(
        &mut self,
        claims: &mut [NodeClaim],
        nodes: &Nodes<'_>,
        lease: Option<&Lease>,
    ) {
        let is_partitioned = liveness::is_partitioned(nodes.all.iter().copied());
        let held = self.held_deletions(claims, nodes, lease).await;
        for claim in claims.iter_mut().filter(|claim| claim.status.state.accepts_pods()) {
            if self.time_is_up() {
                return;
            }
            let on = nodes.of_claim(claim);
            let (timeout, now) = (self.settings.initialization_timeout, self.ports.now());
            let overdue = || liveness::overdue(claim, on, timeout, is_partitioned, now);
            let deletion = self.deletion(claim, on).filter(|_| !held.contains(&claim.name));
            let cause = deletion.or_else(|| self.ages_are_known().then(overdue).flatten());
            if let Some(cause) = cause.filter(|cause| !self.is_paused(cause.reason)) {
                let cause = self.with_console(claim, cause).await;
                self.begin_end(claim, &cause, lease).await;
            }
        }
    }

    /// Why a machine did not join may be told by its console.
    async fn with_console(&self, claim: &NodeClaim, cause: TerminationCause) -> TerminationCause {
        let (TerminationReason::NotRegistered, Some(id)) = (cause.reason, claim.instance_id()) else {
            return cause;
        };
        match self.ports.cloud.boot_progress(id).await {
            Ok(Some(progress)) => {
                let message = format!("{}; its console tells: {progress}", cause.message);
                TerminationCause { message, ..cause }
            }
            Ok(None) => cause,
            Err(error) => {
                tracing::warn!(claim = claim.name, error = chain(&error), "its console could not be read");
                cause
            }
        }
    }

    pub(super) async fn begin_end(
        &mut self,
        claim: &mut NodeClaim,
        cause: &TerminationCause,
        lease: Option<&Lease>,
    ) {
        match begin(self.ports, &claim.name, cause, lease).await {
            Ok(None) => {}
            Ok(Some(next)) => {
                let before = std::mem::replace(claim, next);
                self.count_failure(&before, cause).await;
                self.tell_of_end(claim, cause).await;
            }
            Err(error) => self.cannot_go_on(&claim.name, &error.into()),
        }
    }

    /// Tells people that the end of a claim has begun, and why.
    pub(super) async fn tell_of_end(&mut self, claim: &NodeClaim, cause: &TerminationCause) {
        self.summary.ending.push(claim.name.clone());
        let about = Subject::NodeClaim { name: claim.name.clone(), uid: self.mirrors.uid(&claim.name) };
        let warning = cause.reason != TerminationReason::Deleted;
        let (reason, message) = (cause.reason.as_str(), cause.message.clone());
        let event = Event { about, warning, reason, message };
        if let Err(error) = self.ports.cluster.publish_event(&event).await {
            tracing::warn!(claim = claim.name, error = chain(&error), "the event was not published");
        }
    }

    /// A claim whose machine never came to be of use counts against its pool.
    async fn count_failure(&self, before: &NodeClaim, cause: &TerminationCause) {
        let is_failure = match cause.reason {
            TerminationReason::NotRegistered | TerminationReason::NotInitialized => true,
            TerminationReason::InstanceGone => before.status.state == ClaimState::Launched,
            _ => false,
        };
        if !is_failure {
            return;
        }
        let outcome = NodeOutcome {
            claim: before.name.clone(),
            created_at: before.created_at,
            failure: Some(cause.message.clone()),
        };
        health::update(self.ports, |health, now| {
            health::count(health, &before.spec.node_pool, outcome.clone(), now)
        })
        .await;
    }

    /// Takes every claim that ends as far as its pods and its instance allow.
    pub(super) async fn end(&mut self, claims: &mut [NodeClaim], nodes: &Nodes<'_>, lease: Option<&Lease>) {
        let draining =
            Draining { ports: self.ports, lease, patience: &self.patience, guards: self.settings.guards };
        let mut drains = Vec::new();
        for claim in claims.iter_mut().filter(|claim| claim.status.state == ClaimState::Draining) {
            let on = nodes.of_claim(claim);
            let drain = async move {
                let result = draining.advance(claim, on).await;
                (claim.name.clone(), result)
            };
            drains.push(drain.boxed());
        }
        let drained: Vec<_> =
            futures::stream::iter(drains).buffer_unordered(CONCURRENT_DRAINS).collect().await;
        for (claim, result) in drained {
            self.note(claim, result);
        }
        let terminating: Vec<_> =
            claims.iter_mut().filter(|claim| claim.status.state == ClaimState::Terminating).collect();
        if !terminating.is_empty() && !self.time_is_up() {
            self.terminate(terminating, nodes, lease).await;
        }
        self.is_ending = claims
            .iter()
            .any(|claim| matches!(claim.status.state, ClaimState::Draining | ClaimState::Terminating));
    }

    async fn terminate(&mut self, claims: Vec<&mut NodeClaim>, nodes: &Nodes<'_>, lease: Option<&Lease>) {
        let Some((_, machines)) = &self.machines else {
            let waits = claims.iter().map(|claim| (claim.name.clone(), "EC2 to answer".to_owned()));
            self.summary.waiting.extend(waits);
            return;
        };
        let (ports, guards, missing) = (self.ports, self.settings.guards, &self.sweep.missing);
        let release = Release { ports, lease, guards, machines, missing, nodes };
        for (claim, result) in release.advance(claims, &mut self.asked).await {
            if matches!(result, Ok(None)) {
                self.summary.gone.push(claim.clone());
            }
            self.note(claim, result);
        }
    }

    fn note(&mut self, claim: String, result: Result<Option<String>, TickError>) {
        match result {
            Ok(Some(what)) => drop(self.summary.waiting.insert(claim, what)),
            Ok(None) => {}
            Err(error) => self.cannot_go_on(&claim, &error),
        }
    }
}
