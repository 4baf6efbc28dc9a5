//! Controllers of workloads: they make as many pods as are wanted, make another for one that
//! leaves, replace all of them in a deploy, and let those of a Job end.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use outrigger_model::{CostSetter, DeletionCost, Pod, PodRef, PodState, Protection, Readiness};

use super::{Objects, departure};
use crate::scenario::{AccessMode, Lifetime, Workload};
use crate::time::Moment;

/// A workload and the pods that were made for it.
pub(super) struct Replicas {
    pub(super) workload: Workload,
    next_index: u32,
    /// How many there should be.
    wanted: usize,
    pub(super) uids: BTreeSet<String>,
    /// Those of them that a deploy is to replace.
    old: BTreeSet<String>,
    /// Pods that end, and are made again under their names once they are gone.
    leaving: BTreeSet<String>,
}

impl Replicas {
    pub(super) fn new(workload: &Workload) -> Self {
        let (uids, old, leaving) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        Self { workload: workload.clone(), next_index: 0, wanted: 0, uids, old, leaving }
    }

    /// How many pods there are or will be.
    fn number(&self) -> usize {
        self.uids.len() + self.leaving.len()
    }
}

impl Objects {
    /// How many pods the controllers of workloads have made.
    pub(crate) fn pods_made(&self) -> usize {
        self.workloads.iter().map(|replicas| replicas.next_index as usize).sum()
    }

    /// The place of a workload in the scenario.
    pub(crate) fn workload(&self, id: &PodRef) -> Option<usize> {
        self.workloads.iter().position(|replicas| replicas.workload.id == *id)
    }

    /// Gives a workload so many replicas, as its controller does; says what it did.
    pub(crate) fn scale(&mut self, workload: usize, replicas: u32, moment: Moment) -> String {
        let Some(present) = self.workloads.get_mut(workload) else { return String::new() };
        let (had, id) = (present.uids.len(), present.workload.id.clone());
        present.wanted = usize::try_from(replicas).unwrap_or(usize::MAX);
        let wanted = present.wanted;
        let missing = wanted.saturating_sub(present.number());
        self.add_replicas(workload, missing, moment);
        for uid in self.superfluous(workload, wanted, moment) {
            self.drop_replica(workload, &uid, moment);
        }
        format!("{id} scaled from {had} to {wanted}")
    }

    /// Whether a deploy of a workload goes on.
    pub(crate) fn is_rolling(&self, workload: usize) -> bool {
        self.workloads.get(workload).is_some_and(|replicas| !replicas.old.is_empty())
    }

    /// A deploy begins: all pods that a workload has are to be replaced. Returns how many those
    /// are.
    pub(crate) fn begin_roll(&mut self, workload: usize) -> usize {
        let Some(present) = self.workloads.get_mut(workload) else { return 0 };
        present.old = present.uids.clone();
        present.old.len()
    }

    /// Goes on with a deploy as a Deployment's controller does it by default: up to a quarter more
    /// pods than are wanted, rounded up, and of the running ones up to a quarter fewer, rounded
    /// down. Says whether it goes on.
    pub(crate) fn roll_on(&mut self, workload: usize, moment: Moment) -> bool {
        let Some(present) = self.workloads.get(workload) else { return false };
        let wanted = present.wanted;
        let old = self.first_to_go(workload, &present.old, moment);
        let (mut running, waiting): (Vec<_>, Vec<_>) = old.into_iter().partition(|uid| self.runs(uid));
        let all_running = present.uids.iter().filter(|uid| self.runs(uid)).count();
        let surplus = all_running.saturating_sub(wanted - wanted / 4);
        running.truncate(surplus);
        for uid in waiting.iter().chain(&running) {
            self.drop_replica(workload, uid, moment);
        }
        let Some(present) = self.workloads.get(workload) else { return false };
        let fresh = present.uids.len() - present.old.len();
        let room = (wanted + wanted.div_ceil(4)).saturating_sub(present.uids.len());
        self.add_replicas(workload, room.min(wanted.saturating_sub(fresh)), moment);
        self.is_rolling(workload)
    }

    fn runs(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|pod| self.is_healthy(pod))
    }

    fn has_begun(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|pod| self.is_running(pod))
    }

    fn add_replicas(&mut self, workload: usize, number: usize, moment: Moment) {
        for _ in 0..number {
            self.add_replica(workload, Vec::new(), moment);
        }
        self.has_new_pods |= number > 0;
    }

    /// A pod with the volumes of the one that it replaces, if there is one.
    fn add_replica(&mut self, workload: usize, inherited: Vec<String>, moment: Moment) {
        let uid = self.next_uid();
        let created_at = self.dated(&uid, moment);
        let ordinal = self.free_ordinal(workload);
        let Some(present) = self.workloads.get_mut(workload) else { return };
        let Workload { id, labels, spec, .. } = &present.workload;
        let life = departure::Life { grace: present.workload.grace, ..departure::Life::default() };
        self.lives.insert(uid.clone(), life);
        let name = format!("{}-{}", id.name, ordinal.unwrap_or(present.next_index));
        let wish = present.workload.do_not_disrupt.clone();
        let protection = wish.map(|value| Box::new(Protection { value, started_at: Some(moment.at) }));
        let makes_volume = present.workload.has_volumes && inherited.is_empty();
        let owner_kind = match &present.workload {
            Workload { lasts: Some(_), .. } => "Job",
            Workload { has_stable_names: true, .. } => "StatefulSet",
            _ => "ReplicaSet",
        };
        let pod = Pod {
            volume_claims: if makes_volume { vec![format!("data-{name}")] } else { inherited },
            id: PodRef { namespace: id.namespace.clone(), name },
            uid: uid.clone(),
            labels: Arc::clone(labels),
            spec: Arc::clone(spec),
            created_at,
            node_name: None,
            nominated_node: None,
            state: PodState::Waiting,
            owner_kind: owner_kind.into(),
            daemon_set: None,
            group: None,
            do_not_disrupt: protection,
            deletion_cost: present.workload.deletion_cost,
            readiness: Readiness::default(),
            degraded: present.workload.unreadable.clone(),
        };
        if makes_volume && present.workload.access_mode == AccessMode::ReadWriteOncePod {
            self.volumes.keep_for_one_pod(&pod);
        }
        present.next_index += 1;
        present.uids.insert(uid);
        self.put_pod(pod);
    }

    /// The least number that no pod of a StatefulSet has; `None` for other workloads.
    fn free_ordinal(&self, workload: usize) -> Option<u32> {
        let present = self.workloads.get(workload).filter(|present| present.workload.has_stable_names)?;
        let taken: BTreeSet<u32> =
            present.uids.iter().chain(&present.leaving).filter_map(|uid| self.ordinal(uid)).collect();
        (0..=u32::MAX).find(|ordinal| !taken.contains(ordinal))
    }

    fn ordinal(&self, uid: &str) -> Option<u32> {
        self.pods.get(uid)?.id.name.rsplit('-').next()?.parse().ok()
    }

    /// Whether a pod is made again under its name once it is gone.
    pub(super) fn is_made_again(&self, uid: &str) -> bool {
        self.workloads.iter().any(|replicas| replicas.leaving.contains(uid))
    }

    /// A pod is gone: a StatefulSet makes it again, under its name and with its volume.
    pub(super) fn make_again(&mut self, uid: &str, moment: Moment) {
        let owner = self.workloads.iter_mut().position(|replicas| replicas.leaving.remove(uid));
        let Some(workload) = owner else { return };
        let present = &self.workloads[workload];
        let missing = usize::from(present.number() < present.wanted);
        self.add_replicas(workload, missing, moment);
    }

    /// A pod goes that nobody wants any more.
    fn drop_replica(&mut self, workload: usize, uid: &str, moment: Moment) {
        self.remove_pod(uid, moment);
        if let Some(present) = self.workloads.get_mut(workload) {
            present.uids.remove(uid);
            present.old.remove(uid);
        }
    }

    /// The pods that a smaller number leaves over.
    fn superfluous(&self, workload: usize, wanted: usize, moment: Moment) -> Vec<String> {
        let Some(present) = self.workloads.get(workload) else { return Vec::new() };
        let number = present.uids.len().saturating_sub(wanted);
        let mut leaving = self.first_to_go(workload, &present.uids, moment);
        leaving.truncate(number);
        leaving
    }

    /// Pods of a workload, by uid, as its ReplicaSet ends them: those without a node first, then
    /// those that do not run, those that are not ready, the lowest deletion cost, the most pods of
    /// the workload on one node, the shortest time on it by powers of two, and the youngest
    /// (`ActivePodsWithRanks`).
    fn first_to_go(&self, workload: usize, uids: &BTreeSet<String>, moment: Moment) -> Vec<String> {
        let Some(present) = self.workloads.get(workload) else { return Vec::new() };
        let mut by_node: BTreeMap<&str, usize> = BTreeMap::new();
        let on_nodes = present.uids.iter().filter_map(|uid| self.pods.get(uid)?.node_name.as_deref());
        on_nodes.for_each(|node| *by_node.entry(node).or_default() += 1);
        let turn = |pod: &Pod| {
            let doubled = pod.node_name.as_deref().and_then(|node| by_node.get(node)).copied();
            let bound_for = self.bound_at(pod).map_or(0, |at| moment.elapsed.saturating_sub(at).as_secs());
            (
                // A StatefulSet ends the last ones, whatever they do.
                Reverse(self.ordinal(&pod.uid).filter(|_| present.workload.has_stable_names)),
                pod.node_name.is_some(),
                self.is_running(pod),
                self.is_healthy(pod),
                pod.deletion_cost.map_or(0, |deletion| deletion.cost),
                Reverse(doubled),
                bound_for.checked_ilog2(),
                Reverse(pod.created_at),
            )
        };
        let mut pods: Vec<&Pod> = uids.iter().filter_map(|uid| self.pods.get(uid)).collect();
        pods.sort_by_cached_key(|pod| (turn(pod), pod.uid.as_str()));
        pods.into_iter().map(|pod| pod.uid.clone()).collect()
    }

    /// A pod that still has this uid gets a deletion cost of ours, or loses ours; a value of
    /// somebody else stays.
    pub(crate) fn set_deletion_cost(&mut self, pod: &Pod, cost: Option<i32>) {
        let is_ours = |present: &&Pod| present.deletion_cost.is_none_or(DeletionCost::is_ours);
        let Some(mut present) = self.pods.get(&pod.uid).filter(is_ours).cloned() else { return };
        present.deletion_cost = cost.map(|cost| DeletionCost { cost, set_by: CostSetter::Outrigger });
        self.put_pod(present);
    }

    /// The pods whose deletion cost is not the one that their workload gives them, where it gives
    /// them one.
    pub(crate) fn with_another_deletion_cost(&self) -> impl Iterator<Item = &Pod> {
        self.workloads.iter().filter(|replicas| replicas.workload.deletion_cost.is_some()).flat_map(
            |replicas| {
                let pods = replicas.uids.iter().filter_map(|uid| self.pods.get(uid));
                pods.filter(|pod| pod.deletion_cost != replicas.workload.deletion_cost)
            },
        )
    }

    /// A pod gets a deletion cost of another controller, or loses the one that it has, whoever set
    /// it.
    #[cfg(feature = "week")]
    pub(crate) fn overwrite_deletion_cost(&mut self, uid: &str, cost: Option<i32>) {
        let Some(mut pod) = self.pods.get(uid).cloned() else { return };
        pod.deletion_cost = cost.map(|cost| DeletionCost { cost, set_by: CostSetter::Others });
        self.put_pod(pod);
    }

    /// The controller of a pod that leaves makes another.
    pub(super) fn replace(&mut self, uid: &str, moment: Moment) {
        let owner = self.workloads.iter_mut().position(|replicas| replicas.uids.remove(uid));
        if let Some(workload) = owner {
            self.workloads[workload].old.remove(uid);
            let pod = self.pods.get(uid);
            let inherited = pod.map(|pod| pod.volume_claims.clone()).unwrap_or_default();
            self.counts.departures.extend(pod.and_then(|pod| pod.node_name.clone()));
            if self.workloads[workload].workload.has_stable_names {
                self.workloads[workload].leaving.insert(uid.to_owned());
                return;
            }
            self.add_replica(workload, inherited, moment);
            self.has_new_pods = true;
        }
    }

    /// Whether a pod serves on a node that is ready or not.
    pub(super) fn readiness(&self, uid: &str, node_is_ready: bool) -> Readiness {
        let mut owners = self.workloads.iter().filter(|replicas| replicas.workload.never_ready);
        let is_ready = node_is_ready && !owners.any(|replicas| replicas.uids.contains(uid));
        if is_ready { Readiness::Ready } else { Readiness::NotReady }
    }

    /// How long a pod runs before it ends by itself, if it does.
    pub(crate) fn lifetime(&self, uid: &str) -> Option<Lifetime> {
        let owner = self.workloads.iter().find(|replicas| replicas.uids.contains(uid))?;
        owner.workload.lasts
    }

    /// The pods, by uid, that have come to a node since this was asked last and will end by
    /// themselves.
    pub(crate) fn take_begun(&mut self) -> Vec<String> {
        std::mem::take(&mut self.begun)
    }

    /// A pod has done its work. One that is being evicted has a successor by then, and ends as it
    /// was asked to.
    pub(crate) fn finish_pod(&mut self, uid: &str, moment: Moment) {
        let owner = self.workloads.iter().position(|replicas| replicas.uids.contains(uid));
        if let Some(workload) = owner.filter(|_| self.has_begun(uid)) {
            self.drop_replica(workload, uid, moment);
        }
    }
}
