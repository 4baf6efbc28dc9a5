//! Consolidations on the real kube-scheduler, as the functions carry them out: planning decides,
//! the first command is carried out, and planning decides anew until nothing is worth doing. The
//! pods of nodes that are ended are deleted and made again as a ReplicaSet would. What is to go
//! bears the soft taint of disrupt; what replaces it stays closed until the pods that
//! kube-scheduler found no room for are planned again and bound.

mod replicas;

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::SignedDuration;
use outrigger_bench::replay::Scenario;
use outrigger_model::{Node, Plan, PodRef, Price, Snapshot, Taint};
use outrigger_planning::{consolidate, provision};
use outrigger_policy::Options;
use outrigger_policy::disruption::{Consolidation, ConsolidationCommand, DisruptionSettings, NodeCost};
use outrigger_referee::check_consolidation;
use serde_json::json;

use crate::cluster::{Cluster, in_parallel};
use crate::joining;
use crate::planned::{JoinsAs, Planned};
use crate::rounds::{LONGEST, path};
use replicas::Replicas;

/// How long a command waits for pods that kube-scheduler has said no to. Events that may help them
/// come at once.
const QUIET_FOR: Duration = Duration::from_secs(3);
/// After so many commands a cluster that finds no rest is left as it is.
const COMMANDS_MAX: u64 = 60;
/// How long kube-scheduler takes at most to hear of a taint. Lifecycle waits for longer before it
/// evicts.
const HEARING: Duration = Duration::from_millis(300);

/// What came of a consolidation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Consolidated {
    /// The scenario's name.
    pub(crate) scenario: String,
    /// Nodes of NodePools at first.
    pub(crate) nodes_before: usize,
    /// The same after the last command.
    pub(crate) nodes_after: usize,
    /// Commands that were carried out.
    pub(crate) commands: usize,
    /// Evictions of the way that was found at first.
    pub(crate) planned: usize,
    /// Evictions that it came to: kube-scheduler may put a pod on a node that a later command ends.
    pub(crate) evicted: usize,
    /// Nodes that were bought beside those of the commands.
    pub(crate) bought: usize,
    /// Pods that kube-scheduler deleted to make room.
    pub(crate) preempted: usize,
    /// Pods without a node after the last command, with kube-scheduler's words.
    pub(crate) pending: Vec<(PodRef, String)>,
    /// Nano-dollars per hour of all nodes at first.
    pub(crate) before: u64,
    /// The same after the last command, as the first decision has it.
    pub(crate) decided: u64,
    /// What the nodes cost that are there after the last command.
    pub(crate) remaining: u64,
    /// How long it took.
    pub(crate) seconds: f64,
}

/// Consolidates a scenario's cluster until there is nothing more to do.
pub(crate) fn consolidate_fully(cluster: &Cluster, scenario: &Scenario) -> Result<Consolidated> {
    let began = Instant::now();
    cluster.clear().context("emptying the cluster")?;
    cluster.create(&scenario.objects)?;
    let mut pods = Replicas::new(scenario);
    cluster.pods.wait("the running pods to be seen", LONGEST, |state| pods.are_in(state))?;
    let (mut outcome, mut snapshot) = (None, a_day_later(cluster, scenario, 1)?);
    for generation in 2..COMMANDS_MAX {
        let consolidation = decide(scenario, &snapshot)?;
        mark(cluster, &snapshot, &consolidation)?;
        let outcome = outcome.get_or_insert_with(|| Consolidated::new(scenario, &snapshot, &consolidation));
        let Some(command) = consolidation.commands.first() else { break };
        let run = CommandRun { cluster, scenario, snapshot: &snapshot, command };
        let done = run.finish(&mut pods);
        let done = done.with_context(|| format!("carrying out {:?} of {}", command.delete, scenario.name))?;
        outcome.evicted += done.evicted;
        outcome.bought += done.bought;
        outcome.commands += 1;
        snapshot = a_day_later(cluster, scenario, generation)?;
    }
    let mut outcome = outcome.context("nothing was decided")?;
    outcome.close(cluster, &pods, &snapshot);
    outcome.seconds = began.elapsed().as_secs_f64();
    Ok(outcome)
}

/// What disrupt would do.
fn decide(scenario: &Scenario, snapshot: &Snapshot) -> Result<Consolidation> {
    let (options, settings) = (Options::default(), DisruptionSettings::default());
    let consolidation = consolidate(snapshot, &options, &settings);
    let violations = check_consolidation(snapshot, &consolidation, &options);
    ensure!(violations.is_empty(), "{}: the referee refuses it: {violations:?}", scenario.name);
    Ok(consolidation)
}

/// Gives nodes that are to go the soft taint, and takes it from the others.
fn mark(cluster: &Cluster, snapshot: &Snapshot, consolidation: &Consolidation) -> Result<()> {
    let goes = |node: &Node| consolidation.commands.iter().any(|command| command.delete.contains(&node.name));
    let differs = |node: &&Node| goes(node) != node.is_disruption_candidate();
    let differing: Vec<&Node> = snapshot.nodes.iter().filter(differs).collect();
    in_parallel(&differing, |node| {
        let mut taints = node.taints.clone();
        taints.retain(|taint| *taint != Taint::disruption_candidate());
        taints.extend(goes(node).then(Taint::disruption_candidate));
        let change = json!({"spec": {"taints": taints}});
        cluster.api().merge(&format!("/api/v1/nodes/{}", node.name), &change).map(drop)
    })
}

/// What a decision may use when no node is too young. Each decision names its nodes by its
/// generation.
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

impl Consolidated {
    fn new(scenario: &Scenario, snapshot: &Snapshot, consolidation: &Consolidation) -> Self {
        Self {
            scenario: scenario.name.clone(),
            nodes_before: nodes_of_pools(snapshot),
            planned: consolidation.commands.iter().map(|command| command.evictions).sum(),
            before: total(consolidation.before),
            decided: total(consolidation.after),
            ..Self::default()
        }
    }

    /// What the cluster is like after the last command.
    fn close(&mut self, cluster: &Cluster, pods: &Replicas, snapshot: &Snapshot) {
        self.nodes_after = nodes_of_pools(snapshot);
        let settings = DisruptionSettings::default();
        self.remaining = total(consolidate(snapshot, &Options::default(), &settings).before);
        let state = cluster.pods.lock();
        let refusal = |pod: &PodRef| state.seen.get(pod).and_then(|seen| seen.refusal.clone());
        self.preempted = pods.preempted;
        self.pending = pods
            .unbound(&state)
            .into_iter()
            .map(|pod| (pod.clone(), refusal(&pod).unwrap_or_default()))
            .collect();
    }

    /// Adds another one to a total.
    pub(crate) fn add(&mut self, other: Self) {
        "all of them".clone_into(&mut self.scenario);
        self.nodes_before += other.nodes_before;
        self.nodes_after += other.nodes_after;
        self.commands += other.commands;
        self.planned += other.planned;
        self.evicted += other.evicted;
        self.bought += other.bought;
        self.preempted += other.preempted;
        self.pending.extend(other.pending);
        self.before += other.before;
        self.decided += other.decided;
        self.remaining += other.remaining;
        self.seconds += other.seconds;
    }

    /// Dollars per hour.
    pub(crate) fn dollars(nanos: u64) -> f64 {
        Price::from_nanos(nanos).dollars()
    }
}

/// What a command came to.
struct CommandCounts {
    /// Evictions.
    evicted: usize,
    /// Nodes that were bought beside what replaces the ended ones, since kube-scheduler spread the
    /// pods otherwise.
    bought: usize,
}

/// A command, and what it is carried out on.
struct CommandRun<'s> {
    cluster: &'s Cluster,
    scenario: &'s Scenario,
    /// What was decided from.
    snapshot: &'s Snapshot,
    command: &'s ConsolidationCommand,
}

impl CommandRun<'_> {
    /// Lets what replaces the nodes join, closes these, makes their pods anew, and lets the nodes
    /// go.
    fn finish(&self, pods: &mut Replicas) -> Result<CommandCounts> {
        let nothing = Plan::nothing(self.snapshot.taken_at, self.snapshot.generation);
        let plan = Plan { nodes: self.command.replace_with.clone(), ..nothing };
        let planned = Planned::new(&plan, self.snapshot, JoinsAs::Cheapest)?;
        joining::register_new(self.cluster, self.scenario, &planned.nodes, self.snapshot)?;
        in_parallel(&self.command.delete, |node| taint(self.cluster, node, &Taint::disrupted()))?;
        thread::sleep(HEARING);
        let mut done =
            CommandCounts { evicted: pods.move_from(self.cluster, &self.command.delete)?, bought: 0 };
        pods.await_quiet(self.cluster, QUIET_FOR)?;
        if !pods.unbound(&self.cluster.pods.lock()).is_empty() {
            done.bought = self.place_waiting()?;
        }
        joining::open(self.cluster, &planned.nodes)?;
        pods.await_quiet(self.cluster, QUIET_FOR)?;
        in_parallel(&self.command.delete, |node| self.remove(node))?;
        Ok(done)
    }

    /// Plans places for the pods that wait, as provision does, and binds those that go to closed
    /// nodes, as lifecycle does; says how many nodes had to be bought beside those of the command.
    fn place_waiting(&self) -> Result<usize> {
        // Nodes are named by the generation: no decision has this one.
        let snapshot = a_day_later(self.cluster, self.scenario, self.snapshot.generation + COMMANDS_MAX)?;
        let (plan, _) = provision(&snapshot, &Options::default());
        joining::bind(self.cluster, self.scenario, &plan.existing)?;
        let planned = Planned::new(&plan, &snapshot, JoinsAs::Cheapest)?;
        joining::register_new(self.cluster, self.scenario, &planned.nodes, &snapshot)?;
        joining::bind(self.cluster, self.scenario, &planned.on_new())?;
        joining::open(self.cluster, &planned.nodes)?;
        Ok(planned.nodes.len())
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
