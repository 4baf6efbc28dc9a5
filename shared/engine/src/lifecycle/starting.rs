//! Claims on their way to being ready for pods.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt, StreamExt};
use jiff::{SignedDuration, Timestamp};
use outrigger_catalog::Catalog;
use outrigger_model::resources::NODES;
use outrigger_model::{ClaimState, Command, Node, NodeClaim, Quantity, Resources, Taint, labels};
use outrigger_policy::leaving::replacement;

use super::Tick;
use super::placing::Placing;
use crate::TickError;
use crate::guards::Guard;
use crate::node::index::Nodes;
use crate::node::register::registration;
use crate::node::{change, initialize, placing};
use crate::ports::{NodeChange, Ports};

/// By then whether a node served the pods that it was bought for has long been judged.
const PODS_FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_mins(30);
/// How many changes of nodes are on their way at once.
const CONCURRENT_CALLS: usize = 16;

impl Tick<'_> {
    /// Takes every claim that is not ready yet as far as its nodes allow.
    pub(super) async fn start(&mut self, claims: &mut [NodeClaim], commands: &[Command], nodes: &Nodes<'_>) {
        let awaiting: BTreeSet<String> =
            replacement::awaiting(claims, commands, self.ports.now()).map(str::to_owned).collect();
        let (mut joined, mut closed, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for claim in claims.iter_mut().filter(|claim| claim.status.state <= ClaimState::Initialized) {
            let on = nodes.of_claim(claim);
            match (claim.status.state, on) {
                (ClaimState::Launched, [node]) => joined.push((claim, *node)),
                (_, [node]) if node.awaits_placing() && !node.deleting => {
                    let stays_closed = self.settings.guards.has(Guard::ClosedReplacements);
                    let awaits_moves = stays_closed && awaiting.contains(&claim.name);
                    closed.push(Placing { claim, node, awaits_moves });
                }
                _ => others.push((claim, on)),
            }
        }
        self.register(joined).await;
        self.place(closed).await;
        for (claim, on) in others {
            if let Err(error) = self.advance(claim, on).await {
                self.cannot_go_on(&claim.name, &error);
            }
        }
    }

    /// Registers the nodes that have joined since the last pass, many at a time.
    async fn register(&mut self, joined: Vec<(&mut NodeClaim, &Node)>) {
        let mut registering = Vec::new();
        for (claim, node) in joined {
            let measured = self.note_expected(claim).await;
            // What was computed stands in the claim until the node is registered.
            let measured = measured.and(self.learn(claim, node).await);
            match measured.and(self.type_labels(claim).await) {
                Ok(type_labels) => {
                    let change = registration(claim, node, type_labels);
                    let (ports, name) = (self.ports, claim.name.clone());
                    registering
                        .push(async move { (name, register(ports, claim, node, change).await) }.boxed());
                }
                Err(error) => self.cannot_go_on(&claim.name, &error),
            }
        }
        let results: Vec<_> = futures::stream::iter(registering).buffered(CONCURRENT_CALLS).collect().await;
        for (claim, result) in results {
            match result {
                Ok(()) => {
                    self.summary.waiting.insert(claim.clone(), "its node to be ready".to_owned());
                    self.summary.registered.push(claim);
                }
                Err(error) => self.cannot_go_on(&claim, &error),
            }
        }
    }

    /// Takes one claim as far as its nodes allow; nodes that are to be registered or are closed have been seen to.
    async fn advance(&mut self, claim: &mut NodeClaim, nodes: &[&Node]) -> Result<(), TickError> {
        self.measure(claim, nodes).await?;
        let waits_for = match (claim.status.state, nodes) {
            (ClaimState::Intent, _) => Some("its launch".to_owned()),
            (ClaimState::Initialized, [node]) => {
                self.keep(claim, node).await?;
                self.forget_pods(claim).await?;
                None
            }
            (ClaimState::Initialized, _) => None,
            (_, []) => Some("its node to join".to_owned()),
            (_, [node]) => self.initialize(claim, node).await?,
            (_, several) => {
                let names: Vec<_> = several.iter().map(|node| node.name.as_str()).collect();
                Some(format!("only one node with its providerID to be left of {}", names.join(", ")))
            }
        };
        if let Some(what) = waits_for {
            self.summary.waiting.insert(claim.name.clone(), what);
        }
        Ok(())
    }

    /// A node that lost our finalizer, or was registered before there was one, gets it; one that still has
    /// the soft taints with which an earlier version opened nodes loses them.
    async fn keep(&self, claim: &NodeClaim, node: &Node) -> Result<(), TickError> {
        let is_named = node.annotations.get(labels::CLAIM) == Some(&claim.name);
        if !node.deleting && (!(node.has_our_finalizer() && is_named) || change::is_opening(node)) {
            let annotations = BTreeMap::from([(labels::CLAIM.to_owned(), claim.name.clone())]);
            let taints = change::opened(node).taints;
            let change = NodeChange { annotations, taints, ..change::ours(node) };
            self.ports.cluster.change_node(&change).await?;
        }
        Ok(())
    }

    /// The pods that a node was bought for run on it by now, or are planned for anew: a claim forgets their names, with
    /// which it would only grow.
    async fn forget_pods(&self, claim: &mut NodeClaim) -> Result<(), TickError> {
        let is_old = |since: Timestamp| self.ports.now().duration_since(since) >= PODS_FORGOTTEN_AFTER;
        if !claim.status.nominated.is_empty() && claim.status.initialized_at.is_some_and(is_old) {
            let next = claim.clone().with_status(|status| status.nominated.clear());
            *claim = self.ports.ledger.update_claim(&next, None).await?;
        }
        Ok(())
    }

    /// The labels of the claim's instance type, as pods may select them; none for a type that the catalogue lacks.
    async fn type_labels(&mut self, claim: &NodeClaim) -> Result<BTreeMap<String, String>, TickError> {
        let catalog = self.catalog().await?;
        let entry =
            claim.status.instance.as_ref().and_then(|instance| catalog.entry(&instance.instance_type));
        Ok(entry.map(|entry| outrigger_catalog::labels::of(&entry.facts)).unwrap_or_default())
    }

    pub(super) async fn catalog(&mut self) -> Result<&Catalog, TickError> {
        let catalog = match self.catalog.take() {
            Some(catalog) => catalog,
            None => self.ports.cloud.catalog().await?,
        };
        Ok(self.catalog.insert(catalog))
    }

    async fn initialize(&mut self, claim: &mut NodeClaim, node: &Node) -> Result<Option<String>, TickError> {
        if let Some(why) = initialize::not_initialized(claim, node) {
            return Ok(Some(why.to_string()));
        }
        self.tell_of_refusals(claim, node).await;
        self.ports.cluster.change_node(&initialize::initialization(node)).await?;
        claim.status.state = ClaimState::Initialized;
        claim.status.initialized_at = Some(self.ports.now());
        *claim = self.ports.ledger.update_claim(claim, None).await?;
        self.summary.initialized.push(claim.name.clone());
        self.learn(claim, node).await?;
        tracing::info!(claim = claim.name, node = node.name, "initialised");
        Ok(None)
    }
}

/// What a node offers, and what it was planned with and does not show yet: devices are announced a little later.
fn with_announced(offered: &Resources, promised: &Resources) -> Resources {
    let mut all = offered.clone();
    let missing = promised.iter().filter(|(name, _)| offered.get(name).is_zero());
    missing.for_each(|(name, amount)| all.set(name, amount));
    all
}

/// The node first, then the claim: when the claim cannot be written, the next pass does both again.
async fn register(
    ports: Ports<'_>,
    claim: &mut NodeClaim,
    node: &Node,
    change: NodeChange,
) -> Result<(), TickError> {
    let is_closed = change.taints.contains(&Taint::placing());
    ports.cluster.change_node(&change).await?;
    claim.status.state = ClaimState::Registered;
    claim.status.node_name = Some(node.name.clone());
    claim.status.registered_at = Some(ports.now());
    // What was planned was the worst case; the node says what it is, where that can be read.
    if node.degraded.is_none() {
        claim.status.reserved = node.capacity.clone().with(NODES, Quantity::units(1));
        claim.status.allocatable = with_announced(&node.allocatable, &claim.status.allocatable);
    }
    claim.status.last_error = None;
    // Without the lease: nodes are registered many at a time, and the version alone keeps two writers apart.
    *claim = ports.ledger.update_claim(claim, None).await?;
    if !is_closed {
        // It joined without the gate and is open to all: kube-scheduler can only be told whom it is for.
        placing::nominate(ports, &placing::nominations(claim, &node.name)).await;
    }
    tracing::info!(claim = claim.name, node = node.name, "registered");
    Ok(())
}
