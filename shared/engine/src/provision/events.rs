//! What provision tells people about their pods.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt, StreamExt};
use outrigger_model::{Plan, PodRef, PodsOutcome as Fate, Report, Snapshot};

use super::Tick;
use crate::ports::{Event, EventReason, Ports, Subject};

/// How many pods are told about their fate in one round; a flood of events would only delay the
/// launches behind it.
const MAX_EVENTS: usize = 500;
/// How many events are on their way at once.
const CONCURRENT_EVENTS: usize = 16;

impl Tick<'_> {
    /// Tells people what became of their pods, as Karpenter does: `Nominated` and
    /// `FailedScheduling`.
    pub(super) async fn tell(&self, snapshot: &Snapshot, plan: &Plan, report: &Report) {
        publish_all(self.ports, events(snapshot, plan, report)).await;
    }
}

/// Tells people about pods, up to a bound.
pub(super) async fn publish_all(ports: Ports<'_>, events: Vec<Event>) {
    if events.len() > MAX_EVENTS {
        tracing::warn!(left_out = events.len() - MAX_EVENTS, "some pods get no event this time");
    }
    let mut calls = Vec::new();
    for event in events.into_iter().take(MAX_EVENTS) {
        calls.push(async move { ports.publish(&event).await }.boxed());
    }
    futures::stream::iter(calls).buffer_unordered(CONCURRENT_EVENTS).collect::<Vec<()>>().await;
}

/// First the pods that nothing can be done for, since their owners have to act.
fn events(snapshot: &Snapshot, plan: &Plan, report: &Report) -> Vec<Event> {
    let uids: BTreeMap<_, _> = snapshot.pods.iter().map(|pod| (&pod.id, pod.uid.as_str())).collect();
    let running: BTreeSet<_> =
        snapshot.pods.iter().filter(|pod| pod.node_name.is_some()).map(|pod| &pod.id).collect();
    let refused = refused_lately(snapshot);
    let mut events: Vec<_> = report
        .unplaced()
        // A pod that still runs has not failed to be scheduled.
        .filter(|(pod, _)| !running.contains(pod))
        .map(|(pod, reason)| {
            let uid = uids.get(pod).copied().unwrap_or_default();
            cannot_launch(pod, uid, &format!("{reason}{refused}"))
        })
        .collect();
    for entry in &report.pods {
        if let Fate::Ignored { reason } = &entry.outcome {
            tracing::debug!(pods = entry.pods.len(), reason, "left out of the decision");
        }
    }
    for node in &plan.nodes {
        events.extend(node.pods.iter().map(|nominated| Event {
            about: Subject::Pod { id: nominated.pod.clone(), uid: nominated.uid.clone() },
            reason: EventReason::Nominated,
            message: format!("Outrigger is launching nodeclaim/{} for this pod", node.claim),
        }));
    }
    events
}

/// That no node is launched for a pod.
pub(super) fn cannot_launch(pod: &PodRef, uid: &str, why: &str) -> Event {
    Event {
        about: Subject::Pod { id: pod.clone(), uid: uid.to_owned() },
        reason: EventReason::FailedScheduling,
        message: format!("Outrigger cannot launch a node for this pod: {why}"),
    }
}

/// What EC2 has lately refused, for people who wonder where the instance types have gone; nothing
/// when it has refused nothing.
fn refused_lately(snapshot: &Snapshot) -> String {
    let lately = snapshot.unavailable.iter().filter(|offering| offering.until > snapshot.taken_at);
    let said: BTreeSet<String> =
        lately.map(|offering| format!("{} ({})", offering.reason, offering.capacity_type)).collect();
    if said.is_empty() {
        return String::new();
    }
    format!("; EC2 lately said {}", said.into_iter().collect::<Vec<_>>().join(", "))
}
