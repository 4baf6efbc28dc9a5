//! Plan, replay, plan again for what is left, until every pod that can have a place is bound.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use outrigger_bench::replay::Scenario;
use outrigger_model::{PodRef, Snapshot};
use outrigger_planning::provision;
use outrigger_policy::Options;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::joining::{self, Opening};
use crate::planned::{JoinsAs, Planned};
use crate::pods::State;
use crate::volumes;

/// kube-scheduler tries a pod again after at most ten seconds; one whose state has not changed for
/// longer stays as it is.
pub(crate) const QUIET: Duration = Duration::from_secs(12);
/// How long anything may take at most.
pub(crate) const LONGEST: Duration = Duration::from_secs(180);
/// How often the provisioner looks.
const PROVISIONING: Duration = Duration::from_millis(300);
/// Of so many bound pods kube-scheduler is asked about one, and about so many at most.
const JUDGED_EACH: usize = 10;
const JUDGED_MAX: usize = 200;
/// After so many rounds we give up.
const ROUNDS_MAX: usize = 3;

/// What came of a scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// Its name.
    pub(crate) scenario: String,
    /// Pods that the first plan had a place for.
    pub(crate) planned: usize,
    /// New nodes of the first plan.
    pub(crate) nodes: usize,
    /// Of the planned pods, those bound after the first round.
    pub(crate) bound_first: usize,
    /// Plans that were replayed.
    pub(crate) rounds: usize,
    /// Pods that are without a node at the end and should have one.
    pub(crate) unplaced: usize,
    /// Pods that are without a node at the end and may be.
    pub(crate) unplaced_by_right: usize,
    /// Running pods that kube-scheduler deleted to make room.
    pub(crate) preempted: usize,
    /// Dollars per hour of the first plan.
    pub(crate) planned_cost: f64,
    /// Dollars per hour of all plans.
    pub(crate) settled_cost: f64,
    /// Of the pods whose places kube-scheduler was asked about, how many there were.
    pub(crate) judged: usize,
    /// Those whose places it would not have, in its words.
    pub(crate) illegal: Vec<(PodRef, String)>,
    /// Why pods were not bound in the first round, in the scheduler's words.
    pub(crate) refusals: Vec<(PodRef, String)>,
    /// How long it took.
    pub(crate) seconds: f64,
    /// Why there are no figures.
    pub(crate) failure: Option<String>,
}

impl Figures {
    /// Of a scenario that could not be played to its end.
    pub(crate) fn failed(scenario: &str, error: &anyhow::Error) -> Self {
        Self { scenario: scenario.to_owned(), failure: Some(format!("{error:#}")), ..Self::default() }
    }

    /// Of a whole table.
    pub(crate) fn total(figures: &[Self]) -> Self {
        let mut total = Self { scenario: format!("all {} scenarios", figures.len()), ..Self::default() };
        for one in figures {
            total.planned += one.planned;
            total.nodes += one.nodes;
            total.bound_first += one.bound_first;
            total.rounds = total.rounds.max(one.rounds);
            total.unplaced += one.unplaced;
            total.unplaced_by_right += one.unplaced_by_right;
            total.preempted += one.preempted;
            total.judged += one.judged;
            total.illegal.extend(one.illegal.iter().cloned());
            total.planned_cost += one.planned_cost;
            total.settled_cost += one.settled_cost;
            total.seconds += one.seconds;
        }
        total
    }

    /// Percent of the planned pods bound in the first round.
    pub(crate) fn first_round(&self) -> f64 {
        if self.planned == 0 { 100.0 } else { 100.0 * self.bound_first as f64 / self.planned as f64 }
    }

    /// All nodes bought, over those first planned.
    pub(crate) fn cost_ratio(&self) -> f64 {
        if self.planned_cost > 0.0 { self.settled_cost / self.planned_cost } else { 1.0 }
    }
}

/// Runs a scenario on an emptied cluster.
pub(crate) fn replay(cluster: &Cluster, scenario: &Scenario, opening: Opening) -> Result<Figures> {
    let began = Instant::now();
    cluster.clear().context("emptying the cluster")?;
    cluster.create(&scenario.objects)?;
    cluster.create(&scenario.pods)?;
    let pending: Vec<PodRef> = scenario.pods.iter().map(reference).collect();
    cluster.pods.wait("the scheduler's first word on every pod", LONGEST, |state| {
        let judged =
            |pod| state.seen.get(pod).is_some_and(|seen| seen.node.is_some() || seen.refusal.is_some());
        pending.iter().all(judged)
    })?;
    let deleted_before = cluster.pods.lock().deleted;
    let mut figures = Figures { scenario: scenario.name.clone(), ..Figures::default() };
    let mut first = None;
    for round in 1..=ROUNDS_MAX {
        let list = scenario.list(cluster.read_back()?);
        let snapshot = scenario.snapshot(&list, round as u64)?;
        let (plan, _) = provision(&snapshot, &Options::default());
        let planned = Planned::new(&plan, &snapshot, JoinsAs::Smallest)?;
        if planned.is_empty() {
            break;
        }
        play_round(cluster, scenario, &planned, &snapshot, opening)?;
        figures.note(round, &planned, cluster);
        first.get_or_insert(planned);
        if cluster.pods.lock().unbound(&pending).is_empty() {
            break;
        }
    }
    figures.close(cluster, scenario, &pending);
    figures.preempted = cluster.pods.lock().deleted - deleted_before;
    figures.seconds = began.elapsed().as_secs_f64();
    if let Some(first) = first.filter(|_| !scenario.strangers.is_empty()) {
        figures.judge(cluster, scenario, &first)?;
    }
    Ok(figures)
}

/// The nodes of one plan join, and the scheduler does what it will.
fn play_round(
    cluster: &Cluster,
    scenario: &Scenario,
    planned: &Planned,
    snapshot: &Snapshot,
    opening: Opening,
) -> Result<()> {
    joining::join(cluster, scenario, planned, snapshot, opening)?;
    let pods = planned.pods();
    let began = Instant::now();
    let settled = |state: &State| state.unbound(&pods).is_empty() || state.quiet_since(began) > QUIET;
    if !volumes::are_in(scenario) {
        return cluster.pods.wait("the planned pods", LONGEST, settled);
    }
    // A pod whose volume is being made waits for it.
    while began.elapsed() < LONGEST {
        volumes::provide(cluster.api())?;
        if cluster.pods.wait_up_to(PROVISIONING, settled)? {
            return Ok(());
        }
    }
    bail!("waited {LONGEST:?} in vain for the planned pods")
}

impl Figures {
    fn note(&mut self, round: usize, planned: &Planned, cluster: &Cluster) {
        let pods = planned.pods();
        let state = cluster.pods.lock();
        let unbound = state.unbound(&pods);
        if round == 1 {
            (self.planned, self.nodes) = (pods.len(), planned.nodes.len());
            self.bound_first = pods.len() - unbound.len();
            self.planned_cost = planned.price.dollars();
            let refusal = |pod: &PodRef| state.seen.get(pod).and_then(|seen| seen.refusal.clone());
            self.refusals =
                unbound.iter().map(|pod| ((*pod).clone(), refusal(pod).unwrap_or_default())).collect();
        }
        self.rounds = round;
        self.settled_cost += planned.price.dollars();
    }

    fn close(&mut self, cluster: &Cluster, scenario: &Scenario, pending: &[PodRef]) {
        let state = cluster.pods.lock();
        let (may_be_left, unplaced): (Vec<_>, Vec<_>) =
            state.unbound(pending).into_iter().partition(|pod| scenario.may_be_left(pod));
        (self.unplaced, self.unplaced_by_right) = (unplaced.len(), may_be_left.len());
    }
}

impl Figures {
    /// kube-scheduler judges our bindings: of every tenth bound pod it is asked, by required
    /// affinity to the node's name, whether the pod may be there, all else unchanged.
    fn judge(&mut self, cluster: &Cluster, scenario: &Scenario, planned: &Planned) -> Result<()> {
        // Who still waits would take the room of a pod that is deleted for a moment.
        let waiting: Vec<PodRef> = {
            let state = cluster.pods.lock();
            let waits = state.seen.iter().filter(|(_, seen)| seen.node.is_none());
            waits.map(|(pod, _)| pod.clone()).collect()
        };
        waiting.iter().try_for_each(|pod| cluster.api().delete(&path(pod)))?;
        let nodes: Vec<(PodRef, String)> = planned
            .nodes
            .iter()
            .flat_map(|node| node.pods.iter().map(|pod| (pod.pod.clone(), node.name.clone())))
            .filter(|(pod, node)| {
                cluster.pods.lock().seen.get(pod).is_some_and(|seen| seen.node.as_ref() == Some(node))
            })
            .collect();
        for (pod, node) in nodes.into_iter().step_by(JUDGED_EACH).take(JUDGED_MAX) {
            let Some(object) = scenario.pods.iter().find(|object| reference(object) == pod) else { continue };
            self.judged += 1;
            if let Some(words) = refused(cluster, object, &pod, &node)? {
                self.illegal.push((pod, words));
            }
        }
        Ok(())
    }
}

/// Deletes a bound pod and creates it again for the same node; gives the scheduler's words when it
/// does not bind it there.
fn refused(cluster: &Cluster, object: &Value, pod: &PodRef, node: &str) -> Result<Option<String>> {
    cluster.api().delete(&path(pod))?;
    cluster.pods.wait("a deleted pod to be gone", LONGEST, |state| !state.seen.contains_key(pod))?;
    cluster.create(&[pinned(object, node)])?;
    let is_there = |state: &State| state.seen.get(pod).is_some_and(|seen| seen.node.is_some());
    if !cluster.pods.wait_up_to(QUIET, is_there)? {
        let state = cluster.pods.lock();
        let words = state.seen.get(pod).and_then(|seen| seen.refusal.clone());
        return Ok(Some(format!("{node}: {}", words.unwrap_or_default())));
    }
    Ok(None)
}

/// A pod's path, to delete it at once.
pub(crate) fn path(pod: &PodRef) -> String {
    format!("/api/v1/namespaces/{}/pods/{}?gracePeriodSeconds=0", pod.namespace, pod.name)
}

/// The pod with required affinity to one node by name, in each of its alternatives.
fn pinned(object: &Value, node: &str) -> Value {
    let fields = json!([{"key": "metadata.name", "operator": "In", "values": [node]}]);
    let mut object = object.clone();
    let required =
        &mut object["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    match required["nodeSelectorTerms"].as_array_mut() {
        Some(terms) => terms.iter_mut().for_each(|term| term["matchFields"] = fields.clone()),
        None => *required = json!({"nodeSelectorTerms": [{"matchFields": fields}]}),
    }
    object
}

/// The namespace and name of an object.
pub(crate) fn reference(pod: &Value) -> PodRef {
    let text = |key: &str| pod["metadata"][key].as_str().map(str::to_owned);
    PodRef {
        namespace: text("namespace").unwrap_or_else(|| "default".into()),
        name: text("name").unwrap_or_default(),
    }
}
