//! The lifecycle tick: launched claims -> registered nodes -> nodes ready for pods; claims that
//! must end -> drained nodes -> terminated instances; what is amiss between EC2, ledger and
//! cluster; and the mirror that kubectl shows.

mod adoption;
mod sweeping;
mod templates;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outrigger_model::{Command, Intent, LaunchHealth, Node, NodeClaim};
use tokio::time::Instant;

use crate::TickError;
use crate::chain::chain;
use crate::claim::drain::Patience;
use crate::claim::index::Nodes;
use crate::claim::mirror::Mirrors;
pub use crate::claim::tick::{LifecycleSettings, Summary};
use crate::claim::tick::{PAUSE, Tick};
use crate::guards::Guard;
use crate::lease_guard::LeaseGuard;
use crate::observe::watch::Watched;
use crate::pause::in_force;
use crate::ports::{ClusterError, Interruption, Lease, LedgerState, Notice, Ports, Scope, Sweep};

/// The name of the function and of its lease.
pub const FUNCTION: &str = "lifecycle";
/// How soon again after a pass that registered nodes, which may be ready already.
const PAUSE_AFTER_REGISTRATION: Duration = Duration::from_millis(300);
/// How often EC2 is asked while instances end (Karpenter's requeue of instance termination).
const ASK_EC2_EVERY: Duration = Duration::from_secs(5);

/// One tick. It ends as soon as no claim waits for anything, and never later than its window or
/// `deadline`, after which it changes nothing.
pub async fn tick(
    ports: Ports<'_>,
    settings: &LifecycleSettings,
    deadline: Instant,
) -> Result<Summary, TickError> {
    if settings.adopt {
        // An empty ledger is begun anew; whose instances these are, their tags say.
        ports.ledger.bind(&ports.cluster.uid().await?).await?;
    }
    let began = Instant::now();
    let patience_ends = deadline.min(began + settings.patience);
    let Some(guard) = LeaseGuard::take(ports, FUNCTION, &settings.owner, patience_ends).await? else {
        return Ok(Summary { held_elsewhere: true, ..Summary::default() });
    };
    let mut tick = Tick {
        ports,
        settings,
        deadline,
        ends_at: deadline.min(began + settings.window),
        summary: Summary::default(),
        mirrors: Mirrors::default(),
        catalog: None,
        seen_resources: Vec::new(),
        watched: None,
        forbidden: false,
        patience: Patience::default(),
        machines: None,
        templates: None,
        asked: BTreeSet::new(),
        is_ending: false,
        awaits_names: false,
        sweep: Sweep::default(),
        pause: None,
    };
    let result = guard.beside(ports, Box::pin(tick.run(guard.lease()))).await;
    tick.announce().await;
    guard.give_back(ports).await;
    result.map(|()| tick.summary)
}

/// What one pass works with.
struct World {
    claims: Vec<NodeClaim>,
    commands: Vec<Command>,
    interruptions: Vec<Interruption>,
    intents: Vec<Intent>,
    nodes: Vec<Arc<Node>>,
    health: LaunchHealth,
}

/// What is known of launches, as a sweep needs it.
#[derive(Clone, Copy)]
struct Launches<'w> {
    intents: &'w [Intent],
    health: &'w LaunchHealth,
}

impl Tick<'_> {
    async fn run(&mut self, lease: &Lease) -> Result<(), TickError> {
        self.sweep = self.ports.ledger.sweep().await?;
        loop {
            let before = self.summary.registered.len();
            self.pass(lease).await?;
            let waiting = !self.summary.waiting.is_empty();
            let has_registered = self.summary.registered.len() > before;
            let pause = if has_registered { PAUSE_AFTER_REGISTRATION } else { PAUSE };
            if !waiting || Instant::now() + pause >= self.ends_at {
                return Ok(());
            }
            self.rest(pause).await;
        }
    }

    /// Does nothing for a while but take in what changes. Where that is not to be had, the next
    /// pass lists anew.
    async fn rest(&mut self, length: Duration) {
        let ends_at = Instant::now() + length;
        while let Some(watched) = self.watched.as_mut().filter(|_| Instant::now() < ends_at) {
            let remaining = ends_at.saturating_duration_since(Instant::now());
            if watched.wait(self.ports, remaining).await.is_err() {
                self.watched = None;
            }
        }
        tokio::time::sleep_until(ends_at).await;
    }

    /// Looks at every claim once.
    async fn pass(&mut self, lease: &Lease) -> Result<(), TickError> {
        self.summary.waiting.clear();
        let lease = self.settings.guards.has(Guard::Fence).then_some(lease);
        let mut world = self.look().await?;
        if self.time_is_up() {
            return Ok(());
        }
        let machines = self.machines.as_ref().map(|(_, machines)| machines.as_slice()).unwrap_or_default();
        let nodes = Nodes::new(world.nodes.iter().map(AsRef::as_ref), &world.claims, machines);
        self.heed_pretenders(&world.claims, &nodes).await;
        self.note_interruptions(&mut world.claims, &world.interruptions, lease).await;
        let is_due = self.sweep_is_due();
        if is_due {
            let launches = Launches { intents: &world.intents, health: &world.health };
            self.sweep(&mut world.claims, launches, &nodes, lease).await?;
        }
        self.note_wishes(&mut world.claims, lease).await;
        self.begin_ends(&mut world.claims, &nodes, lease).await;
        self.advance_commands(&world.commands, &mut world.claims, &nodes, lease).await;
        if is_due && !self.time_is_up() {
            self.repair(&mut world.claims, &nodes, lease).await;
        }
        if self.time_is_up() {
            return Ok(());
        }
        self.start(&mut world.claims, &world.commands, &nodes).await;
        if self.time_is_up() {
            return Ok(());
        }
        self.end(&mut world.claims, &nodes, lease).await;
        self.mirrors.write(self.ports, &world.claims, lease, self.deadline).await;
        Ok(())
    }

    /// EC2 first, then the ledger, then the nodes: whatever EC2 shows was written down before the
    /// ledger is read.
    async fn look(&mut self) -> Result<World, TickError> {
        if self.settings.guards.has(Guard::CloudFirst) {
            self.ask_ec2().await;
        }
        self.mirrors.look(self.ports).await;
        let ledger = self.ports.ledger.load().await?;
        self.pause = in_force(&ledger, &mut self.summary.pause, self.settings.guards, self.ports.now());
        self.seen_resources = ledger.seen_resources;
        if !self.settings.guards.has(Guard::CloudFirst) {
            self.ask_ec2().await;
        }
        let nobody = ledger.claims.is_empty() && !self.sweep_is_due();
        let nodes = if nobody { Vec::new() } else { self.nodes().await? };
        self.compare_clocks();
        let nodes = self.with_wishes(nodes, &ledger.claims);
        let LedgerState { claims, commands, interruptions, intents, health, .. } = ledger;
        Ok(World { claims, commands, interruptions, intents, nodes, health })
    }

    /// Where the API server's clock differs from ours, ages mean nothing for the rest of the tick.
    fn compare_clocks(&mut self) {
        let Some(ahead) = self.ports.clock_difference().filter(|_| self.summary.clock_difference.is_none())
        else {
            return;
        };
        tracing::error!(
            ahead_seconds = ahead.as_secs(),
            "the API server's clock is wrong: nothing ends for its age"
        );
        self.summary.clock_difference = Some(ahead.as_secs());
    }

    /// All nodes. Only a sweep lists them anew, and the first pass of a tick; in between they are
    /// watched, since of a thousand nodes few change in the seconds between two passes.
    async fn nodes(&mut self) -> Result<Vec<Arc<Node>>, ClusterError> {
        let open = self.watched.take().filter(|_| !self.sweep_is_due());
        let watched = match open {
            Some(mut watched) => {
                watched.wait(self.ports, Duration::ZERO).await?;
                watched
            }
            None => Watched::open(self.ports, Scope::Nodes).await?,
        };
        Ok(self.watched.insert(watched).state.nodes.values().cloned().collect())
    }

    /// Without an answer nothing is concluded about instances in this pass; the rest goes on.
    async fn ask_ec2(&mut self) {
        let is_fresh = self.machines.as_ref().is_some_and(|(at, _)| at.elapsed() < ASK_EC2_EVERY);
        if is_fresh || !(self.is_ending || self.awaits_names || self.time_for_a_sweep()) {
            return;
        }
        self.asked.clear();
        self.machines = match self.ports.cloud.machines().await {
            Ok(machines) => Some((Instant::now(), machines)),
            Err(error) => {
                tracing::warn!(error = chain(&error), "EC2 does not say what it runs");
                None
            }
        };
        self.ask_for_templates().await;
    }

    /// Tells whoever listens. Losing a notice costs nothing but the news.
    async fn announce(&self) {
        let deletions = Some(self.summary.held_deletions).filter(|count| *count > 0);
        let held = [("instances", self.summary.breaker), ("deletions", deletions)];
        let held = held.into_iter().filter_map(|(what, count)| Some((what.to_owned(), count?.into())));
        let news = [
            ("NodeClaims Terminated", self.summary.gone.clone(), BTreeMap::new()),
            ("Breaker Opened", Vec::new(), held.collect()),
        ];
        for (kind, claims, detail) in news {
            if claims.is_empty() && detail.is_empty() {
                continue;
            }
            let cluster = self.settings.cluster.clone();
            let notice = Notice { kind, cluster, claims, detail };
            if let Err(error) = self.ports.cloud.publish(&notice).await {
                tracing::warn!(kind, error = chain(&error), "the notice was not published");
            }
        }
    }
}
