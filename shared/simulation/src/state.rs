//! Everything that is true of a world at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_engine::ports::Notice;
use outrigger_model::StaticPod;

use crate::agenda::{Agenda, Due};
use crate::calls::{Call, Crash};
use crate::cloud::{Buckets, Ec2};
use crate::cluster::Objects;
use crate::environment::Environment;
use crate::faults::Faults;
use crate::ledger::Table;
use crate::looks::Looks;
use crate::queue::Queue;
use crate::scenario::{Function, Scenario, Uninstall};
use crate::timeline::Timeline;

/// A stop of a function before a call, and how long it takes.
pub(crate) type Halt = (Function, Call, Duration);

/// A world at one moment.
pub(crate) struct State {
    pub seed: u64,
    pub boot_time: Duration,
    pub allocatable_percent: u64,
    pub memory_percent: u64,
    /// What the kubelet of each node runs by itself.
    pub static_pods: Vec<StaticPod>,
    pub cloud: Ec2,
    pub ledger: Table,
    /// A copy of the ledger, where the scenario made one.
    pub table_copy: Option<Box<Table>>,
    pub cluster: Objects,
    pub agenda: Agenda,
    pub faults: Faults,
    pub timeline: Timeline,
    /// How often the doorbell of each function was rung.
    pub rings: BTreeMap<Function, u64>,
    /// What EC2 tells of its instances.
    pub queue: Queue,
    /// Instances that EC2 has said it will take.
    pub warned: BTreeSet<String>,
    /// Functions whose next run dies, and where.
    pub kills: Vec<(Function, Crash)>,
    /// Functions that stand still before a call, and for how long.
    pub freezes: Vec<Halt>,
    /// Whether the definition of NodeClaims was ever deleted.
    pub lost_definition: bool,
    /// Functions whose next call of a name takes so much longer.
    pub hangs: Vec<Halt>,
    /// Processes of functions that wait for their next run.
    pub warm: BTreeMap<Function, Vec<Environment>>,
    /// How many processes there have been.
    pub environments: usize,
    /// Whether they keep to EC2's rates.
    pub paces: bool,
    /// What each of them may still ask of EC2.
    pub asked: BTreeMap<usize, Buckets>,
    /// How many runs each function has had.
    pub runs: BTreeMap<Function, u32>,
    /// What the runs that are under way have looked at.
    pub looks: Looks,
    /// How many runs have died.
    pub deaths: u32,
    /// Instances that were terminated at our wish.
    pub given_up: BTreeSet<String>,
    /// Nodes whose kubelets are not heard of any more.
    pub silent: BTreeSet<String>,
    /// Since when so many nodes are not heard of that nothing may be concluded.
    pub partitioned_since: Option<Duration>,
    /// When the ledger was last lost, or replaced by an older copy.
    pub restored_at: Option<Duration>,
    /// When instances without a claim were terminated.
    pub orphans_ended: Vec<Duration>,
    /// How Outrigger is being taken out of the cluster, once somebody does.
    pub uninstalls: Option<Uninstall>,
    /// How many writes of claims there had been when the laws about claims were last checked.
    pub checked_claims: u64,
    /// When something was last written that changes which nodes there are, by what it was.
    pub last_writes: BTreeMap<&'static str, Duration>,
    /// How often a pod had to leave its node at our wish, by why the node was to end.
    pub evictions: BTreeMap<&'static str, usize>,
    /// How often the Eviction API did not let a pod go.
    pub refused_evictions: usize,
    /// How often one had to leave since its machine was taken.
    pub interruptions: usize,
    /// Whether the scheduler will try again what it has tried in vain.
    pub tries_again: bool,
    /// Since when each command says what it waits for, by id.
    pub replacements_since: BTreeMap<String, Duration>,
    /// Laws that were broken on the way.
    pub broken: Vec<String>,
}

impl State {
    /// The world before anything has happened.
    pub(crate) fn new(scenario: &Scenario, cloud: Ec2) -> Self {
        let mut agenda = Agenda::default();
        for (index, workload) in scenario.workloads.iter().enumerate() {
            for scale in &workload.scale {
                agenda.add(scale.at, Due::Scale { workload: index, replicas: scale.replicas });
            }
        }
        for (index, event) in scenario.events.iter().enumerate() {
            agenda.add(event.at, Due::Begin(index));
            if let Some(length) = event.length() {
                agenda.add(event.at.saturating_add(length), Due::End(index));
            }
        }
        Self {
            seed: scenario.seed,
            boot_time: scenario.boot_time,
            allocatable_percent: scenario.allocatable_percent,
            memory_percent: scenario.memory_percent,
            static_pods: scenario.static_pods.iter().map(|of_nodes| of_nodes.pod.clone()).collect(),
            cloud,
            ledger: Table::new(scenario.promises),
            table_copy: None,
            cluster: Objects::new(scenario),
            agenda,
            faults: Faults::new(scenario.seed),
            timeline: Timeline::default(),
            rings: BTreeMap::new(),
            queue: Queue::default(),
            warned: BTreeSet::new(),
            kills: Vec::new(),
            freezes: Vec::new(),
            hangs: Vec::new(),
            lost_definition: false,
            warm: BTreeMap::new(),
            environments: 0,
            paces: scenario.paces,
            asked: BTreeMap::new(),
            runs: BTreeMap::new(),
            looks: Looks::default(),
            deaths: 0,
            given_up: BTreeSet::new(),
            silent: BTreeSet::new(),
            partitioned_since: None,
            restored_at: None,
            replacements_since: BTreeMap::new(),
            orphans_ended: Vec::new(),
            uninstalls: None,
            checked_claims: 0,
            last_writes: BTreeMap::new(),
            evictions: BTreeMap::new(),
            refused_evictions: 0,
            interruptions: 0,
            tries_again: false,
            broken: Vec::new(),
        }
    }

    /// The functions that a notice wakes look again. Other news wake nobody.
    pub(crate) fn ring(&mut self, notice: &Notice) {
        let woken: &[Function] = match notice.kind {
            "NodeClaims Launched" => &[Function::Lifecycle],
            outrigger_engine::disrupt::NOTICE | outrigger_engine::interruption::NOTICE => {
                &[Function::Lifecycle, Function::Provision]
            }
            _ => &[],
        };
        for function in woken {
            *self.rings.entry(*function).or_default() += 1;
        }
    }

    /// Raised by everything that somebody may wait for.
    pub(crate) fn version(&self) -> (u64, u64, u64, u64) {
        (self.cluster.version(), self.agenda.added(), self.rings.values().sum(), self.queue.version())
    }

    /// A process for a run: one that is warm, or a new one.
    pub(crate) fn environment(&mut self, function: Function) -> Environment {
        let warm = self.warm.entry(function).or_default().pop();
        warm.unwrap_or_else(|| {
            let number = self.environments;
            self.environments += 1;
            Environment::new(number, self.paces)
        })
    }

    /// A run has ended, and its process waits for the next.
    pub(crate) fn keep_warm(&mut self, function: Function, environment: Environment) {
        self.warm.entry(function).or_default().push(environment);
    }

    /// Whether the functions are gone, so that no run begins any more.
    pub(crate) fn is_without_functions(&self) -> bool {
        self.uninstalls == Some(Uninstall::Release)
    }
}
