//! What came of a run, as one value: the same file and seed make the same bytes.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_model::{CapacityType, Node, Pod, PodRef, PodsOutcome, Price, labels};
use schemars::JsonSchema;
use serde::Serialize;

use crate::laws;
use crate::scenario::{Expect, Scenario};
use crate::state::State;
use crate::time::Moment;
use crate::timeline::Happening;

/// What came of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The scenario.
    pub scenario: String,
    /// What chance was drawn from.
    pub seed: u64,
    /// How long the world ran.
    pub seconds: u64,
    /// Its pods, daemons aside.
    pub pods: Pods,
    /// Its nodes, by what they are.
    pub nodes: Vec<Nodes>,
    /// Dollars per hour of all instances at the end.
    pub cost_per_hour: Price,
    /// Dollars per hour of their root volumes.
    pub node_cost_per_hour: Price,
    /// Dollars spent on both from beginning to end.
    pub spent: f64,
    /// How many fleet requests launched something.
    pub fleets: u64,
    /// What was not as the scenario expects.
    pub unexpected: Vec<String>,
    /// Laws of the engine that were broken; always empty unless Outrigger has a fault.
    pub broken_laws: Vec<String>,
    /// What happened.
    pub timeline: Vec<Happening>,
}

/// Pods at the end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pods {
    /// How many run.
    pub running: usize,
    /// Those that wait, by reason.
    pub waiting: Vec<Waiting>,
}

/// Pods that wait for the same reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Why.
    pub reason: String,
    /// Which pods.
    pub pods: Vec<PodRef>,
}

/// Nodes that are the same but for their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nodes {
    /// Their pool.
    pub node_pool: String,
    /// Their instance type.
    pub instance_type: String,
    /// How they are paid for.
    pub capacity_type: CapacityType,
    /// Their zone.
    pub zone: String,
    /// How many there are.
    pub count: usize,
    /// How many of them are ready for pods.
    pub initialized: usize,
    /// Dollars per hour of all of them.
    pub cost_per_hour: Price,
}

/// Where a world stands, for showing while it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// How long the world has run.
    pub elapsed: Duration,
    /// How long it will.
    pub duration: Duration,
    /// Pods that run, daemons aside.
    pub running: usize,
    /// Pods that wait.
    pub waiting: usize,
    /// Nodes that are ready for pods.
    pub nodes: usize,
    /// Instances that are not yet.
    pub starting: usize,
    /// Dollars per hour of everything.
    pub cost_per_hour: Price,
    /// Dollars spent so far.
    pub spent: f64,
}

/// Where a world stands.
pub(crate) fn figures(state: &State, moment: Moment, duration: Duration) -> Figures {
    let counts = |pod: &&Pod| !pod.is_bound_to_its_node() && !pod.state.is_over();
    let pods = state.cluster.pods().values().filter(counts);
    let (mut running, mut waiting) = (0, 0);
    for pod in pods {
        *(if pod.node_name.is_some() { &mut running } else { &mut waiting }) += 1;
    }
    let nodes = state.cluster.nodes().values().filter(|node| node.is_initialized()).count();
    let cost_per_hour = state.cloud.live().map(|machine| machine.instance.price + machine.volume).sum();
    Figures {
        elapsed: moment.elapsed,
        duration,
        running,
        waiting,
        nodes,
        starting: state.cloud.live().count().saturating_sub(nodes),
        cost_per_hour,
        spent: spent(state, moment),
    }
}

/// What came of a world.
pub(crate) fn summary(state: &State, moment: Moment, scenario: &Scenario) -> Summary {
    let figures = figures(state, moment, scenario.duration);
    let node_cost_per_hour = state.cloud.live().map(|machine| machine.volume).sum();
    Summary {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        seconds: moment.elapsed.as_secs(),
        pods: Pods { running: figures.running, waiting: waiting(state) },
        nodes: nodes(state),
        cost_per_hour: figures.cost_per_hour - node_cost_per_hour,
        node_cost_per_hour,
        spent: (figures.spent * 1e6).round() / 1e6,
        fleets: state.cloud.fleets(),
        unexpected: unexpected(state, scenario),
        broken_laws: laws::broken(state),
        timeline: state.timeline.since(0).to_vec(),
    }
}

/// Each machine is paid for from its launch until it is told to end.
fn spent(state: &State, moment: Moment) -> f64 {
    let hours = |from: Duration, until: Option<Duration>| {
        until.unwrap_or(moment.elapsed).saturating_sub(from).as_secs_f64() / 3_600.0
    };
    let machines = state.cloud.machines().values();
    // An empty sum of floats is minus nothing, which nobody wants to read.
    machines.fold(0.0, |spent, machine| {
        spent
            + (machine.instance.price + machine.volume).dollars()
                * hours(machine.launched.elapsed, machine.ended)
    })
}

/// Pool, instance type, capacity type and zone.
type Likeness = (String, String, CapacityType, String);

fn nodes(state: &State) -> Vec<Nodes> {
    let mut groups: BTreeMap<Likeness, Nodes> = BTreeMap::new();
    for machine in state.cloud.live() {
        let instance = machine.instance.clone();
        let node_pool = machine.tags.get(labels::NODE_POOL).cloned().unwrap_or_default();
        let key = (
            node_pool.clone(),
            instance.instance_type.clone(),
            instance.capacity_type,
            instance.zone.clone(),
        );
        let group = groups.entry(key).or_insert(Nodes {
            node_pool,
            instance_type: instance.instance_type,
            capacity_type: instance.capacity_type,
            zone: instance.zone,
            count: 0,
            initialized: 0,
            cost_per_hour: Price::ZERO,
        });
        group.count += 1;
        group.initialized +=
            usize::from(state.cluster.nodes().get(&instance.id).is_some_and(Node::is_initialized));
        group.cost_per_hour += instance.price;
    }
    groups.into_values().collect()
}

/// Pods without a node, by the reason that the last decision gave.
fn waiting(state: &State) -> Vec<Waiting> {
    let mut reasons: BTreeMap<&PodRef, String> = BTreeMap::new();
    if let Some((_, report)) = state.ledger.report("provision") {
        for entry in &report.pods {
            let reason = match &entry.outcome {
                PodsOutcome::Placed { on } => format!("its node is on its way: {on}"),
                PodsOutcome::Ignored { reason } => reason.clone(),
                unplaced => unplaced.unplaced_reason().unwrap_or_default(),
            };
            reasons.extend(entry.pods.iter().map(|pod| (pod, reason.clone())));
        }
    }
    let mut groups: BTreeMap<String, Vec<PodRef>> = BTreeMap::new();
    for pod in state.cluster.pods().values().filter(|pod| pod.node_name.is_none()) {
        let reason =
            reasons.get(&pod.id).cloned().unwrap_or_else(|| "no decision has been made about it yet".into());
        groups.entry(reason).or_default().push(pod.id.clone());
    }
    groups.into_iter().map(|(reason, pods)| Waiting { reason, pods }).collect()
}

fn unexpected(state: &State, scenario: &Scenario) -> Vec<String> {
    let mut unexpected = Vec::new();
    // For pods that cannot be read nothing is planned: where there is room they run, and elsewhere
    // they wait.
    for workload in scenario.workloads.iter().filter(|workload| workload.unreadable.is_none()) {
        let like = |pod: &&Pod| {
            std::sync::Arc::ptr_eq(&pod.spec, &workload.spec) && pod.id.namespace == workload.id.namespace
        };
        let lives = |pod: &&Pod| is_of(pod, &workload.id) && !pod.state.is_over();
        let pods = state.cluster.pods().values().filter(like).filter(lives);
        let (running, waiting): (Vec<_>, Vec<_>) = pods.partition(|pod| pod.node_name.is_some());
        let (wrong, is) = match workload.expect {
            Expect::Running => (waiting.len(), "wait"),
            Expect::Waiting => (running.len(), "run"),
        };
        if wrong > 0 {
            unexpected
                .push(format!("{wrong} pods of {} {is}; expected is {:?}", workload.id, workload.expect));
        }
    }
    unexpected
}

fn is_of(pod: &Pod, workload: &PodRef) -> bool {
    let index = pod.id.name.strip_prefix(&workload.name).and_then(|rest| rest.strip_prefix('-'));
    index.is_some_and(|index| index.bytes().all(|b| b.is_ascii_digit()))
}
