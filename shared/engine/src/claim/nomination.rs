//! Pointing pods at the nodes that they are planned for.
//!
//! Room that a plan has found on nodes which exist already would be lost to others, and the next
//! plan would deal it out anew, if nobody held it. A pod with such a place is nominated for its
//! node (Karpenter's `NominateNodeForPod`). Where the node is yet to join, or is closed until its
//! pods are placed, the pod is entered in the claim, from which lifecycle places it.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt};
use outrigger_model::{NodeClaim, NominatedPod, Plan, Pod, Snapshot, Target};

use crate::chain::chain;
use crate::ports::{Lease, LedgerError, Ports};

/// How many nominations are on their way at once.
const CONCURRENT_CALLS: usize = 16;
/// How many pods one plan nominates for nodes that exist; a flood would only delay the next plan.
const PODS_MAX: usize = 500;

/// A pod and the node that it was planned for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nomination {
    /// The pod.
    pub(crate) pod: NominatedPod,
    /// The name of the node.
    pub(crate) node: String,
}

/// Nominates pods. One that cannot be nominated is said to be that, and left alone: the scheduler
/// finds its own way.
pub(crate) async fn send(ports: Ports<'_>, nominations: &[&Nomination]) {
    let mut calls = Vec::new();
    for nomination in nominations {
        let Nomination { pod, node } = nomination;
        let call = async move {
            if let Err(error) = ports.cluster.nominate(pod, node).await {
                tracing::warn!(pod = %pod.pod, node, error = chain(&error), "the pod was not nominated");
            }
        };
        calls.push(call.boxed());
    }
    futures::stream::iter(calls).buffer_unordered(CONCURRENT_CALLS).collect::<Vec<()>>().await;
}

/// Holds the room that a plan has found on nodes and claims which exist. A claim that cannot be
/// written now is left as it is; the next plan finds the same room.
///
/// Errors when the lease has gone.
pub(crate) async fn hold_room(
    ports: Ports<'_>,
    lease: &Lease,
    snapshot: &Snapshot,
    plan: &Plan,
) -> Result<(), LedgerError> {
    for claim in joined_claims(snapshot, plan) {
        match ports.ledger.update_claim(&claim, Some(lease)).await {
            Ok(_) => {}
            Err(error @ LedgerError::LeaseLost { .. }) => return Err(error),
            Err(error) => {
                tracing::info!(claim = claim.name, error = chain(&error), "its room is not held this time");
            }
        }
    }
    let new = on_nodes(snapshot, plan);
    if new.len() > PODS_MAX {
        tracing::warn!(left_out = new.len() - PODS_MAX, "some pods are not nominated this time");
    }
    send(ports, &new.iter().take(PODS_MAX).collect::<Vec<_>>()).await;
    Ok(())
}

/// The pods that go to open nodes, less those that are nominated for them already.
fn on_nodes(snapshot: &Snapshot, plan: &Plan) -> Vec<Nomination> {
    let pods_by_uid: BTreeMap<&str, &Pod> = snapshot.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
    let mut new = Vec::new();
    for placement in &plan.existing {
        let Target::Node(node) = &placement.target else { continue };
        if closed(snapshot, node).is_some() {
            continue;
        }
        let is_held = |pod: &&NominatedPod| {
            // A pod that still runs on a node that is going cannot be nominated for another.
            pods_by_uid
                .get(pod.uid.as_str())
                .is_some_and(|pod| pod.node_name.is_some() || pod.nominated_node.as_deref() == Some(node))
        };
        let pods = placement.pods.iter().filter(|pod| !is_held(pod)).cloned();
        new.extend(pods.map(|pod| Nomination { pod, node: node.clone() }));
    }
    new
}

/// The claim of a node that is closed until its pods are placed.
fn closed<'s>(snapshot: &'s Snapshot, node: &str) -> Option<&'s NodeClaim> {
    let node = snapshot.nodes.iter().find(|other| other.name == node).filter(|node| node.awaits_placing())?;
    let is_its = |claim: &&NodeClaim| claim.status.node_name.as_deref() == Some(node.name.as_str());
    snapshot.claims.iter().find(|claim| is_its(claim) && claim.status.state.accepts_pods())
}

/// The claims that get pods beside those that they were planned for, with those pods and what they
/// ask for.
fn joined_claims(snapshot: &Snapshot, plan: &Plan) -> Vec<NodeClaim> {
    let pods_by_uid: BTreeMap<&str, &Pod> = snapshot.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
    let mut joined = Vec::new();
    for placement in &plan.existing {
        let claim = match &placement.target {
            Target::Claim(name) => snapshot.claims.iter().find(|claim| &claim.name == name),
            Target::Node(name) => closed(snapshot, name),
        };
        let Some(claim) = claim else { continue };
        let mut next = claim.clone();
        for pod in placement.pods.iter().filter(|pod| !claim.status.nominated.contains(pod)) {
            if let Some(pod) = pods_by_uid.get(pod.uid.as_str()) {
                next.status.requests.add(&pod.spec.requests);
            }
            next.status.nominated.push(pod.clone());
        }
        if next.status.nominated.len() > claim.status.nominated.len() {
            joined.push(next);
        }
    }
    joined
}

#[cfg(test)]
mod tests;
