//! Ports -> Snapshot. It only gathers: what a decision makes of the facts is planning's.
//!
//! `configuration` is what users asked for; `classes` resolves node classes, `offers` says what the
//! catalogue is under each, corrected by `seen_resources`; `karpenter` whether one lives beside us;
//! `volumes` reads what pods mount, `budgets` the PodDisruptionBudgets, and `watch` keeps nodes and
//! pods current.

pub(crate) mod budgets;
pub(crate) mod classes;
pub(crate) mod configuration;
pub(crate) mod karpenter;
pub(crate) mod offers;
mod seen_resources;
pub(crate) mod volumes;
pub(crate) mod watch;

use std::collections::BTreeMap;

use outrigger_model::{Node, NodeClaim, Snapshot, SpotRefusal};
use outrigger_policy::leaving;

use crate::identity::is_pretender;
use crate::ports::{ClusterError, ClusterState, LedgerState, Ports};
use budgets::disruption_budgets;
use classes::{references, resolve};
use configuration::configuration;
use karpenter::karpenter_lease;
use offers::Offers;
use volumes::add_volumes;

/// What a tick knows without asking anybody: its settings, and what it has seen so far.
#[derive(Clone, Copy)]
pub(crate) struct SnapshotInputs<'a> {
    /// The kOps cluster's name.
    pub(crate) cluster: &'a str,
    /// How many nodes the cluster may get within a minute.
    pub(crate) max_new_nodes_per_minute: Option<usize>,
    /// Nodes whose spot fleet launched nothing, oldest first.
    pub(crate) spot_refusals: &'a [SpotRefusal],
    /// What is to be decided.
    pub(crate) purpose: Purpose,
}

/// What is to be decided, which says what must be read for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Where the pods go that need a node. PodDisruptionBudgets hold up such a pod only while nodes
    /// are going.
    Provision,
    /// Which nodes may be disrupted, so that all of their pods need another.
    Disruption,
}

/// Puts together what a decision may use. The ledger's state was loaded before `state` was last
/// brought up to date, so that a node can be missing from the cluster's side only while its claim
/// is still in the ledger's.
pub(crate) async fn snapshot(
    ports: Ports<'_>,
    inputs: SnapshotInputs<'_>,
    ledger: LedgerState,
    state: &ClusterState,
    offers: &mut Offers,
) -> Result<Snapshot, ClusterError> {
    let configuration = configuration(ports).await?;
    for problem in &configuration.invalid {
        tracing::warn!(%problem, "refused; the others go on without it");
    }
    let mut snapshot = Snapshot::empty(inputs.cluster, ports.now());
    snapshot.max_new_nodes_per_minute = inputs.max_new_nodes_per_minute;
    snapshot.spot_refusals = inputs.spot_refusals.to_vec();
    offers.learn(ledger.seen_resources);
    for reference in references(&configuration) {
        let class = resolve(ports, &configuration, reference).await;
        snapshot.classes.push(offers.offer(class));
    }
    snapshot.karpenter_lease = karpenter_lease(ports, &configuration).await;
    snapshot.health = ledger.health;
    snapshot.generation = ledger.generation;
    snapshot.claims = ledger.claims;
    snapshot.intents = ledger.intents;
    snapshot.commands = ledger.commands;
    snapshot.unavailable = ledger.unavailable;
    snapshot.node_pools = configuration.node_pools;
    snapshot.invalid = configuration.invalid;
    snapshot.overlays = configuration.overlays;
    snapshot.buffers = configuration.buffers;
    snapshot.nodes = state.nodes.values().map(|node| Node::clone(node)).collect();
    disbelieve_pretenders(&mut snapshot);
    note_wishes(&mut snapshot);
    snapshot.pods = state.pods.values().cloned().collect();
    snapshot.daemon_sets.clone_from(&state.daemon_sets);
    tell_of_unreadable(&snapshot);
    if inputs.purpose == Purpose::Disruption || leaving::is_any_node_leaving(&snapshot) {
        snapshot.disruption_budgets = disruption_budgets(ports).await?;
    }
    add_volumes(ports, &mut snapshot, inputs.purpose).await?;
    if snapshot.pods.iter().any(|pod| pod.spec.selects_namespaces()) {
        snapshot.namespaces = ports.cluster.namespaces().await?;
    }
    Ok(snapshot)
}

/// A providerID of an instance that a node cannot be leads nowhere.
fn disbelieve_pretenders(snapshot: &mut Snapshot) {
    let claims: BTreeMap<&str, &NodeClaim> =
        snapshot.claims.iter().filter_map(|claim| Some((claim.instance_id()?, claim))).collect();
    for node in &mut snapshot.nodes {
        let claim = node.instance_id().and_then(|id| claims.get(id));
        if claim.is_some_and(|claim| is_pretender(node, claim)) {
            node.provider_id = None;
        }
    }
}

/// Nodes with what their NodeClaim objects ask for, as lifecycle has written it into their claims.
fn note_wishes(snapshot: &mut Snapshot) {
    let wish =
        |claim: &NodeClaim| Some((claim.instance_id()?.to_owned(), claim.status.do_not_disrupt.clone()?));
    let wishes: BTreeMap<String, String> = snapshot.claims.iter().filter_map(wish).collect();
    if wishes.is_empty() {
        return;
    }
    for node in &mut snapshot.nodes {
        node.claim_do_not_disrupt = node.instance_id().and_then(|id| wishes.get(id)).cloned();
    }
}

/// Says what could not be read, once for all objects that have it in common.
fn tell_of_unreadable(snapshot: &Snapshot) {
    let mut alike: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for problem in snapshot.all_unreadable() {
        alike.entry(problem.complaint()).or_insert((&problem.object, 0)).1 += 1;
    }
    for (problem, (object, objects)) in alike {
        tracing::warn!(object, objects, problem, "not read whole; counted, and nothing is planned for it");
    }
}
