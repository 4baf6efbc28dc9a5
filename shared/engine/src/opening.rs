//! Opening nodes to pods: all nodes of a pass together, each with its planned pods pointed at it.
//!
//! A node that opens wakes every pod that waits. kube-scheduler forgets the nomination of a pod that it tries in vain
//! (1.34 and 1.35 alike: preemption that finds no victim empties it), as it does while the pod's own node is still closed,
//! and others then take the room that was meant for it. So all pods are nominated before any node is opened, and those
//! that have lost it meanwhile once more. Daemons that bear a closed node come first of all: kube-scheduler keeps no room
//! for them, and a pod without a nomination would take theirs.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use outrigger_model::resources::NODES;
use outrigger_model::{ClaimState, Node, NodeClaim, Pod, PodState, Quantity};
use tokio::time::Instant;

use crate::TickError;
use crate::nomination::{Nomination, send};
use crate::observe::chain;
use crate::ports::{ClusterState, NodeChange, Ports};
use crate::watch::Watched;

/// How many changes of nodes are on their way at once.
const CONCURRENT_CALLS: usize = 16;
/// How long nominations are looked after before the nodes are opened, and again after that. In a cluster whose running
/// nodes are full each lost nomination wakes the other pods, so waiting until all hold could take for ever.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long daemons may take to come to nodes that have joined; the daemonset controller writes a few dozen in a second.
const PATIENCE_WITH_DAEMONS: Duration = Duration::from_secs(2);
/// How long a nomination may take to show before it counts as lost.
const PACE: Duration = Duration::from_millis(100);

/// A node that has joined, and the claim that it is opened for.
pub(crate) struct Joined<'a> {
    /// The claim; says that it is registered once the node is open.
    pub(crate) claim: &'a mut NodeClaim,
    /// Its node.
    pub(crate) node: &'a Node,
    /// What makes the node the claim's.
    pub(crate) change: NodeChange,
}

/// Waits for the daemons, nominates the planned pods of all nodes, opens all nodes, and nominates what has been lost
/// again. Gives the outcome for each claim, by name. A pod that cannot be nominated keeps no node closed.
pub(crate) async fn open(ports: Ports<'_>, batch: Vec<Joined<'_>>) -> Vec<(String, Result<(), TickError>)> {
    let planned = batch.iter().flat_map(|joined| nominations(joined.claim, &joined.node.name)).collect();
    let mut nominated = Nominated::begin(ports, planned).await;
    nominated.await_daemons(ports, &batch.iter().map(|joined| joined.node).collect::<Vec<_>>()).await;
    nominated.look_after(ports, is_held).await;
    let mut registering = Vec::new();
    for joined in batch {
        let name = joined.claim.name.clone();
        registering.push(register(ports, joined).map(|result| (name, result)).boxed());
    }
    let results = futures::stream::iter(registering).buffered(CONCURRENT_CALLS).collect().await;
    nominated.look_after(ports, |_, pod| is_over(pod)).await;
    results
}

/// Points the claim's planned pods at a node that has not joined yet. On kOps its name is known: it is the instance id.
pub(crate) async fn nominate(ports: Ports<'_>, claim: &NodeClaim) {
    if let Some(node) = claim.node_name.as_deref().or_else(|| claim.instance_id()) {
        send(ports, &nominations(claim, node).iter().collect::<Vec<_>>()).await;
    }
}

/// Whether a pod is pointed at its node, or need not be.
fn is_held(nomination: &Nomination, pod: Option<&Pod>) -> bool {
    is_over(pod) || pod.and_then(|pod| pod.nominated_node.as_deref()) == Some(nomination.node.as_str())
}

/// Whether there is nothing to nominate any more: the pod has a node, or is gone.
fn is_over(pod: Option<&Pod>) -> bool {
    let waits = |pod: &Pod| matches!(pod.state, PodState::Waiting | PodState::Unschedulable);
    !pod.is_some_and(|pod| pod.node_name.is_none() && waits(pod))
}

fn nominations(claim: &NodeClaim, node: &str) -> Vec<Nomination> {
    claim.nominated.iter().map(|pod| Nomination { pod: pod.clone(), node: node.to_owned() }).collect()
}

/// The nominations of one pass, and what has become of them.
struct Nominated {
    planned: Vec<Nomination>,
    /// `None` where there is nothing to watch, or the cluster cannot be watched.
    watched: Option<Watched>,
}

impl Nominated {
    async fn begin(ports: Ports<'_>, planned: Vec<Nomination>) -> Self {
        let watched = if planned.is_empty() { None } else { watch(ports).await };
        Self { planned, watched }
    }

    /// Waits until the daemons that belong on the nodes while these are closed run there, or patience ends.
    async fn await_daemons(&mut self, ports: Ports<'_>, nodes: &[&Node]) {
        let patience_ends = Instant::now() + PATIENCE_WITH_DAEMONS;
        while self.watched.as_ref().is_some_and(|watched| lacks_daemons(&watched.state, nodes)) {
            let left = patience_ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                tracing::info!("the nodes are opened before all of their daemons have come");
                return;
            }
            self.wait(ports, left).await;
        }
    }

    /// Nominates the pods that are not pointed at their nodes, again and again until all are `done` or patience ends. Those
    /// that cannot be watched are nominated once.
    async fn look_after(&mut self, ports: Ports<'_>, done: fn(&Nomination, Option<&Pod>) -> bool) {
        let patience_ends = Instant::now() + PATIENCE;
        loop {
            send(ports, &self.missing(is_held)).await;
            let until = (Instant::now() + PACE).min(patience_ends);
            while self.watched.is_some() && !self.missing(done).is_empty() {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                self.wait(ports, left).await;
            }
            if self.watched.is_none() || self.missing(done).is_empty() || Instant::now() >= patience_ends {
                return;
            }
        }
    }

    fn missing(&self, there: fn(&Nomination, Option<&Pod>) -> bool) -> Vec<&Nomination> {
        let Some(watched) = &self.watched else { return self.planned.iter().collect() };
        let pods = &watched.state.pods;
        self.planned.iter().filter(|nomination| !there(nomination, pods.get(&nomination.pod.uid))).collect()
    }

    async fn wait(&mut self, ports: Ports<'_>, longest: Duration) {
        let Some(watched) = &mut self.watched else { return };
        if let Err(error) = watched.wait(ports, longest).await {
            tracing::warn!(error = chain(&error), "nominations are no longer looked after");
            self.watched = None;
        }
    }
}

/// Whether a node runs fewer daemons than belong there, as the node was when it was found.
fn lacks_daemons(state: &ClusterState, nodes: &[&Node]) -> bool {
    let mut present: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in state.pods.values().filter(|pod| pod.owner_kind == "DaemonSet") {
        if let Some(node) = &pod.node_name {
            *present.entry(node).or_default() += 1;
        }
    }
    nodes.iter().any(|node| {
        let expected = state.daemon_sets.iter().filter(|set| set.runs_on(node)).count();
        present.get(node.name.as_str()).copied().unwrap_or_default() < expected
    })
}

async fn watch(ports: Ports<'_>) -> Option<Watched> {
    match Watched::open(ports).await {
        Ok(watched) => Some(watched),
        Err(error) => {
            tracing::warn!(error = chain(&error), "the pods are nominated without being looked after");
            None
        }
    }
}

/// The node first, then the claim: when the claim cannot be written, the next pass does both again.
async fn register(ports: Ports<'_>, joined: Joined<'_>) -> Result<(), TickError> {
    let Joined { claim, node, change } = joined;
    ports.cluster.change_node(&change).await?;
    claim.state = ClaimState::Registered;
    claim.node_name = Some(node.name.clone());
    claim.registered_at = Some(ports.now());
    // What was planned was the worst case; the node says what it is.
    claim.reserved = node.capacity.clone().with(NODES, Quantity::units(1));
    claim.allocatable.clone_from(&node.allocatable);
    claim.last_error = None;
    // Without the lease: nodes are opened many at a time, and the version alone keeps two writers apart.
    *claim = ports.ledger.update_claim(claim, None).await?;
    tracing::info!(claim = claim.name, node = node.name, "registered");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use outrigger_model::taint::TolerationOperator;
    use outrigger_model::{DaemonSet, PodRef, PodSpec, Taint, TaintEffect, Toleration, labels};

    use super::*;
    use crate::leaving::tests::pod;
    use crate::register::tests::node;

    #[test]
    fn daemons_that_bear_a_closed_node_are_missing_until_they_are_bound_there() {
        let gate = Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
        let closed = node(vec![gate]);
        let bears_all = Toleration { operator: TolerationOperator::Exists, ..Toleration::default() };
        let set = |name: &str, tolerations| DaemonSet {
            id: PodRef { namespace: "kube-system".into(), name: name.into() },
            spec: Arc::new(PodSpec { tolerations, ..PodSpec::default() }),
        };
        let mut state = ClusterState::default();
        assert!(!lacks_daemons(&state, &[&closed]), "there are no daemonsets");
        state.daemon_sets.push(set("metrics", vec![]));
        assert!(!lacks_daemons(&state, &[&closed]), "it does not come before the node is open");
        state.daemon_sets.push(set("agent", vec![bears_all]));
        assert!(lacks_daemons(&state, &[&closed]));
        let mut daemon = Pod { node_name: None, ..pod("DaemonSet", PodState::Waiting) };
        state.apply(crate::ports::ClusterChange::Pod(Box::new(daemon.clone())));
        assert!(lacks_daemons(&state, &[&closed]), "it is not bound yet");
        daemon.node_name = Some(closed.name.clone());
        state.apply(crate::ports::ClusterChange::Pod(Box::new(daemon)));
        assert!(!lacks_daemons(&state, &[&closed]));
    }
}
