//! What one tick of lifecycle works with while it goes through the claims.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::time::Duration;

use outrigger_catalog::Catalog;
use outrigger_model::{Pause, SeenResources, TerminationReason};
use serde::Serialize;
use tokio::time::Instant;

use crate::chain::chain;
use crate::claim::drain::Patience;
use crate::claim::mirror::Mirrors;
use crate::claim::placing::PlacePods;
use crate::guards::Guards;
use crate::observe::watch::Watched;
use crate::ports::{Machine, Ports, Sweep, WrittenTemplate};
use crate::{DEFAULT_SCHEDULER, TickError};

/// How often nodes are looked at while claims wait for something.
pub(crate) const PAUSE: Duration = Duration::from_secs(2);

/// How a tick behaves.
#[derive(Clone, Debug)]
pub struct LifecycleSettings {
    /// The kOps cluster's name.
    pub cluster: String,
    /// Who we are, for the lease: new for every invocation.
    pub owner: String,
    /// How long the tick goes on looking while claims wait for something; zero looks once.
    pub window: Duration,
    /// How long the tick waits for another one that is at work to end. A tick that the schedule
    /// begins waits for as long as its window, so that one that a notice has begun, and that ends
    /// at any time, leaves no gap; a notice need not wait, since who is at work sees what it is
    /// about.
    pub patience: Duration,
    /// How long a registered node may take to be ready for pods; without a limit it may take for
    /// ever.
    pub initialization_timeout: Option<Duration>,
    /// Whether nodes whose conditions say that they are broken are replaced (Karpenter's feature
    /// gate NodeRepair). What EC2's own checks say of an instance counts in any case.
    pub node_repair: bool,
    /// Whether instances that the ledger has forgotten become claims again: an operator's word that
    /// it was lost or restored.
    pub adopt: bool,
    /// How planned pods come to their nodes.
    pub place_pods: PlacePods,
    /// The schedulers in whose place pods are bound.
    pub schedulers: BTreeSet<String>,
    /// What keeps it from doing harm.
    pub guards: Guards,
}

impl LifecycleSettings {
    /// A window of 55 s, half an hour for nodes to become ready, no repair by conditions,
    /// kube-scheduler's pods bound, and all guards on.
    pub fn new(cluster: impl Into<String>, owner: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            owner: owner.into(),
            window: Duration::from_secs(55),
            patience: Duration::ZERO,
            initialization_timeout: Some(Duration::from_mins(30)),
            node_repair: false,
            adopt: false,
            place_pods: PlacePods::default(),
            schedulers: BTreeSet::from([DEFAULT_SCHEDULER.to_owned()]),
            guards: Guards::default(),
        }
    }
}

/// What a tick did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Whether another function held the lease, so that this one did nothing.
    pub held_elsewhere: bool,
    /// Claims whose nodes were registered.
    pub registered: Vec<String>,
    /// Claims whose nodes became ready for pods.
    pub initialized: Vec<String>,
    /// How many pods were bound to their nodes.
    pub bound: usize,
    /// How many planned pods were left to kube-scheduler, nominated for their nodes.
    pub left_to_scheduler: usize,
    /// Whether the right to bind pods is missing.
    pub binding_forbidden: bool,
    /// Planned pods that the kubelets of their nodes did not admit, by namespace and name.
    pub refused: BTreeSet<String>,
    /// Claims whose end began.
    pub ending: Vec<String>,
    /// Claims that are over: their instances are gone.
    pub gone: Vec<String>,
    /// Launch templates that nobody used any more and that were deleted, by name.
    pub templates: Vec<String>,
    /// Instances without a claim that were terminated.
    pub orphans: Vec<String>,
    /// Instances with our tags that the ledger knows nothing of; they are left to people.
    pub strangers: Vec<String>,
    /// Claims that were made for instances which the ledger had forgotten.
    pub adopted: Vec<String>,
    /// How many nodes the ledger has forgotten. While it has forgotten any, no instance is
    /// terminated because no claim accounts for it.
    pub forgotten: usize,
    /// How many instances a sweep would have ended, when that was so many that it ended none.
    pub breaker: Option<usize>,
    /// How many nodes were deleted and are kept: too many at once, or together with the definition
    /// of their objects.
    pub held_deletions: usize,
    /// Whether so many nodes were not ready that the last sweep concluded nothing.
    pub partitioned: bool,
    /// Claims whose nodes should be repaired, and why they are not.
    pub repair_blocked: BTreeMap<String, String>,
    /// Claims that still wait, and for what.
    pub waiting: BTreeMap<String, String>,
    /// An operator's pause that was in force.
    pub pause: Option<Pause>,
    /// By how many seconds the API server's clock is ahead of ours, where that is so much that
    /// nothing was ended for its age.
    pub clock_difference: Option<i64>,
}

pub(crate) struct Tick<'a> {
    pub(crate) ports: Ports<'a>,
    pub(crate) settings: &'a LifecycleSettings,
    pub(crate) deadline: Instant,
    /// When nobody looks any more until the next tick.
    pub(crate) ends_at: Instant,
    pub(crate) summary: Summary,
    pub(crate) mirrors: Mirrors,
    /// Read when the first node is registered.
    pub(crate) catalog: Option<Catalog>,
    /// How much memory types were seen to have.
    pub(crate) seen_resources: Vec<SeenResources>,
    /// The cluster's nodes, and all pods from the first node on whose pods are to be placed.
    pub(crate) watched: Option<Watched>,
    /// Whether the right to bind pods is missing.
    pub(crate) forbidden: bool,
    pub(crate) patience: Patience,
    /// What EC2 showed, and when it was asked.
    pub(crate) machines: Option<(Instant, Vec<Machine>)>,
    /// Our own launch templates, where a sweep is due and EC2 showed them.
    pub(crate) templates: Option<Vec<WrittenTemplate>>,
    /// Instances that EC2 was told to terminate since then.
    pub(crate) asked: BTreeSet<String>,
    /// Whether the last pass saw claims that end.
    pub(crate) is_ending: bool,
    /// Whether a node that may be a claim's is named after an address that EC2 has not shown yet.
    pub(crate) awaits_names: bool,
    /// What the last sweep found.
    pub(crate) sweep: Sweep,
    /// An operator's pause, as long as it is in force.
    pub(crate) pause: Option<Pause>,
}

impl Tick<'_> {
    pub(crate) fn ages_are_known(&self) -> bool {
        self.summary.clock_difference.is_none()
    }

    pub(crate) fn time_is_up(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Whether an operator's pause keeps claims from ending for this reason.
    pub(crate) fn is_paused(&self, reason: TerminationReason) -> bool {
        self.pause.as_ref().is_some_and(|pause| pause.stops_end(reason, self.ports.now()))
    }

    /// A claim that cannot go on must not hold up the others.
    pub(crate) fn report_stuck_claim(&mut self, claim: &str, error: &TickError) {
        // It is this claim that stopped, not the tick.
        let why = cause_of(error);
        tracing::warn!(claim, error = why, "the claim could not go on");
        self.summary.waiting.insert(claim.to_owned(), why);
    }
}

/// What a tick stopped at, without saying that it stopped.
pub(crate) fn cause_of(error: &TickError) -> String {
    error.source().map_or_else(|| error.to_string(), chain)
}
