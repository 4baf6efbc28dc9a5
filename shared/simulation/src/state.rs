//! Everything that is true of a world at one moment, and the rules that join its parts: launched
//! machines boot, booted machines join, joined nodes become ready.

mod departure;
mod health;
mod interruption;
mod placing;
mod pools;
mod rogue;
mod uninstall;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_engine::ports::{CloudError, FleetAnswer, InstanceState, Notice};
use outrigger_model::{FleetRequest, StaticPod, labels};

use crate::agenda::{Agenda, Step};
use crate::cloud::{Buckets, Ec2, Machine, NO_CAPACITY};
use crate::cluster::Objects;
use crate::door::{Crash, Halt};
use crate::environment::Environment;
use crate::faults::{Faults, Trouble};
use crate::laws;
use crate::ledger::Table;
use crate::looks::Looks;
use crate::queue::Queue;
use crate::random::draw;
use crate::scenario::{Function, Scenario, Uninstall};
use crate::time::Moment;
use crate::timeline::{Kind, Timeline};

/// The tag by which the engine finds the instances of a launch again.
pub(crate) const INTENT_TAG: &str = outrigger_model::labels::INTENT;
/// From a node joining to its kubelet having shown its static pods.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// From a node joining to the cloud controller having labelled it.
const LABELLED_AFTER: Duration = Duration::from_secs(3);
/// From a node joining to its network being up.
const READY_AFTER: Duration = Duration::from_secs(8);
/// How much longer machines that join late take at most; Karpenter gives up a node after 15
/// minutes.
const LATEST_SECONDS: u64 = 20 * 60;
/// How long pods that were tried in vain wait at most until they are tried again, whatever changes
/// (kube-scheduler's `podMaxInUnschedulablePodsDuration`).
const TRIED_AGAIN_AFTER: Duration = Duration::from_mins(5);
/// From a node being registered to its agents having removed its startup taints.
const STARTED_AFTER: Duration = Duration::from_secs(5);

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
                agenda.add(scale.at, Step::Scale { workload: index, replicas: scale.replicas });
            }
        }
        for (index, event) in scenario.events.iter().enumerate() {
            agenda.add(event.at, Step::Begin(index));
            if let Some(length) = event.length() {
                agenda.add(event.at.saturating_add(length), Step::End(index));
            }
        }
        Self {
            seed: scenario.seed,
            boot_time: scenario.boot_time,
            allocatable_percent: scenario.allocatable_percent,
            memory_percent: scenario.memory_percent,
            static_pods: scenario.static_pods.iter().map(|it| it.pod.clone()).collect(),
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

    /// Takes note of what a fleet request did. `known` is how many machines there were before it.
    pub(crate) fn launched(
        &mut self,
        request: &FleetRequest,
        answer: &Result<FleetAnswer, CloudError>,
        known: usize,
        moment: Moment,
    ) {
        let pool = request.tags.get(labels::NODE_POOL).map_or("?", String::as_str);
        let fresh: Vec<_> = self.cloud.machines().values().skip(known).cloned().collect();
        for machine in &fresh {
            let id = &machine.instance.id;
            let percent = 80 + draw(self.seed, &format!("boot/{id}"), 41);
            let mut boot = self.boot_time.mul_f64(percent as f64 / 100.0);
            if self.faults.open(moment.elapsed).any(|trouble| trouble == Trouble::LateJoin) {
                boot += Duration::from_secs(draw(self.seed, &format!("late/{id}"), LATEST_SECONDS));
            }
            if machine.joins {
                self.agenda.add(moment.elapsed.saturating_add(boot), Step::Join(id.clone()));
            }
        }
        let (kind, text) = match answer {
            Err(error) => (Kind::Trouble, format!("NodePool {pool}: {error}")),
            Ok(_) if fresh.is_empty() => {
                (Kind::Trouble, format!("NodePool {pool}: nothing launched{}", why(answer)))
            }
            Ok(_) => {
                let kinds = crate::summary::grouped(fresh.iter().map(|machine| {
                    let instance = &machine.instance;
                    format!("{} {} {}", instance.instance_type, instance.capacity_type, instance.zone)
                }));
                (Kind::Launch, format!("NodePool {pool}: launched {kinds}{}", why(answer)))
            }
        };
        self.timeline.add(moment, kind, text);
        self.broken.extend(laws::limits(&self.cloud, self.cluster.node_pools(), moment));
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

    /// Does what is due and lets the scheduler place pods; says whether anything happened.
    pub(crate) fn advance(&mut self, moment: Moment, scenario: &Scenario) -> bool {
        let mut happened = false;
        let minute = moment.elapsed.as_secs() / 60;
        self.cluster.set_clock(self.faults.clock_ahead(&format!("objects/{minute}"), moment.elapsed));
        while let Some(step) = self.agenda.due(moment.elapsed) {
            happened = true;
            self.perform(step, moment, scenario);
        }
        if let Some(touched) = self.cluster.take_touched() {
            happened = true;
            let placed = crate::cluster::scheduler::run(&mut self.cluster, &touched, moment);
            placed.tell(&mut self.timeline, moment);
            for uid in placed.preempted() {
                self.preempt(uid, moment);
            }
            if placed.is_in_vain() && !self.tries_again {
                self.tries_again = true;
                self.agenda.add(moment.elapsed.saturating_add(TRIED_AGAIN_AFTER), Step::TryAgain);
            }
            self.broken.extend(laws::departure::binding(self, placed.nodes()));
        }
        self.await_jobs(moment);
        self.count_departures();
        if happened {
            let since = self.partitioned_since.unwrap_or(moment.elapsed);
            self.partitioned_since = laws::health::partition(self).map(|_| since);
        }
        happened
    }

    fn perform(&mut self, step: Step, moment: Moment, scenario: &Scenario) {
        match step {
            Step::Scale { workload, replicas } => {
                let text = self.cluster.scale(workload, replicas, moment);
                self.timeline.add(moment, Kind::Workload, text);
            }
            Step::Begin(index) => {
                if let Some(event) = scenario.events.get(index) {
                    event.begin(self, moment);
                    self.timeline.add(moment, Kind::Event, event.to_string());
                }
            }
            Step::End(index) => {
                if let Some(event) = scenario.events.get(index) {
                    self.timeline.add(moment, Kind::Event, format!("over: {event}"));
                }
            }
            Step::Join(id) => self.join(&id, moment),
            Step::ShowsStaticPods(node) => {
                let pods = std::mem::take(&mut self.static_pods);
                self.cluster.show_static_pods(&node, &pods, moment);
                self.static_pods = pods;
            }
            Step::Labelled(node) => self.label(&node),
            Step::Ready(node) if !self.cloud.machines().get(&node).is_some_and(Machine::is_live) => {}
            Step::Ready(node) => {
                self.cluster.make_ready(&node, moment);
                self.timeline.add(moment, Kind::Node, format!("{node} is Ready"));
                let filled_by = moment.elapsed.saturating_add(laws::placing::LONGEST_WAIT);
                self.agenda.add(filled_by, Step::Filled(node.clone()));
                let open_by = moment.elapsed.saturating_add(laws::placing::LONGEST_CLOSED);
                self.agenda.add(open_by, Step::Open(node));
            }
            Step::Filled(node) => {
                self.broken.extend(laws::placing::overdue(self, scenario, &node, moment));
            }
            Step::Open(node) => {
                self.broken.extend(laws::placing::closed(self, scenario, &node, moment));
            }
            Step::Committed(id) => {
                self.broken.extend(laws::disruption::unmarked(self, scenario, &id, moment));
            }
            Step::CommandDue(id) => {
                self.broken.extend(laws::disruption::overdue(self, scenario, &id, moment));
            }
            Step::CollectGarbage => self.collect_garbage(moment),
            Step::PoolDue(uid) => self.broken.extend(laws::pools::overdue(self, &uid)),
            Step::RollOn(workload) => self.roll_on(workload, moment),
            Step::PodIsDone(uid) => self.cluster.finish_pod(&uid, moment),
            Step::PodEnds(uid) => self.pod_ends(&uid, moment),
            Step::Ended(id) => {
                self.cloud.terminated(&id);
                self.announce_state(&id, InstanceState::Terminated, moment);
            }
            Step::LateFleet => self.carry_out_late(moment),
            Step::Falls(id) => self.fall(&id, moment),
            Step::Lost(node) => self.lose(node, moment),
            Step::Deserted(node) => self.desert(&node, moment),
            Step::ClearedUp(node) => self.clear_up(&node),
            Step::Calm(node) => self.cluster.calm_pods(&node),
            Step::DropBudgets => self.cluster.drop_budgets(),
            Step::Started(node) => self.cluster.drop_startup_taints(&node),
            Step::TryAgain => {
                self.tries_again = false;
                self.cluster.touch_all();
            }
            Step::Rogue(node) => self.taint_by_rogue(&node, moment),
        }
    }

    fn join(&mut self, id: &str, moment: Moment) {
        let Some(machine) = self.cloud.machines().get(id).filter(|machine| machine.is_live()) else { return };
        let Some(kind) = self.cloud.instance_type(&machine.instance.instance_type) else { return };
        let kind = health::with_memory(kind, self.memory_percent);
        self.cluster.join(machine, &kind, self.allocatable_percent, moment);
        let instance = &machine.instance;
        let text =
            format!("{id} joined: {} {} {}", instance.instance_type, instance.capacity_type, instance.zone);
        self.timeline.add(moment, Kind::Node, text);
        if !self.static_pods.is_empty() {
            self.agenda.add(moment.elapsed + SHOWN_AFTER, Step::ShowsStaticPods(id.to_owned()));
        }
        self.agenda.add(moment.elapsed + LABELLED_AFTER, Step::Labelled(id.to_owned()));
        if !self.faults.open(moment.elapsed).any(|trouble| trouble == Trouble::NeverReady) {
            self.agenda.add(moment.elapsed + READY_AFTER, Step::Ready(id.to_owned()));
        }
    }

    /// The cloud controller says what it knows of an instance.
    fn label(&mut self, id: &str) {
        let Some(machine) = self.cloud.machines().get(id) else { return };
        let known = [
            (labels::INSTANCE_TYPE, machine.instance.instance_type.as_str()),
            (labels::ZONE, machine.instance.zone.as_str()),
            (labels::REGION, self.cloud.region()),
        ];
        let known = known.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.cluster.label_from_cloud(id, known);
    }

    /// A node was given its labels by lifecycle; what runs on it takes the startup taints off a
    /// little later.
    pub(crate) fn registered(&mut self, node: &str, moment: Moment) {
        self.agenda.add(moment.elapsed + STARTED_AFTER, Step::Started(node.to_owned()));
        self.timeline.add(moment, Kind::Node, format!("{node} is registered"));
        self.tempt_rogue(node, moment);
        self.bind_stranger(node, moment);
    }
}

fn why(answer: &Result<FleetAnswer, CloudError>) -> String {
    let Ok(answer) = answer else { return String::new() };
    if answer.errors.is_empty() {
        return String::new();
    }
    let shown = answer.errors.iter().take(3).map(|error| format!("{} {}", error.instance_type, error.zone));
    let more = answer.errors.len().saturating_sub(3);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    let code = answer.errors.first().map_or("", |error| error.code.as_str());
    let what = if code == NO_CAPACITY { "no capacity" } else { code };
    format!("; {what} for {}{tail}", shown.collect::<Vec<_>>().join(", "))
}
