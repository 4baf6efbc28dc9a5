//! Which planned pods may be bound to nodes that are ready for them, as the cluster is now.
//!
//! A plan was made of what a node would be and of the pods that ran then. Before a pod is bound,
//! its node's real room, labels and taints and the pods that are there now are asked again. The
//! rules are those of the referee of plans ([`outrigger_referee::check`]): every bound pod must be
//! where kube-scheduler would let it be, once all of them are bound.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{
    ExistingPlacement, Node, NominatedPod, Plan, Pod, PodState, Resources, Snapshot, Target, VolumeClaim,
};
use outrigger_policy::pods::daemons::{self, Daemon};
use outrigger_referee::{Violation, check};

/// The name of kube-scheduler where nobody gave it another.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// What may be done for planned pods now. Pods that wait for no node any more are in neither list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings {
    /// Pods that may be bound, on each node in order of priority.
    pub bound: Vec<ExistingPlacement>,
    /// The others.
    pub unbound: Vec<UnboundPod>,
}

/// A planned pod that must not be bound now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnboundPod {
    /// The pod.
    pub pod: NominatedPod,
    /// The node that it was planned for.
    pub node: String,
    /// Why.
    pub reason: String,
    /// Whether the pods beside it may make it possible a little later, as when nodes of the same
    /// plan become ready one after another.
    pub may_change: bool,
}

/// Says which planned pods may be bound to their nodes, which must be ready but for the taint that
/// closes them.
///
/// `schedulers` are those in whose place pods are bound. A snapshot needs nodes, pods, daemonsets,
/// namespaces, and the volumes that the planned pods mount; claims that it lacks hold no room.
pub fn bindings(
    snapshot: &Snapshot,
    planned: &[ExistingPlacement],
    schedulers: &BTreeSet<String>,
) -> Bindings {
    let index = ClusterIndex::new(snapshot, schedulers);
    let mut unbound = Vec::new();
    let mut bound: Vec<ExistingPlacement> =
        planned.iter().filter_map(|placement| index.fitting(placement, &mut unbound)).collect();
    loop {
        let plan = Plan { existing: bound, ..Plan::nothing(snapshot.taken_at, snapshot.generation) };
        let violations = check(snapshot, &plan);
        bound = plan.existing;
        // A pod group is launched for whole; its nodes need not be ready at the same time.
        let broken: Vec<Violation> =
            violations.into_iter().filter(|one| !matches!(one, Violation::Group { .. })).collect();
        if broken.is_empty() {
            return Bindings { bound, unbound };
        }
        let before = unbound.len();
        for violation in &broken {
            index.unbind(violation, &mut bound, &mut unbound);
        }
        if unbound.len() == before {
            // Nothing that was placed explains it: better none than a wrong one.
            let placements = std::mem::take(&mut bound);
            let reason = broken[0].to_string();
            for placement in placements {
                unbind_all(placement, &reason, &mut unbound);
            }
        }
        bound.retain(|placement| !placement.pods.is_empty());
    }
}

/// A snapshot with what is asked of it looked up once.
struct ClusterIndex<'a> {
    snapshot: &'a Snapshot,
    schedulers: &'a BTreeSet<String>,
    pods: BTreeMap<&'a str, &'a Pod>,
    on: BTreeMap<&'a str, Vec<&'a Pod>>,
    daemons: Vec<Daemon<'a>>,
    volumes: BTreeMap<(&'a str, &'a str), &'a VolumeClaim>,
}

impl<'a> ClusterIndex<'a> {
    fn new(snapshot: &'a Snapshot, schedulers: &'a BTreeSet<String>) -> Self {
        let volume = |claim: &'a VolumeClaim| ((claim.id.namespace.as_str(), claim.id.name.as_str()), claim);
        Self {
            snapshot,
            schedulers,
            pods: snapshot.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect(),
            on: snapshot.pods_by_node(),
            daemons: daemons::daemons(snapshot),
            volumes: snapshot.volume_claims.iter().map(volume).collect(),
        }
    }

    /// Those of a node's planned pods that are ours to bind and that it has room for, in order of
    /// priority.
    fn fitting(
        &self,
        placement: &ExistingPlacement,
        unbound: &mut Vec<UnboundPod>,
    ) -> Option<ExistingPlacement> {
        let name = placement.target.name();
        let node = self.snapshot.nodes.iter().find(|node| node.name == name)?;
        let mut free = self.free(node);
        let mut waiting: Vec<(&NominatedPod, &Pod)> =
            placement.pods.iter().filter_map(|planned| Some((planned, self.waiting(planned)?))).collect();
        waiting.sort_by_key(|(_, pod)| (Reverse(pod.spec.priority), &pod.id));
        let mut pods = Vec::new();
        for (planned, pod) in waiting {
            let obstacle = self.not_ours(pod).or_else(|| {
                let mut asked = pod.spec.requests.iter().filter(|(_, amount)| !amount.is_zero());
                let short = asked.find(|(resource, amount)| *amount > free.get(resource));
                short.map(|(resource, _)| format!("its node has no room for its {resource}"))
            });
            match obstacle {
                None => {
                    free.subtract(&pod.spec.requests);
                    pods.push(planned.clone());
                }
                Some(reason) => {
                    let node = name.to_owned();
                    unbound.push(UnboundPod { pod: planned.clone(), node, reason, may_change: false });
                }
            }
        }
        let target = Target::Node(name.to_owned());
        (!pods.is_empty()).then_some(ExistingPlacement { target, pods })
    }

    /// The pod, while it is the planned one and has no node.
    fn waiting(&self, planned: &NominatedPod) -> Option<&'a Pod> {
        let pod = self.pods.get(planned.uid.as_str()).copied().filter(|pod| pod.id == planned.pod)?;
        let waits = matches!(pod.state, PodState::Waiting | PodState::Unschedulable);
        (waits && pod.node_name.is_none()).then_some(pod)
    }

    /// Why a pod is kube-scheduler's, or another scheduler's, to place.
    fn not_ours(&self, pod: &Pod) -> Option<String> {
        let scheduler = pod.spec.scheduler.as_deref().unwrap_or(DEFAULT_SCHEDULER);
        if !self.schedulers.contains(scheduler) {
            return Some(format!("its scheduler is {scheduler}"));
        }
        if pod.state != PodState::Unschedulable {
            return Some("its scheduler has not looked at it yet, or a gate holds it back".to_owned());
        }
        let needs_scheduler = |name: &&String| {
            let claim = self.volumes.get(&(pod.id.namespace.as_str(), name.as_str()));
            claim.is_none_or(|claim| claim.needs_scheduler)
        };
        let claim = pod.volume_claims.iter().find(needs_scheduler)?;
        Some(format!(
            "its PersistentVolumeClaim {claim} waits for its first consumer or is for one pod alone"
        ))
    }

    /// What is left of a node once its daemons have come.
    fn free(&self, node: &Node) -> Resources {
        let mut free = node.allocatable.clone();
        let pods = self.on.get(node.name.as_str()).map_or(&[][..], Vec::as_slice);
        for pod in pods {
            free.subtract(&pod.spec.requests);
        }
        let (taints, joining) = (lasting(node), node.node_pool().is_some() && !node.is_initialized());
        for daemon in self.daemons.iter().filter(|daemon| !daemon.is_among(pods)) {
            if daemon.runs_on(&node.labels, &taints, joining) {
                free.subtract(&daemon.spec.requests);
            }
        }
        free
    }

    /// Takes out the pods that break a rule. A violation about other pods names one for all that
    /// are equal to it on its node.
    fn unbind(&self, violation: &Violation, bound: &mut [ExistingPlacement], unbound: &mut Vec<UnboundPod>) {
        let reason = violation.to_string();
        let mut drop = |on: &str, may_change: bool, concerned: &dyn Fn(&NominatedPod) -> bool| {
            for placement in bound.iter_mut().filter(|placement| placement.target.name() == on) {
                let (out, rest) = std::mem::take(&mut placement.pods).into_iter().partition(concerned);
                placement.pods = rest;
                let out: Vec<NominatedPod> = out;
                let as_unbound =
                    |pod| UnboundPod { pod, node: on.to_owned(), reason: reason.clone(), may_change };
                unbound.extend(out.into_iter().map(as_unbound));
            }
        };
        match violation {
            Violation::Topology { pod, on, .. } => {
                let named = |id| self.snapshot.pods.iter().find(|other| &other.id == id);
                let Some(broken) = named(pod) else { return };
                drop(on, true, &|planned| {
                    self.pods.get(planned.uid.as_str()).is_some_and(|other| {
                        other.id.namespace == broken.id.namespace
                            && other.labels == broken.labels
                            && other.spec == broken.spec
                    })
                });
            }
            Violation::Refused { pod, on, .. } | Violation::NotWaiting { pod, on } => {
                drop(on, false, &|planned| &planned.pod == pod);
            }
            Violation::Overfull { on, .. }
            | Violation::TakesNoPods { target: on, .. }
            | Violation::Attachments { node: on, .. } => drop(on, false, &|_| true),
            _ => {}
        }
    }
}

/// The taints that a node keeps once it is open.
fn lasting(node: &Node) -> Vec<outrigger_model::Taint> {
    node.taints.iter().filter(|taint| !taint.is_ephemeral()).cloned().collect()
}

fn unbind_all(placement: ExistingPlacement, reason: &str, unbound: &mut Vec<UnboundPod>) {
    let (node, reason) = (placement.target.name().to_owned(), reason.to_owned());
    let as_unbound = |pod| UnboundPod { pod, node: node.clone(), reason: reason.clone(), may_change: false };
    unbound.extend(placement.pods.into_iter().map(as_unbound));
}
