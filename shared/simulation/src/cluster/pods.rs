//! The pods of the API server, by uid, and what of them is on each node.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use outrigger_model::{Pod, PodRef, Resources};

/// Pods by uid. It reads as that map; every change keeps the view by node.
#[derive(Debug, Default)]
pub(crate) struct Pods {
    by_uid: BTreeMap<String, Pod>,
    on_nodes: BTreeMap<String, OnNode>,
    /// The uids of pods that are bound to no node.
    unbound: BTreeSet<String>,
    /// The uids of pods that keep others away by required anti-affinity.
    repelling: BTreeSet<String>,
    /// How many pods on nodes have each priority, those that are over too.
    priorities: BTreeMap<i32, usize>,
}

/// What is bound to a node.
#[derive(Debug, Default)]
struct OnNode {
    /// All pods, by uid, those that are over too.
    uids: BTreeSet<String>,
    /// Those of daemonsets: the daemonset of each, by the pod's uid.
    daemon_sets: BTreeMap<String, PodRef>,
    /// What those that are not over ask for together.
    requests: Resources,
    /// Of those, the ones with host ports or volumes.
    particular: BTreeSet<String>,
}

impl Deref for Pods {
    type Target = BTreeMap<String, Pod>;

    fn deref(&self) -> &Self::Target {
        &self.by_uid
    }
}

impl Pods {
    /// Writes a pod, in place of the one with its uid.
    pub(super) fn insert(&mut self, pod: Pod) {
        self.remove(&pod.uid);
        if let Some(node) = &pod.node_name {
            self.on_nodes.entry(node.clone()).or_default().add(&pod);
            *self.priorities.entry(pod.spec.priority).or_default() += 1;
        } else {
            self.unbound.insert(pod.uid.clone());
        }
        if !pod.spec.pod_anti_affinity.is_empty() && !pod.state.is_over() {
            self.repelling.insert(pod.uid.clone());
        }
        self.by_uid.insert(pod.uid.clone(), pod);
    }

    /// Takes a pod away.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Pod> {
        let pod = self.by_uid.remove(uid)?;
        self.unbound.remove(uid);
        self.repelling.remove(uid);
        if let Some(node) = &pod.node_name
            && let Some(on) = self.on_nodes.get_mut(node)
        {
            on.subtract(&pod);
            if on.uids.is_empty() {
                self.on_nodes.remove(node);
            }
            if let Some(count) = self.priorities.get_mut(&pod.spec.priority) {
                *count -= 1;
            }
            self.priorities.retain(|_, count| *count > 0);
        }
        Some(pod)
    }

    /// The lowest priority of a pod on a node.
    pub(super) fn lowest_priority(&self) -> Option<i32> {
        self.priorities.keys().next().copied()
    }

    /// Pods that are bound to no node, by uid.
    pub(super) fn unbound(&self) -> impl Iterator<Item = &Pod> {
        self.unbound.iter().filter_map(|uid| self.by_uid.get(uid))
    }

    /// Pods that are not over and keep others away, by uid, whether on a node or not.
    pub(super) fn repelling(&self) -> impl Iterator<Item = &Pod> {
        self.repelling.iter().filter_map(|uid| self.by_uid.get(uid))
    }

    /// Pods that are bound to a node, by uid, those that are over too.
    pub(super) fn on(&self, node: &str) -> impl Iterator<Item = &Pod> {
        let uids = self.on_nodes.get(node).into_iter().flat_map(|on| &on.uids);
        uids.filter_map(|uid| self.by_uid.get(uid))
    }

    /// The pods on a node that are not over and have host ports or volumes.
    pub(super) fn particular(&self, node: &str) -> impl Iterator<Item = &Pod> {
        let uids = self.on_nodes.get(node).into_iter().flat_map(|on| &on.particular);
        uids.filter_map(|uid| self.by_uid.get(uid))
    }

    /// What the pods of a node ask for that are not over.
    pub(super) fn requests(&self, node: &str) -> &Resources {
        static NOTHING: Resources = Resources::new();
        self.on_nodes.get(node).map_or(&NOTHING, |on| &on.requests)
    }

    /// Whether a node has a pod of a daemonset.
    pub(super) fn has_daemon(&self, node: &str, daemon_set: &PodRef) -> bool {
        let on = self.on_nodes.get(node);
        on.is_some_and(|on| on.daemon_sets.values().any(|present| present == daemon_set))
    }
}

impl OnNode {
    fn add(&mut self, pod: &Pod) {
        self.uids.insert(pod.uid.clone());
        if let Some(daemon_set) = pod.daemon_set.as_deref() {
            self.daemon_sets.insert(pod.uid.clone(), daemon_set.clone());
        }
        if !pod.state.is_over() {
            self.requests.add(&pod.spec.requests);
            if !pod.spec.host_ports.is_empty() || !pod.volume_claims.is_empty() {
                self.particular.insert(pod.uid.clone());
            }
        }
    }

    fn subtract(&mut self, pod: &Pod) {
        self.uids.remove(&pod.uid);
        self.daemon_sets.remove(&pod.uid);
        self.particular.remove(&pod.uid);
        if !pod.state.is_over() {
            self.requests.subtract(&pod.spec.requests);
        }
    }
}
