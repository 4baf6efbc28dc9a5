//! Pods that something makes anew once they are gone, as the controller of a ReplicaSet does.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use outrigger_bench::replay::Scenario;
use outrigger_model::PodRef;
use serde_json::Value;

use crate::cluster::{Cluster, in_parallel};
use crate::pods::State;
use crate::rounds::{LONGEST, path, reference};

/// The pods that are to be there, each with what it is made from.
pub(super) struct Replicas {
    pods: BTreeMap<PodRef, Value>,
    /// How many were made anew.
    made: usize,
    /// How many kube-scheduler deleted to make room for others.
    pub(super) preempted: usize,
}

impl Replicas {
    /// Those of a scenario's running pods that a ReplicaSet owns.
    pub(super) fn new(scenario: &Scenario) -> Self {
        let is_replica = |object: &&Value| {
            object["kind"] == "Pod" && object["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
        };
        let replicas = scenario.objects.iter().filter(is_replica);
        let pods = replicas.map(|object| (reference(object), template(object))).collect();
        Self { pods, made: 0, preempted: 0 }
    }

    /// Whether all of them are seen.
    pub(super) fn are_in(&self, state: &State) -> bool {
        self.pods.keys().all(|pod| state.seen.contains_key(pod))
    }

    /// Those without a node.
    pub(super) fn unbound(&self, state: &State) -> Vec<PodRef> {
        let is_bound = |pod: &PodRef| state.seen.get(pod).is_some_and(|seen| seen.node.is_some());
        self.pods.keys().filter(|pod| !is_bound(pod)).cloned().collect()
    }

    /// Deletes those on some nodes and makes them anew; says how many that are.
    pub(super) fn move_from(&mut self, cluster: &Cluster, nodes: &[String]) -> Result<usize> {
        let on_them: Vec<PodRef> = {
            let state = cluster.pods.lock();
            let pods = nodes.iter().flat_map(|node| state.on(node));
            pods.filter(|pod| self.pods.contains_key(pod)).collect()
        };
        in_parallel(&on_them, |pod| cluster.api().delete(&path(pod)))?;
        self.replace(cluster, &on_them)?;
        Ok(on_them.len())
    }

    /// Waits until all are bound, or kube-scheduler has said nothing new for so long. Pods that it
    /// has preempted are made anew.
    pub(super) fn await_quiet(&mut self, cluster: &Cluster, quiet: Duration) -> Result<()> {
        let began = Instant::now();
        loop {
            cluster.pods.wait("pods to be bound", LONGEST, |state| {
                !self.are_in(state) || self.unbound(state).is_empty() || state.quiet_since(began) > quiet
            })?;
            let gone: Vec<PodRef> = {
                let state = cluster.pods.lock();
                self.pods.keys().filter(|pod| !state.seen.contains_key(pod)).cloned().collect()
            };
            if gone.is_empty() {
                return Ok(());
            }
            self.preempted += gone.len();
            self.replace(cluster, &gone)?;
        }
    }

    /// Makes other pods in the place of some, with new names, and waits until they are seen.
    fn replace(&mut self, cluster: &Cluster, gone: &[PodRef]) -> Result<()> {
        let mut new = Vec::new();
        for pod in gone {
            let Some(mut object) = self.pods.remove(pod) else { continue };
            self.made += 1;
            let base = pod.name.split("-again").next().unwrap_or_default();
            object["metadata"]["name"] = format!("{base}-again{}", self.made).into();
            new.push(object.clone());
            self.pods.insert(reference(&object), object);
        }
        cluster.create(&new)?;
        cluster.pods.wait("new pods to be seen", LONGEST, |state| {
            new.iter().all(|object| state.seen.contains_key(&reference(object)))
        })
    }
}

/// What a pod is made from: nothing that the API server or kube-scheduler has added.
fn template(object: &Value) -> Value {
    let mut template = object.clone();
    if let Some(spec) = template["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    if let Some(pod) = template.as_object_mut() {
        pod.remove("status");
    }
    if let Some(metadata) = template["metadata"].as_object_mut() {
        metadata.retain(|key, _| !matches!(key.as_str(), "uid" | "creationTimestamp"));
    }
    template
}
