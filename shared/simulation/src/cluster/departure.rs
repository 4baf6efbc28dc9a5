//! How pods and nodes leave: evictions under budgets, deletions with grace, and what controllers
//! make again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_engine::Guard;
use outrigger_engine::ports::{ClusterError, Eviction, Mirror, PodOnNode};
use outrigger_model::selector::LabelSelector;
use outrigger_model::{
    HealthyPods, OwnerReference, Pod, PodDisruptionBudget, PodRef, PodState, Protection, Readiness,
    UnhealthyPods, labels,
};

use super::Objects;
use super::workloads::Replicas;
use crate::calls::Call;
use crate::scenario::DisruptionBudget;
use crate::time::{Moment, after};

/// For how long a policy forbids to change a NodeClaim object.
const LOCKED_FOR: Duration = Duration::from_mins(5);

/// What matters of a pod only when it has to leave.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub(super) grace: Duration,
    /// By when it must have ended, once it was asked to.
    pub(super) deleting_until: Option<jiff::Timestamp>,
    /// By how much the clock was ahead that wrote this down.
    pub(super) ahead: jiff::SignedDuration,
    /// When it came to its node; known of pods of workloads only.
    pub(super) bound_at: Option<Duration>,
    /// Since when it asks not to be disrupted, where somebody asked for it after it was made.
    pub(super) asks_since: Option<Duration>,
}

impl Default for Life {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(30),
            deleting_until: None,
            ahead: jiff::SignedDuration::ZERO,
            bound_at: None,
            asks_since: None,
        }
    }
}

impl Objects {
    fn life(&self, pod: &Pod) -> Life {
        self.lives.get(&pod.uid).cloned().unwrap_or_default()
    }

    pub(crate) fn pods_on(&self, node: &str) -> Vec<PodOnNode> {
        self.pods
            .on(node)
            .map(|pod| {
                let life = self.life(pod);
                let shown =
                    life.deleting_until.map(|until| until.saturating_add(life.ahead).unwrap_or(until));
                PodOnNode { pod: pod.clone(), deleting_until: shown, grace: life.grace }
            })
            .collect()
    }

    /// The budgets as the API shows them.
    pub(crate) fn disruption_budgets(&self) -> Vec<PodDisruptionBudget> {
        let shown = |budget: &DisruptionBudget| PodDisruptionBudget {
            id: budget.id.clone(),
            selector: LabelSelector { match_labels: budget.match_labels.clone(), ..LabelSelector::default() },
            is_fully_blocking: budget.max_unavailable == Some(0),
            disruptions_allowed: Some(self.allowed(budget)),
            unhealthy_pods: budget.unhealthy_pods.clone(),
            healthy: Some(self.health(budget)),
            unreadable: None,
        };
        self.budgets.iter().map(shown).collect()
    }

    /// Whether the Eviction API never lets a pod go, however many others are healthy. A pod that
    /// ends already goes.
    pub(crate) fn never_goes(&self, pod: &Pod) -> bool {
        let over: Vec<_> = self.budgets.iter().filter(|budget| covers(budget, pod)).collect();
        let never = |budget: &&DisruptionBudget| {
            budget.max_unavailable == Some(0) && !self.lets_unready_go(budget, pod)
        };
        asks_budgets(pod) && (over.len() > 1 || over.iter().any(never))
    }

    /// Somebody asks for the pods of a node by annotation that they not be disrupted.
    pub(crate) fn annotate_pods(&mut self, node: &str, moment: Moment) {
        let mild: Vec<Pod> = self.pods.on(node).filter(|pod| pod.do_not_disrupt.is_none()).cloned().collect();
        for mut pod in mild {
            let Some(life) = self.lives.get_mut(&pod.uid) else { continue };
            life.asks_since = Some(moment.elapsed);
            let started_at = Some(moment.at);
            pod.do_not_disrupt = Some(Box::new(Protection { value: "true".into(), started_at }));
            self.put_pod(pod);
        }
    }

    /// Somebody takes back what [`Self::annotate_pods`] has asked for.
    pub(crate) fn calm_pods(&mut self, node: &str) {
        let asking = |pod: &&Pod| self.lives.get(&pod.uid).is_some_and(|life| life.asks_since.is_some());
        let asking: Vec<Pod> = self.pods.on(node).filter(asking).cloned().collect();
        for mut pod in asking {
            self.lives.entry(pod.uid.clone()).or_default().asks_since = None;
            pod.do_not_disrupt = None;
            self.put_pod(pod);
        }
    }

    /// Since when a pod asks not to be disrupted; from the beginning where it was made so.
    pub(crate) fn asks_since(&self, pod: &Pod) -> Duration {
        self.lives.get(&pod.uid).and_then(|life| life.asks_since).unwrap_or_default()
    }

    /// Somebody makes a budget for the workload of each pod of a node that lets none of its pods
    /// go.
    pub(crate) fn add_budgets(&mut self, node: &str, moment: Moment) {
        let uids: BTreeSet<&str> = self.pods.on(node).map(|pod| pod.uid.as_str()).collect();
        let has_pods_here = |owner: &&Replicas| owner.uids.iter().any(|uid| uids.contains(uid.as_str()));
        let owners = self.workloads.iter().filter(has_pods_here).map(|owner| &owner.workload);
        for workload in owners.filter(|workload| !workload.labels.is_empty()) {
            let id = PodRef { name: format!("{}-for-a-while", workload.id.name), ..workload.id.clone() };
            self.late_budgets.entry(id.clone()).or_insert(moment.elapsed);
            self.budgets.push(DisruptionBudget {
                id,
                match_labels: workload.labels.as_ref().clone(),
                min_available: None,
                max_unavailable: Some(0),
                unhealthy_pods: UnhealthyPods::default(),
            });
        }
    }

    /// Somebody deletes the budgets that [`Self::add_budgets`] has made.
    pub(crate) fn drop_budgets(&mut self) {
        let late = std::mem::take(&mut self.late_budgets);
        self.budgets.retain(|budget| !late.contains_key(&budget.id));
    }

    /// Since when a pod's budgets are all there.
    pub(crate) fn covered_since(&self, pod: &Pod) -> Duration {
        let over = self.budgets.iter().filter(|budget| covers(budget, pod));
        over.filter_map(|budget| self.late_budgets.get(&budget.id)).max().copied().unwrap_or_default()
    }

    /// When a pod came to its node, as the world's time goes; known of pods of workloads only.
    pub(crate) fn bound_at(&self, pod: &Pod) -> Option<Duration> {
        self.lives.get(&pod.uid)?.bound_at
    }

    /// The oldest pods of workloads that run, by uid.
    pub(crate) fn oldest_running(&self, number: usize) -> Vec<String> {
        let runs = |pod: &&Pod| pod.state == PodState::Bound && self.bound_at(pod).is_some();
        let mut running: Vec<&Pod> = self.pods.values().filter(runs).collect();
        running.sort_by_key(|pod| (pod.created_at, pod.uid.as_str()));
        running.into_iter().take(number).map(|pod| pod.uid.clone()).collect()
    }

    /// By when a pod that was asked to end must have done so.
    pub(crate) fn deleting_until(&self, pod: &Pod) -> Option<jiff::Timestamp> {
        self.life(pod).deleting_until
    }

    /// How long a pod may take to end.
    pub(crate) fn grace(&self, pod: &Pod) -> Duration {
        self.life(pod).grace
    }

    /// Whom a request to end a pod hits: the pod that it names by its uid, or else whoever bears
    /// its name.
    pub(crate) fn meant(&self, pod: &Pod) -> Pod {
        let meant = if self.guards.has(Guard::PodUid) {
            self.pods.get(&pod.uid)
        } else {
            self.pods.values().find(|other| other.id == pod.id)
        };
        meant.unwrap_or(pod).clone()
    }

    /// What the Eviction API says to a request, before anything is done.
    pub(crate) fn judge(&self, pod: &Pod) -> Eviction {
        let Some(present) = self.pods.get(&pod.uid) else { return Eviction::Gone };
        if present.node_name.is_none() || !asks_budgets(present) {
            return Eviction::Accepted;
        }
        let over: Vec<&DisruptionBudget> =
            self.budgets.iter().filter(|budget| covers(budget, present)).collect();
        match over.as_slice() {
            [] => Eviction::Accepted,
            [budget] if self.may_go(budget, present) => Eviction::Accepted,
            [budget] => Eviction::Blocked {
                why: format!("Cannot evict pod as it would violate the disruption budget {}", budget.id.name),
            },
            _ => Eviction::Blocked {
                why: "This pod has more than one PodDisruptionBudget, which is not supported".into(),
            },
        }
    }

    /// Whether a pod's containers run.
    pub(super) fn is_running(&self, pod: &Pod) -> bool {
        let node = pod.node_name.as_ref().and_then(|node| self.nodes.get(node));
        pod.state == PodState::Bound && node.is_some_and(|node| node.ready)
    }

    /// Whether it counts for its budget.
    pub(super) fn is_healthy(&self, pod: &Pod) -> bool {
        pod.readiness == Readiness::Ready && self.is_running(pod)
    }

    /// Whether a budget lets a pod go.
    fn may_go(&self, budget: &DisruptionBudget, pod: &Pod) -> bool {
        self.lets_unready_go(budget, pod) || self.allowed(budget) > 0
    }

    /// Whether a budget lets a pod go because it is not ready (`unhealthyPodEvictionPolicy`).
    fn lets_unready_go(&self, budget: &DisruptionBudget, pod: &Pod) -> bool {
        let health = self.health(budget);
        pod.readiness != Readiness::Ready
            && match &budget.unhealthy_pods {
                UnhealthyPods::AlwaysAllow => true,
                UnhealthyPods::IfHealthyBudget => health.current >= health.desired && health.desired > 0,
                UnhealthyPods::Unknown(_) => false,
            }
    }

    /// How many healthy pods a budget lets go now.
    fn allowed(&self, budget: &DisruptionBudget) -> u32 {
        let health = self.health(budget);
        health.current.saturating_sub(health.desired)
    }

    /// How many of its pods are healthy and how many must be, as its controller writes it down.
    fn health(&self, budget: &DisruptionBudget) -> HealthyPods {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        HealthyPods { current: count(self.healthy(budget)), desired: count(self.desired(budget)) }
    }

    fn healthy(&self, budget: &DisruptionBudget) -> usize {
        self.pods.values().filter(|pod| covers(budget, pod) && self.is_healthy(pod)).count()
    }

    /// How many pods of a budget must be healthy.
    fn desired(&self, budget: &DisruptionBudget) -> usize {
        let of_budget = self.workloads.iter().filter(|replicas| {
            replicas.workload.id.namespace == budget.id.namespace
                && matches(&budget.match_labels, &replicas.workload.labels)
        });
        let expected: usize = of_budget.map(|replicas| replicas.uids.len()).sum();
        let number = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
        match (budget.min_available, budget.max_unavailable) {
            (Some(least), _) => number(least),
            (None, most) => expected.saturating_sub(number(most.unwrap_or(0))),
        }
    }

    /// A pod is asked to end; its controller makes another at once. Returns how long it may take;
    /// `None` when it ends already, or is gone.
    pub(crate) fn delete_pod(&mut self, uid: &str, grace: Duration, moment: Moment) -> Option<Duration> {
        let mut pod = self.pods.get(uid).filter(|pod| pod.state != PodState::Terminating)?.clone();
        self.replace(uid, moment);
        if pod.node_name.is_none() {
            self.remove_pod(uid, moment);
            return None;
        }
        pod.state = PodState::Terminating;
        let ahead = self.ahead;
        let life = self.lives.entry(uid.to_owned()).or_default();
        life.deleting_until = Some(after(moment.at, grace));
        life.ahead = ahead;
        self.put_pod(pod);
        Some(grace)
    }

    /// Whether a pod has a volume that no other may use beside it.
    pub(crate) fn has_volume_alone(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|pod| self.volumes.for_one_pod(pod).next().is_some())
    }

    /// A pod that was asked to end has done so.
    pub(crate) fn end_pod(&mut self, uid: &str, moment: Moment) {
        if self.pods.get(uid).is_some_and(|pod| pod.state == PodState::Terminating) {
            self.remove_pod(uid, moment);
        }
    }

    /// Somebody deletes a node. While a finalizer is left it stays.
    pub(crate) fn delete_node(&mut self, name: &str, moment: Moment) {
        let Some(mut node) = self.nodes.get(name).cloned() else { return };
        if node.finalizers.is_empty() {
            self.remove_node(name, moment);
        } else if !node.deleting {
            node.deleting = true;
            self.put_node(node);
        }
    }

    /// A node deleted and our finalizer taken off it.
    pub(crate) fn release_node(&mut self, name: &str, uid: &str, moment: Moment) {
        let Some(mut node) = self.nodes.get(name).filter(|node| node.uid == uid).cloned() else { return };
        node.finalizers.retain(|finalizer| finalizer != labels::TERMINATION_FINALIZER);
        self.put_node(node);
        self.delete_node(name, moment);
    }

    /// The node goes, and with it what was bound to it.
    fn remove_node(&mut self, name: &str, moment: Moment) {
        self.version += 1;
        self.record(outrigger_engine::ports::ClusterChange::NodeGone { name: name.to_owned() });
        self.nodes.remove(name);
        self.closed_at.remove(name);
        self.opened_at.remove(name);
        let orphaned: Vec<String> = self
            .pods
            .values()
            .filter(|pod| pod.node_name.as_deref() == Some(name))
            .map(|pod| pod.uid.clone())
            .collect();
        for uid in orphaned {
            self.replace(&uid, moment);
            self.remove_pod(&uid, moment);
        }
        self.volumes.forget(name);
    }

    /// Somebody deletes a NodeClaim object.
    pub(crate) fn delete_mirror(&mut self, name: &str) {
        if let Some(mirror) = self.mirrors.get_mut(name) {
            mirror.deleting = true;
        }
    }

    /// Somebody says that the deletion of a NodeClaim object is meant.
    pub(crate) fn confirm_deletion(&mut self, name: &str) {
        if let Some(mirror) = self.mirrors.get_mut(name) {
            mirror.delete_anyway = true;
        }
    }

    /// Somebody says that all deletions are meant, of nodes and of NodeClaims.
    pub(crate) fn confirm_deletions(&mut self) {
        for mirror in self.mirrors.values_mut().filter(|mirror| mirror.deleting) {
            mirror.delete_anyway = true;
        }
        let deleted: Vec<_> = self.nodes.values().filter(|node| node.deleting).cloned().collect();
        for mut node in deleted {
            node.annotations.insert(labels::DELETE_ANYWAY.into(), "true".into());
            self.put_node(node);
        }
    }

    /// Somebody deletes the definition of NodeClaims, and so every one of them.
    pub(crate) fn delete_definition(&mut self) {
        for (name, mirror) in self.mirrors.iter_mut().filter(|(_, mirror)| !mirror.deleting) {
            mirror.deleting = true;
            self.gone_with_definition.insert(name.clone());
        }
    }

    /// Whether nobody asked for the end of a claim whose NodeClaim object is deleted.
    pub(crate) fn went_with_definition(&self, claim: &str) -> bool {
        self.gone_with_definition.contains(claim)
    }

    /// Somebody asks by an annotation of a node's NodeClaim object that it not be disrupted.
    pub(crate) fn annotate_mirror(&mut self, node: &str, moment: Moment) {
        let claim = self.nodes.get(node).and_then(|node| node.annotations.get(labels::CLAIM)).cloned();
        let Some(claim) = claim else { return };
        if let Some(mirror) = self.mirrors.get_mut(&claim) {
            mirror.do_not_disrupt = Some("true".into());
            self.annotated_at.entry(claim).or_insert(moment.elapsed);
        }
    }

    /// Since when the NodeClaim object of a claim asks not to be disrupted, if it does.
    pub(crate) fn annotated_at(&self, claim: &str) -> Option<Duration> {
        let is_annotated = self.mirrors.get(claim).is_some_and(|mirror| mirror.do_not_disrupt.is_some());
        self.annotated_at.get(claim).copied().filter(|_| is_annotated)
    }

    /// A policy forbids every change of a node's NodeClaim object for a time.
    pub(crate) fn lock_mirror(&mut self, node: &str, moment: Moment) {
        let claim = self.nodes.get(node).and_then(|node| node.annotations.get(labels::CLAIM));
        if let Some(claim) = claim.cloned() {
            self.locked.insert(claim, moment.elapsed.saturating_add(LOCKED_FOR));
        }
    }

    /// Why a NodeClaim object may not be changed now, in the API server's words.
    pub(crate) fn check_lock(&self, name: &str, call: Call, moment: Moment) -> Result<(), ClusterError> {
        if self.locked.get(name).is_none_or(|until| *until <= moment.elapsed) {
            return Ok(());
        }
        let message = format!("nodeclaims.karpenter.sh \"{name}\" is forbidden: a policy denies the request");
        Err(ClusterError::Refused { attempted: call.words().into(), status: 422, message })
    }

    /// A NodeClaim object as it was written. It keeps the owner that it has.
    pub(crate) fn put_mirror(&mut self, name: &str, version: u64, owner: Option<&OwnerReference>) {
        let made = self.mirrors.contains_key(name).then(String::new).unwrap_or_else(|| self.next_uid());
        let mirror = self.mirrors.entry(name.to_owned()).or_insert(Mirror { uid: made, ..Mirror::default() });
        mirror.version = version;
        self.gone_with_definition.remove(name);
        mirror.owner = mirror.owner.take().or_else(|| owner.map(|owner| owner.uid.clone()));
    }
}

/// Whether the Eviction API asks budgets about a pod. It does not where the pod ends already, or
/// where its containers do not run.
fn asks_budgets(pod: &Pod) -> bool {
    pod.state == PodState::Bound && pod.readiness != Readiness::NotRunning
}

fn covers(budget: &DisruptionBudget, pod: &Pod) -> bool {
    budget.id.namespace == pod.id.namespace && matches(&budget.match_labels, &pod.labels)
}

fn matches(selector: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}
