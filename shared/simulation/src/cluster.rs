//! The cluster: its objects, the log of their changes that watches read, and the kubelets and
//! controllers that change them.

mod counts;
mod departure;
mod garbage_collection;
mod health;
mod kubelet;
mod pods;
pub(crate) mod scheduler;
pub(crate) mod scope;
mod static_pods;
mod volumes;
mod workloads;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use outrigger_engine::ports::{
    ClusterChange, ClusterState, Configuration, Cursor, Event, Glance, Mirror, NodeChange, Scope, Subject,
};
use outrigger_engine::{Guard, Guards};
use outrigger_model::{
    ConfiguredObject, ConfiguredRef, ConfiguredStatus, DaemonSet, EC2NodeClass, InstanceType, LeaderLease,
    Node, NodePool, NominatedPod, Pod, PodRef, Quantity, Resources, Taint, TaintEffect, labels, resources,
};

use crate::cloud::Machine;
use crate::scenario::{DisruptionBudget, Scenario};
use crate::time::Moment;

use counts::Counts;
use garbage_collection::DeletedPool;
use pods::Pods;
use volumes::Volumes;
use workloads::Replicas;

/// How many changes a watch may lie behind before it must list again.
const LOG_LENGTH: usize = 20_000;
/// kops-controller copies instance tags with this prefix to labels of the node.
const LABEL_TAG: &str = "k8s.io/cluster-autoscaler/node-template/label/";
const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

/// The objects of the API server.
pub(crate) struct Objects {
    version: u64,
    log: VecDeque<(u64, ClusterChange)>,
    nodes: BTreeMap<String, Node>,
    pods: Pods,
    made: u64,
    daemon_sets: Vec<DaemonSet>,
    /// What the pods of daemonsets have for the annotation `karpenter.sh/do-not-disrupt`.
    daemon_wishes: BTreeMap<PodRef, String>,
    workloads: Vec<Replicas>,
    configuration: Configuration,
    /// Until when a Karpenter lives beside us.
    karpenter_until: Option<Duration>,
    mirrors: BTreeMap<String, Mirror>,
    /// The NodeClaims that were deleted together with their definition.
    gone_with_definition: BTreeSet<String>,
    /// Since when NodeClaim objects ask not to be disrupted, by name.
    annotated_at: BTreeMap<String, Duration>,
    /// NodePools that were deleted.
    deleted_pools: Vec<DeletedPool>,
    /// The NodeClaim objects that were kept when their NodePool was deleted.
    orphaned: BTreeSet<String>,
    /// Until when nobody may change a NodeClaim object, by name.
    locked: BTreeMap<String, Duration>,
    events: BTreeMap<(Subject, &'static str), (String, u32)>,
    /// What matters of pods when they have to leave, by uid.
    lives: BTreeMap<String, departure::Life>,
    budgets: Vec<DisruptionBudget>,
    /// Since when budgets are there that somebody has made meanwhile.
    late_budgets: BTreeMap<PodRef, Duration>,
    volumes: Volumes,
    /// Since when nodes are closed for their drain. The scheduler notices a little later.
    closed_at: BTreeMap<String, Duration>,
    /// When nodes were opened that were closed until their pods were placed, by name.
    opened_at: BTreeMap<String, Duration>,
    /// Whether the scheduler has pods to look at that it has never tried.
    has_new_pods: bool,
    /// Nodes that may take a pod which they did not take before.
    touched: BTreeSet<String>,
    /// How many pods we have bound to each node, until the timeline has been told.
    bound: BTreeMap<String, usize>,
    /// What is counted on the way.
    pub counts: Counts,
    /// By how much the clock is ahead of the API server that writes objects now.
    ahead: SignedDuration,
    /// When objects were really made that bear another time, by uid.
    misdated: BTreeMap<String, Timestamp>,
    /// Pods of Jobs, by uid, that have come to a node and whose end is to be put on the agenda.
    begun: Vec<String>,
    /// Which conditions of requests are looked at.
    guards: Guards,
}

impl Objects {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            version: 1,
            log: VecDeque::new(),
            nodes: BTreeMap::new(),
            pods: Pods::default(),
            made: 0,
            daemon_sets: scenario.daemon_sets.clone(),
            daemon_wishes: scenario.daemon_wishes.clone(),
            workloads: scenario.workloads.iter().map(Replicas::new).collect(),
            configuration: garbage_collection::created(&scenario.configuration),
            karpenter_until: scenario.karpenter_until,
            mirrors: BTreeMap::new(),
            gone_with_definition: BTreeSet::new(),
            annotated_at: BTreeMap::new(),
            deleted_pools: Vec::new(),
            orphaned: BTreeSet::new(),
            locked: BTreeMap::new(),
            events: BTreeMap::new(),
            lives: BTreeMap::new(),
            budgets: scenario.budgets.clone(),
            late_budgets: BTreeMap::new(),
            volumes: Volumes::new(scenario.seed),
            closed_at: BTreeMap::new(),
            opened_at: BTreeMap::new(),
            has_new_pods: false,
            touched: BTreeSet::new(),
            bound: BTreeMap::new(),
            counts: Counts::default(),
            ahead: SignedDuration::ZERO,
            misdated: BTreeMap::new(),
            begun: Vec::new(),
            guards: scenario.guards,
        }
    }

    /// Raised by every change.
    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// NodePools.
    pub(crate) fn node_pools(&self) -> &[NodePool] {
        &self.configuration.node_pools
    }

    /// How many pods CapacityBuffers keep room for.
    pub(crate) fn spare_pods(&self) -> usize {
        self.configuration.buffers.iter().map(|buffer| buffer.count as usize).sum()
    }

    /// The objects that users wrote, with their status.
    pub(crate) fn configured(&self) -> &[ConfiguredObject] {
        &self.configuration.objects
    }

    /// The status of one of them from now on.
    pub(crate) fn write_status(&mut self, object: &ConfiguredRef, status: &ConfiguredStatus) {
        let same = |present: &&mut ConfiguredObject| &present.reference == object;
        if let Some(present) = self.configuration.objects.iter_mut().find(same) {
            present.status = status.clone();
        }
    }

    /// The Lease of the Karpenter that lives, or lived, beside us. It renews it all the time.
    pub(crate) fn karpenter_lease(&self, moment: Moment) -> Option<LeaderLease> {
        let dead_for = moment.elapsed.saturating_sub(self.karpenter_until?);
        let renewed_at = moment.at.saturating_sub(dead_for).ok();
        Some(LeaderLease { holder: "karpenter-0".into(), renewed_at, seconds: 15 })
    }

    /// Daemonsets.
    pub(crate) fn daemon_sets(&self) -> &[DaemonSet] {
        &self.daemon_sets
    }

    /// An EC2NodeClass.
    pub(crate) fn ec2_node_class(&self, name: &str) -> Option<&EC2NodeClass> {
        self.configuration.ec2_node_classes.iter().find(|class| class.name == name)
    }

    /// Since when each pod of a workload is on its node.
    pub(crate) fn bound_since(&self) -> impl Iterator<Item = Duration> {
        self.lives.values().filter_map(|life| life.bound_at)
    }

    /// Whether a node was closed for its drain.
    pub(crate) fn is_closed(&self, node: &str) -> bool {
        self.closed_at.contains_key(node)
    }

    /// When a node was opened that had been closed until its pods were placed.
    pub(crate) fn opened_at(&self, node: &str) -> Option<Duration> {
        self.opened_at.get(node).copied()
    }

    /// Since when a node is closed for its drain.
    pub(crate) fn closed_since(&self, node: &str) -> Option<Duration> {
        self.closed_at.get(node).copied()
    }

    /// What `kubectl get nodes,pods,pdb -A -o wide` shows, ages aside, and what NodePools and their
    /// like ask for.
    pub(crate) fn glance(&self) -> Glance {
        let mut hasher = DefaultHasher::new();
        for budget in self.disruption_budgets() {
            (budget.id, budget.is_fully_blocking, budget.disruptions_allowed).hash(&mut hasher);
        }
        let Configuration { node_pools, ec2_node_classes, overlays, buffers, .. } = &self.configuration;
        format!("{node_pools:?} {ec2_node_classes:?} {overlays:?} {buffers:?}").hash(&mut hasher);
        for node in self.nodes.values() {
            (&node.name, node.ready, node.unschedulable, node.deleting).hash(&mut hasher);
        }
        for pod in self.pods.values() {
            let state = format!("{:?} {:?}", pod.state, pod.readiness);
            (&pod.id, &pod.node_name, &pod.nominated_node, state).hash(&mut hasher);
        }
        let mut pods: BTreeMap<String, usize> = self.nodes.keys().map(|name| (name.clone(), 0)).collect();
        for pod in self.pods.values() {
            if let Some(pods) = pod.node_name.as_ref().and_then(|node| pods.get_mut(node)) {
                *pods += 1;
            }
        }
        Glance { digest: format!("{:016x}", hasher.finish()), pods }
    }

    /// NodePools and what belongs to them.
    pub(crate) const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Volumes.
    pub(crate) const fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Nodes by name.
    pub(crate) const fn nodes(&self) -> &BTreeMap<String, Node> {
        &self.nodes
    }

    /// Pods by uid.
    pub(crate) const fn pods(&self) -> &Pods {
        &self.pods
    }

    /// The NodeClaim objects, by name, with the version that each shows.
    pub(crate) const fn mirrors(&self) -> &BTreeMap<String, Mirror> {
        &self.mirrors
    }

    /// The last event of each reason about each object.
    pub(crate) const fn events(&self) -> &BTreeMap<(Subject, &'static str), (String, u32)> {
        &self.events
    }

    /// What the scheduler has to look at, if anything: the nodes that have changed since it was
    /// last asked.
    pub(crate) fn take_touched(&mut self) -> Option<BTreeSet<String>> {
        let new = std::mem::take(&mut self.has_new_pods);
        let touched = std::mem::take(&mut self.touched);
        (new || !touched.is_empty()).then_some(touched)
    }

    /// The scheduler is to look at all nodes.
    pub(crate) fn touch_all(&mut self) {
        self.touched.extend(self.nodes.keys().cloned());
    }

    pub(crate) fn namespaces(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let named = |pod: &Pod| {
            let name = pod.id.namespace.clone();
            (name.clone(), BTreeMap::from([("kubernetes.io/metadata.name".to_owned(), name)]))
        };
        self.pods.values().map(named).collect()
    }

    pub(crate) fn list(&self, scope: Scope) -> (ClusterState, Cursor) {
        let nodes = self.nodes.iter().filter(|(_, node)| scope::holds_node(scope, node));
        let pods = self.pods.iter().filter(|(_, pod)| scope::holds_pod(scope, pod));
        let nodes = nodes.map(|(name, node)| (name.clone(), Arc::new(node.clone()))).collect();
        let pods = pods.map(cloned).collect();
        let daemon_sets = if scope == Scope::Everything { self.daemon_sets.clone() } else { Vec::new() };
        let version = self.version.to_string();
        (ClusterState { nodes, pods, daemon_sets }, Cursor { scope, nodes: version.clone(), pods: version })
    }

    /// The first change after a version; an error when the log no longer reaches back that far.
    pub(crate) fn change_after(&self, version: u64) -> Result<Option<(u64, ClusterChange)>, ()> {
        let oldest = self.log.front().map_or(self.version + 1, |(first, _)| *first);
        if version + 1 < oldest && version < self.version {
            return Err(());
        }
        let index = usize::try_from((version + 1).saturating_sub(oldest)).unwrap_or(usize::MAX);
        Ok(self.log.get(index).cloned())
    }

    /// Writes one change down under a new version.
    fn record(&mut self, change: ClusterChange) {
        self.log.push_back((self.version, change));
        if self.log.len() > LOG_LENGTH {
            self.log.pop_front();
        }
    }

    fn put_pod(&mut self, pod: Pod) {
        self.version += 1;
        self.record(ClusterChange::Pod(Box::new(pod.clone())));
        self.pods.insert(pod);
    }

    fn put_node(&mut self, mut node: Node) {
        self.version += 1;
        node.resource_version = self.version.to_string();
        self.record(ClusterChange::Node(Arc::new(node.clone())));
        self.touched.insert(node.name.clone());
        self.nodes.insert(node.name.clone(), node);
    }

    fn remove_pod(&mut self, uid: &str, moment: Moment) {
        self.version += 1;
        self.record(ClusterChange::PodGone { uid: uid.to_owned() });
        let life = self.lives.remove(uid).unwrap_or_default();
        self.counts.pod_time += life.bound_at.map_or(Duration::ZERO, |at| moment.elapsed.saturating_sub(at));
        let pod = self.pods.remove(uid);
        if let Some(pod) = &pod {
            self.volumes.release(pod, moment);
        }
        self.touched.extend(pod.and_then(|pod| pod.node_name));
        self.make_again(uid, moment);
    }

    /// The API server that writes from now on has a clock that is ahead by so much.
    pub(crate) const fn set_clock(&mut self, ahead: SignedDuration) {
        self.ahead = ahead;
    }

    /// The time that an object bears which is made now.
    fn dated(&mut self, uid: &str, moment: Moment) -> Timestamp {
        if self.ahead.is_zero() {
            return moment.at;
        }
        self.misdated.insert(uid.to_owned(), moment.at);
        moment.at.saturating_add(self.ahead).unwrap_or(moment.at)
    }

    /// When a pod was made, whatever it bears.
    pub(crate) fn made_at(&self, pod: &Pod) -> Timestamp {
        self.misdated.get(&pod.uid).copied().unwrap_or(pod.created_at)
    }

    /// A uid in the form of a UUID, in order of creation.
    fn next_uid(&mut self) -> String {
        self.made += 1;
        format!("00000000-0000-4000-8000-{:012}", self.made)
    }

    /// A kubelet registers its node as kOps configures it.
    pub(crate) fn join(&mut self, machine: &Machine, kind: &InstanceType, percent: u64, moment: Moment) {
        let instance = &machine.instance;
        let copied =
            machine.tags.iter().filter_map(|(key, value)| Some((key.strip_prefix(LABEL_TAG)?, value)));
        let mut node_labels: BTreeMap<String, String> =
            copied.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        node_labels.insert(labels::HOSTNAME.into(), instance.id.clone());
        for key in [labels::ARCH, labels::OS] {
            if let Some(value) = kind.labels.get(key) {
                node_labels.insert(key.into(), value.clone());
            }
        }
        let uid = self.next_uid();
        let created_at = self.dated(&uid, moment);
        self.volumes.limit(&instance.id, kind.ebs_volumes());
        self.put_node(Node {
            name: instance.id.clone(),
            uid,
            resource_version: String::new(),
            provider_id: Some(instance.provider_id()),
            labels: node_labels,
            annotations: BTreeMap::new(),
            finalizers: Vec::new(),
            taints: vec![
                Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute),
                Taint::new(UNINITIALIZED, "true", TaintEffect::NoSchedule),
                Taint::new(NOT_READY, "", TaintEffect::NoSchedule),
            ],
            foreign_taints: Vec::new(),
            capacity: kind.counted().clone(),
            allocatable: reduced(&kind.allocatable, percent),
            volume_limits: BTreeMap::new(),
            conditions: BTreeMap::new(),
            ready: false,
            unschedulable: false,
            deleting: false,
            created_at,
            claim_do_not_disrupt: None,
            degraded: None,
        });
    }

    /// The cloud controller labels a node and takes its taint off.
    pub(crate) fn label_from_cloud(
        &mut self,
        node: &str,
        cloud_labels: impl IntoIterator<Item = (String, String)>,
    ) {
        let Some(mut node) = self.nodes.get(node).cloned() else { return };
        node.labels.extend(cloud_labels);
        node.taints.retain(|taint| taint.key != UNINITIALIZED);
        self.put_node(node);
    }

    /// Somebody taints a node.
    pub(crate) fn taint(&mut self, node: &str, taint: Taint) {
        let Some(mut node) = self.nodes.get(node).cloned() else { return };
        node.taints.push(taint);
        self.put_node(node);
    }

    /// What runs on a node takes the startup taints of its pool off.
    pub(crate) fn drop_startup_taints(&mut self, node: &str) {
        let Some(mut node) = self.nodes.get(node).cloned() else { return };
        let pools = &self.configuration.node_pools;
        let pool = pools.iter().find(|pool| node.node_pool() == Some(pool.name.as_str()));
        let Some(startup) = pool.map(|pool| &pool.spec.template.spec.startup_taints) else { return };
        let before = node.taints.len();
        node.taints.retain(|taint| !startup.iter().any(|s| s.key == taint.key && s.effect == taint.effect));
        if node.taints.len() != before {
            self.put_node(node);
        }
    }

    /// Changes a node if it is still the version that was read; says whether it was, and whether
    /// the change registered it.
    pub(crate) fn change_node(&mut self, change: &NodeChange, moment: Moment) -> Option<bool> {
        let read = self.nodes.get(&change.name).filter(|node| self.names_version(change, node));
        let mut node = read?.clone();
        let registers =
            change.labels.contains_key(labels::REGISTERED) && !node.labels.contains_key(labels::REGISTERED);
        node.labels.extend(change.labels.clone());
        node.labels.retain(|key, _| !change.gone_labels.contains(key));
        node.annotations.extend(change.annotations.clone());
        let is_closed = |taints: &[Taint]| taints.iter().any(|taint| taint.key == labels::DISRUPTED_TAINT);
        match (is_closed(&node.taints), is_closed(&change.taints)) {
            (false, true) => drop(self.closed_at.insert(node.name.clone(), moment.elapsed)),
            (true, false) => drop(self.closed_at.remove(&node.name)),
            _ => {}
        }
        let awaited_placing = node.awaits_placing();
        node.taints.clone_from(&change.taints);
        if awaited_placing && !node.awaits_placing() {
            self.opened_at.insert(node.name.clone(), moment.elapsed);
        }
        node.foreign_taints.clone_from(&change.foreign_taints);
        node.finalizers.clone_from(&change.finalizers);
        self.put_node(node);
        Some(registers)
    }

    /// Whether a change was made of this version, or names none: then the API server asks for none.
    fn names_version(&self, change: &NodeChange, node: &Node) -> bool {
        change.resource_version.is_empty()
            || change.resource_version == node.resource_version
            || !self.guards.has(Guard::NodeVersion)
    }

    pub(crate) fn nominate(&mut self, nominated: &NominatedPod, node: &str) {
        let open = |pod: &&Pod| pod.id == nominated.pod && pod.node_name.is_none();
        let Some(mut pod) = self.pods.get(&nominated.uid).filter(open).cloned() else { return };
        pod.nominated_node = Some(node.to_owned());
        // A change of status alone does not make kube-scheduler try a pod again.
        self.put_pod(pod);
    }

    pub(crate) fn publish_event(&mut self, event: &Event) {
        let entry =
            self.events.entry((event.about.clone(), event.reason.into_str())).or_insert((String::new(), 0));
        entry.0.clone_from(&event.message);
        entry.1 += 1;
    }
}

fn cloned<T: Clone>((key, value): (&String, &T)) -> (String, T) {
    (key.clone(), value.clone())
}

/// The room of a node that has turned out smaller than its type promised. Pods are a setting, not
/// something measured.
fn reduced(allocatable: &Resources, percent: u64) -> Resources {
    let percent = i64::try_from(percent).unwrap_or(100);
    let part = |(name, quantity): (&str, Quantity)| {
        let kept = match name {
            resources::CPU => Quantity::millis(quantity.milli_value().saturating_mul(percent) / 100),
            resources::MEMORY => Quantity::bytes(quantity.value() / 100 * percent),
            _ => quantity,
        };
        (name.to_owned(), if percent == 100 { quantity } else { kept })
    };
    allocatable.iter().map(part).collect()
}
