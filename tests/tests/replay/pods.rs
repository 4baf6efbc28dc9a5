//! The cluster's pods as the API server tells of them, kept up to date by a watch.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use outrigger_model::PodRef;
use outrigger_stack::Kubernetes;
use serde_json::Value;

/// A pod as it was last seen.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Its uid.
    pub(crate) uid: String,
    /// The node that it is bound to.
    pub(crate) node: Option<String>,
    /// The node that it is nominated for.
    pub(crate) nominated: Option<String>,
    /// What the scheduler said last when it found no node.
    pub(crate) refusal: Option<String>,
}

/// All pods.
#[derive(Default)]
pub(crate) struct State {
    /// By namespace and name.
    pub(crate) seen: BTreeMap<PodRef, Seen>,
    /// How many were deleted, which is what happens to those that others preempt.
    pub(crate) deleted: usize,
    /// When a pod was last bound or refused in other words.
    changed: Option<Instant>,
    /// The version of the last event.
    version: String,
    failure: Option<String>,
}

impl State {
    /// Those of `pods` that are not bound.
    pub(crate) fn unbound<'p>(&self, pods: &'p [PodRef]) -> Vec<&'p PodRef> {
        let is_bound = |pod: &PodRef| self.seen.get(pod).is_some_and(|seen| seen.node.is_some());
        pods.iter().filter(|pod| !is_bound(pod)).collect()
    }

    /// Those that are bound to a node.
    pub(crate) fn on(&self, node: &str) -> Vec<PodRef> {
        let is_there = |(_, seen): &(&PodRef, &Seen)| seen.node.as_deref() == Some(node);
        self.seen.iter().filter(is_there).map(|(pod, _)| pod.clone()).collect()
    }

    /// How long no pod has been bound or refused in other words, counted from `began` at the
    /// earliest. While the scheduler works through its queue, a pod that waits there says nothing.
    pub(crate) fn quiet_since(&self, began: Instant) -> Duration {
        self.changed.map_or(began, |changed| changed.max(began)).elapsed()
    }

    fn take_in(&mut self, event: &Value) -> Result<()> {
        let object = &event["object"];
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        self.version = text("/metadata/resourceVersion").unwrap_or_default();
        match event["type"].as_str() {
            Some("BOOKMARK") => return Ok(()),
            Some("ADDED" | "MODIFIED" | "DELETED") => {}
            _ => bail!("the watch of pods said {event}"),
        }
        let (Some(namespace), Some(name)) = (text("/metadata/namespace"), text("/metadata/name")) else {
            bail!("the watch of pods told of an object without a name: {object}");
        };
        let pod = PodRef { namespace, name };
        if event["type"] == "DELETED" {
            self.seen.remove(&pod);
            self.deleted += 1;
            return Ok(());
        }
        let seen = Seen {
            uid: text("/metadata/uid").unwrap_or_default(),
            node: text("/spec/nodeName"),
            nominated: text("/status/nominatedNodeName"),
            refusal: refusal(object),
        };
        match self.seen.get_mut(&pod) {
            // Our own nominations are changes of the object, but say nothing about the scheduler.
            Some(known) if known.node == seen.node && known.refusal == seen.refusal => {
                (known.uid, known.nominated) = (seen.uid, seen.nominated);
            }
            _ => {
                self.changed = Some(Instant::now());
                self.seen.insert(pod, seen);
            }
        }
        Ok(())
    }
}

fn refusal(pod: &Value) -> Option<String> {
    let conditions = pod.pointer("/status/conditions")?.as_array()?;
    let scheduled = conditions.iter().find(|condition| condition["type"] == "PodScheduled")?;
    (scheduled["status"] == "False").then(|| scheduled["message"].as_str().unwrap_or_default().to_owned())
}

/// A watch of all pods that goes on until the API server ends.
#[derive(Clone)]
pub(crate) struct Pods(Arc<(Mutex<State>, Condvar)>);

impl Pods {
    /// Starts to watch.
    pub(crate) fn watch(kubernetes: &Kubernetes) -> Result<Self> {
        let listed = kubernetes.get("/api/v1/pods?limit=1")?;
        let version = listed["metadata"]["resourceVersion"].as_str().context("a list without a version")?;
        let pods = Self(Arc::default());
        version.clone_into(&mut pods.lock().version);
        let (shared, kubernetes) = (pods.clone(), kubernetes.clone());
        thread::spawn(move || {
            // The server ends a watch that cannot keep up for a moment; it goes on from where it
            // was.
            while shared.follow(&kubernetes).is_ok() {}
        });
        Ok(pods)
    }

    fn follow(&self, kubernetes: &Kubernetes) -> Result<()> {
        let version = self.lock().version.clone();
        let outcome = kubernetes.watch("/api/v1/pods", &version).and_then(|events| {
            for event in events {
                // A line that broke off is the end of this watch.
                let Ok(event) = event else { break };
                self.lock().take_in(&event)?;
                self.0.1.notify_all();
            }
            Ok(())
        });
        if let Err(error) = &outcome {
            self.lock().failure = Some(format!("{error:#}"));
            self.0.1.notify_all();
        }
        outcome
    }

    /// What is known now.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `holds` says yes, asking at every change and every 200 ms; an error after
    /// `longest`.
    pub(crate) fn wait(
        &self,
        what: &str,
        longest: Duration,
        holds: impl FnMut(&State) -> bool,
    ) -> Result<()> {
        if !self.wait_up_to(longest, holds).with_context(|| format!("waiting for {what}"))? {
            bail!("waited {longest:?} in vain for {what}");
        }
        Ok(())
    }

    /// The same; says whether it came to be.
    pub(crate) fn wait_up_to(
        &self,
        longest: Duration,
        mut holds: impl FnMut(&State) -> bool,
    ) -> Result<bool> {
        let began = Instant::now();
        let mut state = self.lock();
        while !holds(&state) {
            if let Some(failure) = &state.failure {
                bail!("{failure}");
            }
            if began.elapsed() > longest {
                return Ok(false);
            }
            let waited = self.0.1.wait_timeout(state, Duration::from_millis(200));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(true)
    }
}
