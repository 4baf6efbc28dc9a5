//! The course of a world: what it does by itself, what a scenario lets happen, and what comes of
//! the functions' calls. Launched machines boot, booted machines join, joined nodes become ready.

mod departure;
mod events;
mod health;
mod interruption;
mod placing;
mod pools;
mod rogue;
mod uninstall;
mod workloads;

use std::time::Duration;

use outrigger_engine::ports::{CloudError, FleetAnswer, InstanceState};
use outrigger_model::{FleetRequest, labels};

use crate::agenda::Due;
use crate::cloud::{Machine, NO_CAPACITY};
use crate::cluster::scheduler;
use crate::faults::Trouble;
use crate::laws;
use crate::random::draw;
use crate::scenario::Scenario;
use crate::state::State;
use crate::time::Moment;
use crate::timeline::{Kind, grouped};

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

impl State {
    /// Takes note of what a fleet request did. `machines_before` is how many there were then.
    pub(crate) fn launched(
        &mut self,
        request: &FleetRequest,
        answer: &Result<FleetAnswer, CloudError>,
        machines_before: usize,
        moment: Moment,
    ) {
        let pool = request.tags.get(labels::NODE_POOL).map_or("?", String::as_str);
        let fresh: Vec<_> = self.cloud.machines().values().skip(machines_before).cloned().collect();
        for machine in &fresh {
            let id = &machine.instance.id;
            let percent = 80 + draw(self.seed, &format!("boot/{id}"), 41);
            let mut boot = self.boot_time.mul_f64(percent as f64 / 100.0);
            if self.faults.open(moment.elapsed).any(|trouble| trouble == Trouble::LateJoin) {
                boot += Duration::from_secs(draw(self.seed, &format!("late/{id}"), LATEST_SECONDS));
            }
            if machine.joins {
                self.agenda.add(moment.elapsed.saturating_add(boot), Due::Join(id.clone()));
            }
        }
        let (kind, text) = match answer {
            Err(error) => (Kind::Trouble, format!("NodePool {pool}: {error}")),
            Ok(_) if fresh.is_empty() => {
                (Kind::Trouble, format!("NodePool {pool}: nothing launched{}", why(answer)))
            }
            Ok(_) => {
                let kinds = grouped(fresh.iter().map(|machine| {
                    let instance = &machine.instance;
                    format!("{} {} {}", instance.instance_type, instance.capacity_type, instance.zone)
                }));
                (Kind::Launch, format!("NodePool {pool}: launched {kinds}{}", why(answer)))
            }
        };
        self.timeline.add(moment, kind, text);
        self.broken.extend(laws::limits(&self.cloud, self.cluster.node_pools(), moment));
    }

    /// Does what is due and lets the scheduler place pods; says whether anything happened.
    pub(crate) fn advance(&mut self, moment: Moment, scenario: &Scenario) -> bool {
        let mut happened = false;
        let minute = moment.elapsed.as_secs() / 60;
        self.cluster.set_clock(self.faults.clock_ahead(&format!("objects/{minute}"), moment.elapsed));
        while let Some(due) = self.agenda.due(moment.elapsed) {
            happened = true;
            self.perform(due, moment, scenario);
        }
        if let Some(touched) = self.cluster.take_touched() {
            happened = true;
            let placed = scheduler::run(&mut self.cluster, &touched, moment);
            placed.tell(&mut self.timeline, moment);
            for uid in placed.preempted() {
                self.preempt(uid, moment);
            }
            if placed.is_in_vain() && !self.tries_again {
                self.tries_again = true;
                self.agenda.add(moment.elapsed.saturating_add(TRIED_AGAIN_AFTER), Due::TryAgain);
            }
            let stood_still = |node: &&str| laws::departure::may_stand_still(self, scenario, node, moment);
            let ours = placed.ours().filter(|node| !stood_still(node));
            let nodes = placed.kept_by_drains().chain(ours);
            let broken = laws::departure::binding(self, nodes);
            self.broken.extend(broken);
        }
        self.await_jobs(moment);
        self.count_departures();
        if happened {
            let since = self.partitioned_since.unwrap_or(moment.elapsed);
            self.partitioned_since = laws::health::partition(self).map(|_| since);
        }
        happened
    }

    fn perform(&mut self, due: Due, moment: Moment, scenario: &Scenario) {
        match due {
            Due::Scale { workload, replicas } => {
                let text = self.cluster.scale(workload, replicas, moment);
                self.timeline.add(moment, Kind::Workload, text);
            }
            Due::Begin(index) => {
                if let Some(event) = scenario.events.get(index) {
                    self.begin(event, moment);
                    self.timeline.add(moment, Kind::Event, event.to_string());
                }
            }
            Due::End(index) => {
                if let Some(event) = scenario.events.get(index) {
                    self.timeline.add(moment, Kind::Event, format!("over: {event}"));
                }
            }
            Due::Join(id) => self.join(&id, moment),
            Due::ShowsStaticPods(node) => {
                let pods = std::mem::take(&mut self.static_pods);
                self.cluster.show_static_pods(&node, &pods, moment);
                self.static_pods = pods;
            }
            Due::Labelled(node) => self.label(&node),
            Due::Ready(node) if !self.cloud.machines().get(&node).is_some_and(Machine::is_live) => {}
            Due::Ready(node) => {
                self.cluster.make_ready(&node, moment);
                self.timeline.add(moment, Kind::Node, format!("{node} is Ready"));
                let filled_by = moment.elapsed.saturating_add(laws::placing::LONGEST_WAIT);
                self.agenda.add(filled_by, Due::Filled(node.clone()));
                let open_by = moment.elapsed.saturating_add(laws::placing::LONGEST_CLOSED);
                self.agenda.add(open_by, Due::Open(node));
            }
            Due::Filled(node) => {
                self.broken.extend(laws::placing::overdue(self, scenario, &node, moment));
            }
            Due::Open(node) => {
                self.broken.extend(laws::placing::closed(self, scenario, &node, moment));
            }
            Due::Committed(id) => {
                self.broken.extend(laws::disruption::unmarked(self, scenario, &id, moment));
            }
            Due::CommandEnds(id) => {
                self.broken.extend(laws::disruption::overdue(self, scenario, &id, moment));
            }
            Due::CollectGarbage => self.collect_garbage(moment),
            Due::PoolGoes(uid) => self.broken.extend(laws::pools::overdue(self, &uid)),
            Due::RollOn(workload) => self.roll_on(workload, moment),
            Due::PodIsDone(uid) => self.cluster.finish_pod(&uid, moment),
            Due::PodEnds(uid) => self.pod_ends(&uid, moment),
            Due::Ended(id) => {
                self.cloud.terminated(&id);
                self.announce_state(&id, InstanceState::Terminated, moment);
            }
            Due::LateFleet => self.launch_late(moment),
            Due::Falls(id) => self.fall(&id, moment),
            Due::Lost(node) => self.lose(node, moment),
            Due::Deserted(node) => self.desert(&node, moment),
            Due::ClearedUp(node) => self.clear_up(&node),
            Due::Calm(node) => self.cluster.calm_pods(&node),
            Due::DropBudgets => self.cluster.drop_budgets(),
            Due::Started(node) => self.cluster.drop_startup_taints(&node),
            Due::TryAgain => {
                self.tries_again = false;
                self.cluster.touch_all();
            }
            Due::Rogue(node) => self.taint_by_rogue(&node, moment),
        }
    }

    /// Whether a request is heard only later, and gets no answer.
    pub(crate) fn is_late(&mut self, request: &FleetRequest, moment: Moment) -> bool {
        let Some(delay) = self.cloud.hear_late(request) else { return false };
        self.agenda.add(moment.elapsed.saturating_add(delay), Due::LateFleet);
        true
    }

    /// EC2 carries out a request whose sender has long stopped to wait.
    fn launch_late(&mut self, moment: Moment) {
        let Some(request) = self.cloud.take_late_fleet() else { return };
        let machines_before = self.cloud.machines().len();
        let answer = self.cloud.create_fleet(&request, moment);
        self.launched(&request, &answer, machines_before, moment);
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
            self.agenda.add(moment.elapsed + SHOWN_AFTER, Due::ShowsStaticPods(id.to_owned()));
        }
        self.agenda.add(moment.elapsed + LABELLED_AFTER, Due::Labelled(id.to_owned()));
        if !self.faults.open(moment.elapsed).any(|trouble| trouble == Trouble::NeverReady) {
            self.agenda.add(moment.elapsed + READY_AFTER, Due::Ready(id.to_owned()));
        }
    }

    /// The cloud controller says what it knows of an instance.
    fn label(&mut self, id: &str) {
        let Some(machine) = self.cloud.machines().get(id) else { return };
        let cloud_labels = [
            (labels::INSTANCE_TYPE, machine.instance.instance_type.as_str()),
            (labels::ZONE, machine.instance.zone.as_str()),
            (labels::REGION, self.cloud.region()),
        ];
        let cloud_labels = cloud_labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        self.cluster.label_from_cloud(id, cloud_labels);
    }

    /// A node was given its labels by lifecycle; what runs on it takes the startup taints off a
    /// little later.
    pub(crate) fn registered(&mut self, node: &str, moment: Moment) {
        self.agenda.add(moment.elapsed + STARTED_AFTER, Due::Started(node.to_owned()));
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
