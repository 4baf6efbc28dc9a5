//! Consolidations on the real kube-scheduler: planning decides one, and its commands are carried out one after another.
//! The pods of nodes that are ended are deleted and made again as a ReplicaSet would, and kube-scheduler alone binds
//! them: nobody tells it where planning has a place for which pod.

mod replicas;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use outrigger_model::{Plan, PodRef, Price, Snapshot, Taint, TaintEffect};
use outrigger_planning::check::check_consolidation;
use outrigger_planning::disruption::{
    Consolidation, ConsolidationCommand, DisruptionSettings, NodeCost, consolidate,
};
use outrigger_planning::{Options, provision};
use serde_json::json;

use crate::cluster::{Cluster, in_parallel};
use crate::joining;
use crate::planned::{JoinsAs, Planned};
use crate::scenario::Scenario;
use crate::settle::{LONGEST, QUIET, path};
use replicas::Replicas;

/// How long a command waits for pods that kube-scheduler has said no to. Events that may help them come at once.
const PATIENCE: Duration = Duration::from_secs(3);
/// The key of the soft taint of nodes that later commands end.
const SHUNNED: &str = "outrigger.dev/shunned";
/// How long kube-scheduler takes at most to hear of a taint. Lifecycle waits for longer before it evicts.
const HEARING: Duration = Duration::from_millis(300);

/// What kube-scheduler knows of the nodes that later commands end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Later {
    /// Nothing: it takes them for the emptiest.
    Open,
    /// They bear a soft taint from the beginning.
    Shunned,
}

impl Later {
    /// As an environment variable asks, for measurements.
    fn chosen() -> Self {
        let is_shunned = std::env::var("OUTRIGGER_REPLAY_LATER").is_ok_and(|value| value == "shunned");
        if is_shunned { Self::Shunned } else { Self::Open }
    }
}

/// What came of a consolidation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// Nodes of NodePools at first.
    pub(crate) nodes_before: usize,
    /// The same after the last command.
    pub(crate) nodes_after: usize,
    /// Commands that were carried out.
    pub(crate) commands: usize,
    /// Evictions that the commands tell of.
    pub(crate) planned: usize,
    /// Evictions that they came to: kube-scheduler may put a pod on a node that a later command ends.
    pub(crate) evicted: usize,
    /// Pods that kube-scheduler deleted to make room.
    pub(crate) preempted: usize,
    /// Pods without a node after the last command, with kube-scheduler's words.
    pub(crate) pending: Vec<(PodRef, String)>,
    /// Nodes that had to be bought for the pending pods.
    pub(crate) bought: usize,
    /// Nano-dollars per hour of these.
    pub(crate) bought_cost: u64,
    /// Pods that have no node even then.
    pub(crate) left: usize,
    /// Nano-dollars per hour of all nodes at first, as it was told.
    pub(crate) before: u64,
    /// The same after the last command, as it was told.
    pub(crate) told: u64,
    /// What the nodes cost that are there then.
    pub(crate) found: u64,
    /// How long it took.
    pub(crate) seconds: f64,
}

/// Consolidates a scenario's cluster and carries that out.
pub(crate) fn carry_out(cluster: &Cluster, scenario: &Scenario) -> Result<Outcome> {
    let began = Instant::now();
    cluster.clear().context("emptying the cluster")?;
    cluster.create(&scenario.objects)?;
    let mut pods = Replicas::of(scenario);
    cluster.pods.wait("the running pods to be seen", LONGEST, |state| pods.are_in(state))?;
    let snapshot = a_day_later(cluster, scenario, 1)?;
    let (options, settings) = (Options::default(), DisruptionSettings::default());
    let found = consolidate(&snapshot, &options, &settings);
    let violations = check_consolidation(&snapshot, &found, &options);
    ensure!(violations.is_empty(), "{}: the referee refuses it: {violations:?}", scenario.name);
    let mut outcome = Outcome::of(scenario, &snapshot, &found);
    if Later::chosen() == Later::Shunned {
        let ended: Vec<&String> = found.commands.iter().flat_map(|command| &command.delete).collect();
        in_parallel(&ended, |node| {
            taint(cluster, node, &Taint::new(SHUNNED, "", TaintEffect::PreferNoSchedule))
        })?;
    }
    for (place, command) in found.commands.iter().enumerate() {
        let step = Step { cluster, scenario, snapshot: &snapshot, command };
        outcome.evicted += step
            .carry_out(&mut pods)
            .with_context(|| format!("carrying out command {} of {}", place + 1, scenario.name))?;
    }
    outcome.close(cluster, &pods, &a_day_later(cluster, scenario, 2)?);
    outcome.place_pending(cluster, scenario, &mut pods)?;
    outcome.seconds = began.elapsed().as_secs_f64();
    Ok(outcome)
}

/// What a decision may use when no node is too young. Each decision names its nodes by its generation.
fn a_day_later(cluster: &Cluster, scenario: &Scenario, generation: u64) -> Result<Snapshot> {
    let mut snapshot = scenario.snapshot(&scenario.list(cluster.read_back()?), generation)?;
    snapshot.taken_at += SignedDuration::from_hours(24);
    Ok(snapshot)
}

fn total(cost: NodeCost) -> u64 {
    (cost.instances + cost.beside).nanos()
}

fn nodes_of_pools(snapshot: &Snapshot) -> usize {
    snapshot.nodes.iter().filter(|node| node.node_pool().is_some()).count()
}

impl Outcome {
    fn of(scenario: &Scenario, snapshot: &Snapshot, found: &Consolidation) -> Self {
        Self {
            scenario: scenario.name.clone(),
            nodes_before: nodes_of_pools(snapshot),
            commands: found.commands.len(),
            planned: found.commands.iter().map(|command| command.evictions).sum(),
            before: total(found.before),
            told: total(found.after),
            ..Self::default()
        }
    }

    /// What the cluster is like after the last command.
    fn close(&mut self, cluster: &Cluster, pods: &Replicas, snapshot: &Snapshot) {
        self.nodes_after = nodes_of_pools(snapshot);
        let settings = DisruptionSettings::default();
        self.found = total(consolidate(snapshot, &Options::default(), &settings).before);
        let state = cluster.pods.lock();
        let refusal = |pod: &PodRef| state.all.get(pod).and_then(|seen| seen.refusal.clone());
        self.pending = pods
            .unbound(&state)
            .into_iter()
            .map(|pod| (pod.clone(), refusal(&pod).unwrap_or_default()))
            .collect();
    }

    /// Plans nodes for what is pending, as provision does, and lets them join.
    fn place_pending(&mut self, cluster: &Cluster, scenario: &Scenario, pods: &mut Replicas) -> Result<()> {
        if !self.pending.is_empty() {
            let snapshot = a_day_later(cluster, scenario, 2)?;
            let (plan, _) = provision(&snapshot, &Options::default());
            let planned = Planned::of(&plan, &snapshot, JoinsAs::Cheapest)?;
            (self.bought, self.bought_cost) = (planned.nodes.len(), planned.price.nanos());
            joining::register_new(cluster, scenario, &planned.nodes, &snapshot)?;
            joining::open(cluster, &planned.nodes)?;
            pods.settle(cluster, QUIET)?;
        }
        self.left = pods.unbound(&cluster.pods.lock()).len();
        self.preempted = pods.preempted;
        Ok(())
    }

    /// Adds another one to a total.
    pub(crate) fn add(&mut self, other: Self) {
        "all of them".clone_into(&mut self.scenario);
        self.nodes_before += other.nodes_before;
        self.nodes_after += other.nodes_after;
        self.commands += other.commands;
        self.planned += other.planned;
        self.evicted += other.evicted;
        self.preempted += other.preempted;
        self.pending.extend(other.pending);
        self.bought += other.bought;
        self.bought_cost += other.bought_cost;
        self.left += other.left;
        self.before += other.before;
        self.told += other.told;
        self.found += other.found;
        self.seconds += other.seconds;
    }

    /// Dollars per hour.
    pub(crate) fn dollars(nanos: u64) -> f64 {
        Price::from_nanos(nanos).dollars()
    }
}

/// A command, and what it is carried out on.
struct Step<'s> {
    cluster: &'s Cluster,
    scenario: &'s Scenario,
    /// What was decided from.
    snapshot: &'s Snapshot,
    command: &'s ConsolidationCommand,
}

impl Step<'_> {
    /// Opens what replaces the nodes, closes these, makes their pods anew and lets the nodes go; says how many pods
    /// that were.
    fn carry_out(&self, pods: &mut Replicas) -> Result<usize> {
        let nothing = Plan::nothing(self.snapshot.taken_at, self.snapshot.generation);
        let plan = Plan { nodes: self.command.replace_with.clone(), ..nothing };
        let planned = Planned::of(&plan, self.snapshot, JoinsAs::Cheapest)?;
        joining::register_new(self.cluster, self.scenario, &planned.nodes, self.snapshot)?;
        joining::open(self.cluster, &planned.nodes)?;
        in_parallel(&self.command.delete, |node| taint(self.cluster, node, &Taint::disrupted()))?;
        thread::sleep(HEARING);
        let evicted = pods.move_from(self.cluster, &self.command.delete)?;
        pods.settle(self.cluster, PATIENCE)?;
        in_parallel(&self.command.delete, |node| self.remove(node))?;
        Ok(evicted)
    }

    /// Lets a node go, with the pods that live and die with it.
    fn remove(&self, node: &str) -> Result<()> {
        for pod in self.cluster.pods.lock().on(node) {
            self.cluster.api().delete(&path(&pod))?;
        }
        self.cluster.api().delete(&format!("/api/v1/nodes/{node}"))
    }
}

/// Adds a taint to a node.
fn taint(cluster: &Cluster, node: &str, taint: &Taint) -> Result<()> {
    let path = format!("/api/v1/nodes/{node}");
    let mut taints = cluster.api().get(&path)?["spec"]["taints"].take();
    match taints.as_array_mut() {
        Some(taints) => taints.push(json!(taint)),
        None => taints = json!([taint]),
    }
    cluster.api().merge(&path, &json!({"spec": {"taints": taints}})).map(drop)
}
