//! The provision tick: pods that the scheduler cannot place -> plan -> launches.

mod events;
mod memory;
mod pause;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use outrigger_model::{Node, NodeClaim, NodePool, Pause, Pod, PutOffReason, SpotRefusal};
use outrigger_policy::leaving::LeavingClaims;
use outrigger_policy::leaving::eviction::EvictionRules;
use outrigger_policy::pauses::paused;
use outrigger_policy::{MinValuesPolicy, Preferences};
use serde::Serialize;
use tokio::time::{Instant, timeout};

use crate::TickError;
use crate::chain::chain;
use crate::claim::command::{give_up_too_dear, note_replacements};
use crate::claim::nomination::hold_room;
use crate::guards::{Guard, Guards};
use crate::launch::apply::apply;
use crate::launch::launcher::LaunchResults;
use crate::launch::recover::recover;
use crate::lease_guard::LeaseGuard;
use crate::observe::configuration::configuration;
use crate::observe::offers::Offers;
use crate::observe::watch::{Waited, Watched};
use crate::observe::{Purpose, SnapshotInputs, snapshot};
use crate::ports::{ClusterState, Configuration, LedgerState, Ports, Scope};
use crate::status::show;
use memory::Decision;

/// The name of the function and of its lease.
pub const FUNCTION: &str = "provision";
/// How many times one tick plans again for pods whose launch failed; what is left waits for the
/// next tick.
const MAX_REPLANS: u32 = 3;
/// How long new pods may wait while people are shown what became of their objects.
const LONGEST_SHOW: Duration = Duration::from_secs(5);

/// How a tick behaves.
#[derive(Clone, Debug)]
pub struct ProvisionSettings {
    /// The kOps cluster's name.
    pub cluster: String,
    /// Who we are, for the lease: new for every invocation.
    pub owner: String,
    /// How long the tick watches for pods; zero plans once and ends.
    pub window: Duration,
    /// How long the tick waits for another one that is at work to end. A tick that the schedule
    /// begins waits for as long as its window, so that one that a notice has begun, and that ends
    /// at any time, leaves no gap; a notice need not wait, since who is at work sees what it is
    /// about.
    pub patience: Duration,
    /// A batch of pods closes when no further one came for this long (Karpenter's
    /// BATCH_IDLE_DURATION).
    pub batch_idle: Duration,
    /// A batch closes after this long in any case (Karpenter's BATCH_MAX_DURATION).
    pub batch_max: Duration,
    /// What becomes of what pods prefer (Karpenter's PREFERENCE_POLICY).
    pub preferences: Preferences,
    /// What becomes of minValues that cannot be kept (Karpenter's MIN_VALUES_POLICY).
    pub min_values: MinValuesPolicy,
    /// How many processors a node is bought larger at most for pods that may come next; a
    /// NodePool's annotation `outrigger.dev/headroom` goes before it.
    pub headroom: u32,
    /// How many nodes the cluster may get within a minute; a NodePool's annotation
    /// `outrigger.dev/max-new-nodes-per-minute` may allow it less.
    pub max_new_nodes_per_minute: usize,
    /// What keeps it from doing harm.
    pub guards: Guards,
}

impl ProvisionSettings {
    /// Karpenter's batch of 1 s idle and 10 s at most, a window of 55 s, and 500 new nodes a
    /// minute.
    pub fn new(cluster: impl Into<String>, owner: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            owner: owner.into(),
            window: Duration::from_secs(55),
            patience: Duration::ZERO,
            batch_idle: Duration::from_secs(1),
            batch_max: Duration::from_secs(10),
            preferences: Preferences::default(),
            min_values: MinValuesPolicy::default(),
            headroom: 16,
            max_new_nodes_per_minute: 500,
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
    /// How many plans were made.
    pub plans: u32,
    /// Pods that were planned for.
    pub pods: usize,
    /// Pods that no node can be made for.
    pub unplaced: usize,
    /// Claims that were launched.
    pub launched: Vec<String>,
    /// Claims that could not be launched, and why.
    pub failed: Vec<(String, String)>,
    /// Claims whose launch was not answered yet.
    pub unknown: Vec<String>,
    /// Nodes that were planned and put off: over the cap of new nodes in a minute, or beside a
    /// pool's first try.
    pub put_off: usize,
    /// Pools that may launch nothing now, and why.
    pub paused: BTreeMap<String, String>,
    /// An operator's pause that was in force.
    pub pause: Option<Pause>,
    /// Objects that were refused.
    pub invalid: usize,
}

/// One tick. Nothing that changes the world is begun after `deadline`.
///
/// Errors before the first plan leave the world as it was.
pub async fn tick(
    ports: Ports<'_>,
    settings: &ProvisionSettings,
    deadline: Instant,
) -> Result<Summary, TickError> {
    let began = Instant::now();
    let patience_ends = deadline.min(began + settings.patience);
    let Some(guard) = LeaseGuard::take(ports, FUNCTION, &settings.owner, patience_ends).await? else {
        return Ok(Summary { held_elsewhere: true, ..Summary::default() });
    };
    let mut tick = Tick {
        ports,
        settings,
        ends_at: deadline.min(began + settings.window),
        deadline,
        handled: BTreeSet::new(),
        leaving: LeavingClaims::default(),
        standing: false,
        replans: 0,
        spot_refusals: Vec::new(),
        resumes_at: None,
        unshown: None,
        without_template: BTreeSet::new(),
        told_paused: BTreeSet::new(),
        summary: Summary::default(),
    };
    let result = guard.beside(ports, Box::pin(tick.run(&guard))).await;
    guard.give_back(ports).await;
    result.map(|()| tick.summary)
}

struct Tick<'a> {
    ports: Ports<'a>,
    settings: &'a ProvisionSettings,
    ends_at: Instant,
    deadline: Instant,
    /// Uids of pods that this tick has planned for.
    handled: BTreeSet<String>,
    /// Nodes whose pods need another place.
    leaving: LeavingClaims,
    /// Whether a plan is due that pods alone do not ask for.
    standing: bool,
    replans: u32,
    /// Nodes whose spot fleet launched nothing, oldest first.
    spot_refusals: Vec<SpotRefusal>,
    /// Set while EC2 refuses launches for their rate, or an operator has paused them: no plan is
    /// made before.
    resumes_at: Option<Instant>,
    /// What people are still to be shown of their objects; set anew by every decision.
    unshown: Option<Unshown>,
    /// Pools whose launch template was missing once.
    without_template: BTreeSet<String>,
    /// Pools of which people were told that they are paused.
    told_paused: BTreeSet<String>,
    summary: Summary,
}

/// What is to be shown of the objects that people wrote.
enum Unshown {
    /// What was read when the tick began.
    Read(Box<(Configuration, LedgerState)>),
    /// What stands there by now.
    Changed,
}

impl Tick<'_> {
    async fn run(&mut self, guard: &LeaseGuard) -> Result<(), TickError> {
        let mut ledger = self.ports.ledger.load().await?;
        self.heed_pause(&mut ledger);
        self.leaving = LeavingClaims::ending_or_replaced(&ledger.claims, &ledger.commands, self.ports.now());
        let recovered =
            recover(self.ports, guard.lease(), &ledger, &self.settings.cluster, self.deadline).await?;
        self.learn(&recovered, &BTreeSet::new(), Some(&ledger.health)).await;
        self.note(recovered);
        let mut offers = Offers::new(self.ports.cloud.catalog().await?);
        // A command whose nodes have no pods any more, or never had, waits for a plan as well.
        let is_unplanned = ledger.commands.iter().any(|command| command.replacements.is_none());
        let configuration = configuration(self.ports).await?;
        self.standing = is_unplanned || has_standing_demand(&configuration, &ledger.claims);
        self.unshown = Some(Unshown::Read(Box::new((configuration, ledger))));
        let mut watched = Watched::open(self.ports, self.scope()).await?;
        loop {
            let has_news = self.news(&watched).next().is_some();
            if (has_news || self.standing) && self.may_launch() {
                if has_news && !self.settings.window.is_zero() {
                    self.gather(&mut watched).await?;
                }
                self.round(guard, &mut watched, &mut offers).await?;
                self.unshown = Some(Unshown::Changed);
                continue;
            }
            self.show().await;
            let now = Instant::now();
            if now >= self.ends_at {
                return Ok(());
            }
            // That launches may go on is no news where no pod waits for it any more.
            let resumes_at = self.resumes_at.filter(|at| *at > now).unwrap_or(self.ends_at);
            let remaining = resumes_at.min(self.ends_at).duration_since(now);
            watched.wait(self.ports, remaining).await?;
        }
    }

    /// Shows people what became of their objects while no pod waits for us: once a tick, and after
    /// decisions.
    async fn show(&mut self) {
        let Some(unshown) = self.unshown.take() else { return };
        let shown = async {
            let has_decided = matches!(unshown, Unshown::Changed);
            let (configuration, ledger) = match unshown {
                Unshown::Read(read) => *read,
                Unshown::Changed => (configuration(self.ports).await?, self.ports.ledger.load().await?),
            };
            show(self.ports, &configuration, &ledger, has_decided, self.deadline).await;
            Ok::<(), TickError>(())
        };
        let why = match timeout(LONGEST_SHOW, shown).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => chain(&error),
            Err(_) => format!("it took longer than {} s", LONGEST_SHOW.as_secs()),
        };
        tracing::warn!(why, "not all objects show what became of them; the next tick goes on");
    }

    fn may_launch(&mut self) -> bool {
        let now = Instant::now();
        self.resumes_at = self.resumes_at.filter(|at| *at > now);
        self.resumes_at.is_none() && now < self.deadline
    }

    /// What a tick begins with: pods that have no node and nodes whose drain begins are all that a
    /// quiet minute must see. Four things ask for the whole cluster at once, since the decision
    /// about them does: a command that no plan has looked at, a static pool that is short, a
    /// CapacityBuffer, and claims that end or are to be replaced.
    fn scope(&self) -> Scope {
        if self.standing || !self.leaving.is_empty() { Scope::Everything } else { Scope::Unscheduled }
    }

    /// What this tick has not planned for: pods, by uid, and while their pods are not seen, nodes
    /// that are going, by name.
    fn news<'s>(&'s self, watched: &'s Watched) -> impl Iterator<Item = &'s str> {
        let unseen = |node: &&Arc<Node>| node.is_leaving() && !watched.sees_everything();
        let nodes = watched.state.nodes.values().filter(unseen).map(|node| node.name.as_str());
        self.new_pods(&watched.state).chain(nodes)
    }

    /// Pods that this tick has not planned for: those that wait, and those whose node is going.
    fn new_pods<'s>(&self, state: &'s ClusterState) -> impl Iterator<Item = &'s str> {
        let handled = &self.handled;
        let nodes = self.leaving.nodes(state.nodes.values().map(AsRef::as_ref));
        // Budgets are not looked at: a pod that one of them keeps costs a plan without it.
        let rules = EvictionRules { budgets: &[], now: self.ports.now() };
        let asks = move |pod: &&Pod| pod.is_provisionable() || nodes.reschedules(pod, rules);
        let uids = state.pods.values().filter(asks).map(|pod| pod.uid.as_str());
        uids.filter(move |uid| !handled.contains(*uid))
    }

    /// Waits until no further pod has turned up for a while, so that pods that belong together are
    /// planned together.
    async fn gather(&self, watched: &mut Watched) -> Result<(), TickError> {
        let closes_at = (Instant::now() + self.settings.batch_max).min(self.deadline);
        let mut waiting = self.news(watched).count();
        let mut quiet_at = Instant::now() + self.settings.batch_idle;
        loop {
            let remaining = quiet_at.min(closes_at).saturating_duration_since(Instant::now());
            if remaining.is_zero() || watched.wait(self.ports, remaining).await? == Waited::Quiet {
                return Ok(());
            }
            let waiting_now = self.news(watched).count();
            if waiting_now > waiting {
                quiet_at = Instant::now() + self.settings.batch_idle;
            }
            waiting = waiting_now;
        }
    }

    /// One decision, from the ledger's state to what came of it.
    async fn round(
        &mut self,
        guard: &LeaseGuard,
        watched: &mut Watched,
        offers: &mut Offers,
    ) -> Result<(), TickError> {
        let mut ledger = self.ports.ledger.load().await?;
        if !self.settings.guards.has(Guard::UnavailableMemory) {
            ledger.unavailable.clear();
        }
        if let Some(pause) = self.heed_pause(&mut ledger) {
            self.rest(&pause, &watched.state).await;
            return Ok(());
        }
        if let Some(hold) = ledger.health.launches.as_ref().filter(|hold| hold.holds(self.ports.now())) {
            let remaining =
                Duration::try_from(hold.until.duration_since(self.ports.now())).unwrap_or_default();
            tracing::warn!(seconds = remaining.as_secs(), hold.reason, "nothing is launched for a while");
            self.resumes_at = Some(Instant::now() + remaining);
            return Ok(());
        }
        watched.see_everything(self.ports).await?;
        let new: Vec<String> = self.new_pods(&watched.state).map(str::to_owned).collect();
        if new.is_empty() && !self.standing {
            // The pods have gone, or the node that goes has none that need another place.
            return Ok(());
        }
        self.handled.extend(new);
        self.standing = false;
        let inputs = SnapshotInputs {
            cluster: &self.settings.cluster,
            max_new_nodes_per_minute: Some(self.settings.max_new_nodes_per_minute),
            spot_refusals: &self.spot_refusals,
            purpose: Purpose::Provision,
        };
        let mut snapshot = snapshot(self.ports, inputs, ledger, &watched.state, offers).await?;
        self.recall_demand(&mut snapshot).await;
        let (ports, deadline) = (self.ports, self.deadline);
        let decision = guard.keep_for(ports, deadline, self.decide(snapshot)).await?;
        self.count(&decision);
        if Instant::now() >= self.deadline {
            tracing::warn!("no time is left to launch what was planned; the next tick plans again");
            return Ok(());
        }
        let Decision { snapshot, plan, report, .. } = &decision;
        let outcome = apply(self.ports, guard.lease(), snapshot, plan, self.deadline).await?;
        self.learn_from(&decision, &outcome).await;
        self.plan_again_for(&decision, &outcome);
        note_replacements(self.ports, guard.lease(), snapshot, plan, &outcome).await?;
        if self.settings.guards.has(Guard::DearCommands) {
            give_up_too_dear(self.ports, guard.lease(), snapshot, plan).await?;
        }
        self.note(outcome);
        hold_room(self.ports, guard.lease(), snapshot, plan).await?;
        self.tell(snapshot, plan, report).await;
        if let Err(error) = self.ports.ledger.put_report(FUNCTION, snapshot.taken_at, report).await {
            tracing::warn!(error = chain(&error), "the report was not kept");
        }
        Ok(())
    }

    fn count(&mut self, decision: &Decision) {
        let Decision { snapshot, plan, report, .. } = decision;
        let on_new: usize = plan.nodes.iter().map(|node| node.pods.len()).sum();
        let on_existing: usize = plan.existing.iter().map(|placement| placement.pods.len()).sum();
        let unplaced = report.unplaced().count();
        tracing::info!(
            nodes = plan.nodes.len(),
            on_new,
            on_existing,
            unplaced,
            price = %plan.price(),
            generation = plan.generation,
            "planned"
        );
        self.summary.plans += 1;
        self.summary.pods += on_new + on_existing + unplaced;
        self.summary.unplaced = unplaced;
        self.summary.put_off += plan.put_off.len();
        self.summary.paused = paused(&snapshot.health, snapshot.taken_at);
        self.summary.invalid = snapshot.invalid.len();
    }

    /// Pods whose launch failed, whose plan was overtaken, or whose pool only tries, are new again:
    /// the offerings that could not be had are known by now. A static pool or a buffer is still
    /// short of a node without pods.
    fn plan_again_for(&mut self, decision: &Decision, outcome: &LaunchResults) {
        let plan = &decision.plan;
        let beside = plan.put_off.iter().filter(|node| node.reason == PutOffReason::BesideProbe);
        let beside: Vec<_> = beside.map(|node| &node.pods).collect();
        let all_is_done = outcome.failed.is_empty() && !outcome.overtaken && beside.is_empty();
        if self.replans >= MAX_REPLANS || all_is_done {
            return;
        }
        self.replans += 1;
        let unsound = plan.nodes.iter().filter(|node| !outcome.is_on_its_way(&node.claim));
        for pods in unsound.map(|node| &node.pods).chain(beside) {
            self.standing |= pods.is_empty();
            for pod in pods {
                self.handled.remove(&pod.uid);
            }
        }
    }

    fn note(&mut self, outcome: LaunchResults) {
        self.summary.launched.extend(outcome.launched);
        self.summary.failed.extend(outcome.failed);
        self.summary.unknown.extend(outcome.unknown);
    }
}

/// Whether nodes may be wanted that no pod waits for: those of static pools that have too few
/// claims, and the room of CapacityBuffers, of which only a plan can say whether it is there
/// already. Without either an idle tick plans nothing.
fn has_standing_demand(configuration: &Configuration, claims: &[NodeClaim]) -> bool {
    let is_short = |pool: &NodePool| {
        let serving =
            |claim: &&NodeClaim| claim.spec.node_pool == pool.name && claim.status.state.accepts_pods();
        let wanted = pool.spec.replicas.and_then(|replicas| usize::try_from(replicas).ok());
        wanted.is_some_and(|wanted| claims.iter().filter(serving).count() < wanted)
    };
    let has_buffers = configuration.buffers.iter().any(|buffer| buffer.count > 0);
    has_buffers || configuration.node_pools.iter().any(is_short)
}
