//! Sweeps, carried out: what they find ends, is opened again, or is told of.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_model::{Intent, Node, NodeClaim};

use super::{Launches, Tick};
use crate::TickError;
use crate::chain::chain;
use crate::claim::end::reopening;
use crate::claim::index::Nodes;
use crate::ports::{Lease, Machine};
use crate::sweep::collect::{self, Findings, Seen};

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
}
