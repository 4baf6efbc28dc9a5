//! Daemonsets: what each adds to the nodes that it runs on.
//!
//! The newest pod of a daemonset shows better than its template what the next one will ask for: a
//! VerticalPodAutoscaler or a LimitRange may have changed it (Karpenter `cluster.go`
//! UpdateDaemonSet). Its required node affinity names the node that it was made for, so the
//! template's stands in its place.

use std::collections::BTreeMap;

use outrigger_model::labels::{INITIALIZED, REGISTERED};
use outrigger_model::taint::first_untolerated;
use outrigger_model::{DaemonSet, Pod, PodRef, PodSpec, Requirements, Snapshot, Taint};

/// A daemonset as the planner sees it.
#[derive(Debug)]
pub struct Daemon<'a> {
    /// Its namespace and name.
    pub id: &'a PodRef,
    /// The labels of its pods.
    pub labels: &'a BTreeMap<String, String>,
    /// What its next pod asks for, node affinity left aside.
    pub spec: &'a PodSpec,
    /// What a node that is to join must be like: any of these.
    pub alternatives: Vec<Requirements>,
    /// What a node that has joined must be like: any of these.
    on_joined: Vec<Requirements>,
    /// Whether its template could be read whole. Otherwise its pods may come to fewer nodes than it
    /// says.
    pub is_whole: bool,
}

/// The daemonsets of a snapshot.
pub fn daemons(snapshot: &Snapshot) -> Vec<Daemon<'_>> {
    let mut newest: BTreeMap<&PodRef, &Pod> = BTreeMap::new();
    // Of one that could not be read whole nobody knows which taints its like bears; it counts where
    // it runs.
    let whole = snapshot.pods.iter().filter(|pod| pod.degraded.is_none());
    for pod in whole.filter(|pod| !pod.state.is_over()) {
        let Some(set) = pod.daemon_set.as_deref() else { continue };
        let latest = newest.entry(set).or_insert(pod);
        if (pod.created_at, &pod.uid) > (latest.created_at, &latest.uid) {
            *latest = pod;
        }
    }
    let sets = snapshot.daemon_sets.iter();
    sets.map(|set| Daemon::new(set, newest.get(&set.id).copied())).collect()
}

impl<'a> Daemon<'a> {
    fn new(set: &'a DaemonSet, newest: Option<&'a Pod>) -> Self {
        let spec = newest.map_or(&set.spec, |pod| &pod.spec);
        let node_affinity = set.spec.node_affinity.clone();
        let asks = PodSpec { node_selector: spec.node_selector.clone(), node_affinity, ..PodSpec::default() };
        let on_joined = asks.node_requirements();
        Self {
            id: &set.id,
            labels: &set.labels,
            spec,
            alternatives: on_joined.iter().cloned().filter_map(before_joining).collect(),
            on_joined,
            is_whole: set.degraded.is_none(),
        }
    }

    /// Its namespace and name.
    pub const fn id(&self) -> &'a PodRef {
        self.id
    }

    /// Whether its pods bear these taints.
    pub fn tolerates(&self, taints: &[Taint]) -> bool {
        first_untolerated(taints, &self.spec.tolerations).is_none()
    }

    /// Whether it runs on a node with these labels and taints, now or, if the node is joining,
    /// then.
    pub fn runs_on(&self, labels: &BTreeMap<String, String>, taints: &[Taint], joining: bool) -> bool {
        let mut alternatives = self.alternatives(joining).iter();
        self.tolerates(taints) && alternatives.any(|wanted| wanted.match_labels(labels).is_ok())
    }

    /// What a node must be like, that has joined or is to join: any of these.
    pub fn alternatives(&self, joining: bool) -> &[Requirements] {
        if joining { &self.alternatives } else { &self.on_joined }
    }

    /// Whether a node that meets some requirements may have its pod, as far as these say.
    pub fn may_be_with(&self, wanted: &Requirements) -> bool {
        self.alternatives.iter().any(|alternative| !wanted.contradict(alternative))
    }

    /// Whether one of these pods is its.
    pub fn is_among(&self, pods: &[&Pod]) -> bool {
        pods.iter().any(|pod| pod.daemon_set.as_deref() == Some(self.id))
    }
}

/// What is asked of a node besides the labels that it gets once it has joined. None where they must
/// be absent. Karpenter's templates carry them for daemonsets alone (`nodeclaimtemplate.go`).
fn before_joining(mut wanted: Requirements) -> Option<Requirements> {
    for key in [REGISTERED, INITIALIZED] {
        if !wanted.allow(key, "true") {
            return None;
        }
        wanted.remove(key);
    }
    Some(wanted)
}
