//! Claims on their way to being ready for pods.

use std::collections::BTreeMap;

use outrigger_catalog::Catalog;
use outrigger_model::{ClaimState, Node, NodeClaim, labels};

use super::{ByInstance, Tick, nodes_of};
use crate::TickError;
use crate::opening::{self, Joined};
use crate::ports::NodeChange;
use crate::register;

impl Tick<'_> {
    /// Takes every claim that is not ready yet as far as its nodes allow.
    pub(super) async fn start(&mut self, claims: &mut [NodeClaim], by_instance: &ByInstance<'_>) {
        let mut joined = Vec::new();
        let mut others = Vec::new();
        for claim in claims.iter_mut().filter(|claim| claim.state <= ClaimState::Initialized) {
            let on = nodes_of(claim, by_instance);
            match (claim.state, on.as_slice()) {
                (ClaimState::Launched, [node]) => joined.push((claim, *node)),
                _ => others.push((claim, on)),
            }
        }
        self.open(joined).await;
        for (claim, on) in others {
            if let Err(error) = self.advance(claim, &on).await {
                self.cannot_go_on(&claim.name, &error);
            }
        }
    }

    /// Registers all nodes that have joined since the last pass, together.
    async fn open(&mut self, joined: Vec<(&mut NodeClaim, &Node)>) {
        let mut batch = Vec::new();
        for (claim, node) in joined {
            let noted = self.note_expected(claim).await;
            match noted.and(self.type_labels(claim).await) {
                Ok(type_labels) => {
                    let change = register::registration(claim, node, type_labels);
                    batch.push(Joined { claim, node, change });
                }
                Err(error) => self.cannot_go_on(&claim.name, &error),
            }
        }
        if batch.is_empty() {
            return;
        }
        for (claim, result) in opening::open(self.ports, batch).await {
            match result {
                Ok(()) => {
                    self.summary.waiting.insert(claim.clone(), "its node to be ready".to_owned());
                    self.summary.registered.push(claim);
                }
                Err(error) => self.cannot_go_on(&claim, &error),
            }
        }
    }

    /// Takes one claim as far as its nodes allow; [`Tick::open`] has seen to those whose node is to be registered.
    async fn advance(&mut self, claim: &mut NodeClaim, nodes: &[&Node]) -> Result<(), TickError> {
        self.measure(claim, nodes).await?;
        let waits_for = match (claim.state, nodes) {
            (ClaimState::Intent, _) => Some("its launch".to_owned()),
            (ClaimState::Initialized, [node]) => {
                self.keep(claim, node).await?;
                None
            }
            (ClaimState::Initialized, _) => None,
            (_, []) => {
                // A node that joins without the gate is open at once, so its pods must know it beforehand.
                if self.nominated.insert(claim.name.clone()) {
                    opening::nominate(self.ports, claim).await;
                }
                Some("its node to join".to_owned())
            }
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

    /// A node that lost our finalizer, or was registered before there was one, gets it; one with soft taints of an earlier
    /// version loses them.
    async fn keep(&self, claim: &NodeClaim, node: &Node) -> Result<(), TickError> {
        if node.deleting {
            return Ok(());
        }
        let is_named = node.annotations.get(labels::CLAIM) == Some(&claim.name);
        if !(node.has_our_finalizer() && is_named) || register::is_opening(node) {
            let annotations = BTreeMap::from([(labels::CLAIM.to_owned(), claim.name.clone())]);
            let taints = register::opened(node).taints;
            let change = NodeChange { annotations, taints, ..register::ours(node) };
            self.ports.cluster.change_node(&change).await?;
        }
        Ok(())
    }

    /// The labels of the claim's instance type, as pods may select them; none for a type that the catalogue lacks.
    async fn type_labels(&mut self, claim: &NodeClaim) -> Result<BTreeMap<String, String>, TickError> {
        let catalog = self.catalog().await?;
        let entry = claim.instance.as_ref().and_then(|instance| catalog.entry(&instance.instance_type));
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
        if let Some(why) = register::not_initialized(claim, node) {
            // Every node that becomes ready before this one may have cost its pods their nominations.
            opening::nominate(self.ports, claim).await;
            return Ok(Some(why));
        }
        self.ports.cluster.change_node(&register::initialization(node)).await?;
        claim.state = ClaimState::Initialized;
        claim.initialized_at = Some(self.ports.now());
        *claim = self.ports.ledger.update_claim(claim, None).await?;
        self.summary.initialized.push(claim.name.clone());
        self.learn(claim, node).await?;
        tracing::info!(claim = claim.name, node = node.name, "initialised");
        Ok(None)
    }
}
