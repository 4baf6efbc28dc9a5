//! One control plane for all scenarios: objects are created, read back, and deleted between two of
//! them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use outrigger_stack::{Kubernetes, SchedulingPlane};
use serde_json::{Value, json};

use crate::pods::Pods;

/// Kinds that live in the API server, with their collections, in the order in which they are
/// created. Whatever else a scenario holds (NodePools, daemonsets) is only for the planner: no
/// controller here would act on it.
const KINDS: [(&str, &str); 9] = [
    ("Namespace", "/api/v1/namespaces"),
    ("PriorityClass", "/apis/scheduling.k8s.io/v1/priorityclasses"),
    ("StorageClass", "/apis/storage.k8s.io/v1/storageclasses"),
    ("CSIDriver", "/apis/storage.k8s.io/v1/csidrivers"),
    ("PersistentVolume", "/api/v1/persistentvolumes"),
    ("PersistentVolumeClaim", "/api/v1/persistentvolumeclaims"),
    ("Node", "/api/v1/nodes"),
    ("CSINode", "/apis/storage.k8s.io/v1/csinodes"),
    ("Pod", "/api/v1/pods"),
];

/// Requests in flight at once, as many as lifecycle has.
const PARALLEL: usize = 16;

/// A control plane in which only the scheduler acts.
pub(crate) struct Cluster {
    plane: SchedulingPlane,
    /// Its pods.
    pub(crate) pods: Pods,
}

impl Cluster {
    /// Starts it.
    pub(crate) fn start() -> Result<Self> {
        // What kube-scheduler does by default from 1.35 on can be tried with
        // NominatedNodeNameForExpectation=true.
        let gates = std::env::var("OUTRIGGER_REPLAY_FEATURE_GATES").ok();
        let plane = SchedulingPlane::start(gates.as_deref())?;
        let pods = Pods::watch(plane.kubernetes())?;
        Ok(Self { plane, pods })
    }

    /// The API server.
    pub(crate) fn api(&self) -> &Kubernetes {
        self.plane.kubernetes()
    }

    /// Creates those of the objects that live in the API server, kind by kind.
    pub(crate) fn create(&self, objects: &[Value]) -> Result<()> {
        for (kind, collection) in KINDS {
            let of_kind: Vec<&Value> = objects.iter().filter(|object| object["kind"] == kind).collect();
            in_parallel(&of_kind, |object| self.create_one(kind, collection, object))
                .with_context(|| format!("creating each {kind}"))?;
        }
        Ok(())
    }

    fn create_one(&self, kind: &str, collection: &str, object: &Value) -> Result<()> {
        let path = within_namespace(collection, object);
        let answer = self.api().try_create(&path, object)?;
        let is_kept_namespace = kind == "Namespace" && answer.status == 409;
        if !is_kept_namespace {
            answer.ok(&format!("creating {kind} {}", object["metadata"]["name"]))?;
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        // The server drops the status of a new volume or claim, and marks a new node as not ready.
        let change = match kind {
            "PersistentVolume" | "PersistentVolumeClaim" if object["status"].is_object() => {
                Some((format!("{path}/{name}/status"), json!({"status": object["status"]})))
            }
            "Node" => {
                let taints = &object["spec"]["taints"];
                Some((format!("{path}/{name}"), json!({"spec": {"taints": taints}})))
            }
            _ => None,
        };
        change.map_or(Ok(()), |(path, change)| self.api().merge(&path, &change).map(drop))
    }

    /// Every object of the kinds above.
    pub(crate) fn read_back(&self) -> Result<Vec<Value>> {
        let mut objects = Vec::new();
        for (kind, collection) in KINDS {
            let mut list = self.api().get(collection)?;
            let version = list["apiVersion"].take();
            if let Value::Array(items) = list["items"].take() {
                // The items of a list do not say what they are.
                let named = items.into_iter().map(|mut item| {
                    (item["apiVersion"], item["kind"]) = (version.clone(), json!(kind));
                    item
                });
                objects.extend(named);
            }
        }
        Ok(objects)
    }

    /// Deletes all that scenarios make, namespaces aside: nobody here would ever finish their
    /// deletion.
    pub(crate) fn clear(&self) -> Result<()> {
        let pods = self.api().list("/api/v1/pods")?;
        let namespaces: BTreeSet<&str> =
            pods.iter().filter_map(|pod| pod["metadata"]["namespace"].as_str()).collect();
        for namespace in namespaces {
            let path = format!("/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0");
            self.api().delete(&path)?;
        }
        for (kind, collection) in KINDS {
            if matches!(kind, "Namespace" | "Pod") {
                continue;
            }
            let objects = self.api().list(collection)?;
            let ours: Vec<&Value> = objects.iter().filter(|object| !is_of_the_server(object)).collect();
            in_parallel(&ours, |object| self.delete_one(collection, object))?;
        }
        self.pods.wait("all pods to be gone", Duration::from_secs(30), |state| state.seen.is_empty())?;
        match self.plane.dead_part() {
            Some(part) => bail!("{part} has ended"),
            None => Ok(()),
        }
    }

    /// A volume or claim is held by a finalizer that no controller here takes off.
    fn delete_one(&self, collection: &str, object: &Value) -> Result<()> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let path = format!("{}/{name}", within_namespace(collection, object));
        if object["metadata"]["finalizers"].is_array() {
            self.api().merge(&path, &json!({"metadata": {"finalizers": null}}))?;
        }
        self.api().delete(&path)
    }
}

/// The two priority classes that every API server makes for itself.
fn is_of_the_server(object: &Value) -> bool {
    object["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("system-"))
}

/// `/api/v1/pods` -> `/api/v1/namespaces/x/pods` for an object of namespace `x`.
fn within_namespace(collection: &str, object: &Value) -> String {
    let namespaced = ["/api/v1/pods", "/api/v1/persistentvolumeclaims"].contains(&collection);
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    match collection.rsplit_once('/') {
        Some((root, plural)) if namespaced => format!("{root}/namespaces/{namespace}/{plural}"),
        _ => collection.to_owned(),
    }
}

/// Does something to each item, a few at a time; the first error is returned.
pub(crate) fn in_parallel<T: Sync>(items: &[T], action: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            action(item)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..PARALLEL.min(items.len())).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a worker panicked")))
    })
}
