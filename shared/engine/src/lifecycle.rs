//! The lifecycle tick: launched claims -> registered nodes -> nodes ready for pods, and the mirror that kubectl shows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_catalog::Catalog;
use outrigger_model::{ClaimState, Node, NodeClaim};
use serde::Serialize;
use tokio::time::Instant;

use crate::TickError;
use crate::keeper::Keeper;
use crate::observe::chain;
use crate::opening::{self, Joined};
use crate::ports::{ClusterError, Ports};
use crate::register;

/// The name of the function and of its lease.
pub const FUNCTION: &str = "lifecycle";
/// How often nodes are looked at while claims wait for them.
const PAUSE: Duration = Duration::from_secs(2);
/// After this a node that has not joined is said to be late (Karpenter's registrationTimeout).
const REGISTRATION_TIMEOUT: Duration = Duration::from_mins(15);

/// How a tick behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who we are, for the lease: new for every invocation.
    pub owner: String,
    /// How long the tick goes on looking while claims wait for their nodes; zero looks once.
    pub window: Duration,
}

/// What a tick did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Whether another function held the lease, so that this one did nothing.
    pub held_elsewhere: bool,
    /// Claims whose nodes were registered.
    pub registered: Vec<String>,
    /// Claims whose nodes became ready for pods.
    pub initialized: Vec<String>,
    /// Claims that still wait, and for what.
    pub waiting: BTreeMap<String, String>,
}

/// One tick. It ends as soon as no claim waits for anything, and never later than its window or `deadline`.
pub async fn tick(ports: Ports<'_>, settings: &Settings, deadline: Instant) -> Result<Summary, TickError> {
    let Some(mut keeper) = Keeper::take(ports, FUNCTION, &settings.owner).await? else {
        return Ok(Summary { held_elsewhere: true, ..Summary::default() });
    };
    let mut tick = Tick {
        ports,
        summary: Summary::default(),
        mirrored: None,
        catalog: None,
        nominated: BTreeSet::new(),
    };
    let result = tick.run(&mut keeper, deadline.min(Instant::now() + settings.window)).await;
    keeper.give_back(ports).await;
    result.map(|()| tick.summary)
}

struct Tick<'a> {
    ports: Ports<'a>,
    summary: Summary,
    /// The version of each claim that its NodeClaim object shows; `None` until it was read.
    mirrored: Option<BTreeMap<String, u64>>,
    /// Read when the first node is registered.
    catalog: Option<Catalog>,
    /// Claims whose pods were nominated before their node has joined.
    nominated: BTreeSet<String>,
}

impl Tick<'_> {
    async fn run(&mut self, keeper: &mut Keeper, ends_at: Instant) -> Result<(), TickError> {
        loop {
            keeper.keep(self.ports).await?;
            let waiting = self.pass().await?;
            if !waiting || Instant::now() + PAUSE >= ends_at {
                return Ok(());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Looks at every claim once; says whether any still waits.
    async fn pass(&mut self) -> Result<bool, TickError> {
        let mut claims = self.ports.ledger.load().await?.claims;
        self.summary.waiting.clear();
        if claims.iter().any(is_young) {
            let nodes = self.ports.cluster.nodes().await?;
            let by_instance = index(&nodes);
            let mut joined = Vec::new();
            let mut others = Vec::new();
            for claim in claims.iter_mut().filter(|claim| is_young(claim)) {
                let on = claim.instance_id().and_then(|id| by_instance.get(id)).cloned().unwrap_or_default();
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
        self.mirror(claims).await;
        Ok(!self.summary.waiting.is_empty())
    }

    /// Registers all nodes that have joined since the last pass, together.
    async fn open(&mut self, joined: Vec<(&mut NodeClaim, &Node)>) {
        let mut batch = Vec::new();
        for (claim, node) in joined {
            match self.type_labels(claim).await {
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

    /// A claim that cannot go on must not hold up the others.
    fn cannot_go_on(&mut self, claim: &str, error: &TickError) {
        tracing::warn!(claim, error = chain(error), "the claim could not go on");
        self.summary.waiting.insert(claim.to_owned(), chain(error));
    }

    /// Takes one claim as far as its nodes allow; [`Tick::open`] has seen to those whose node is to be registered.
    async fn advance(&mut self, claim: &mut NodeClaim, nodes: &[&Node]) -> Result<(), TickError> {
        let waits_for = match (claim.state, nodes) {
            (ClaimState::Intent, _) => Some("its launch".to_owned()),
            (_, []) => {
                // A node that joins without the gate is open at once, so its pods must know it beforehand.
                if self.nominated.insert(claim.name.clone()) {
                    opening::nominate(self.ports, claim).await;
                }
                self.say_when_late(claim).await?;
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

    /// The labels of the claim's instance type, as pods may select them; none for a type that the catalogue lacks.
    async fn type_labels(&mut self, claim: &NodeClaim) -> Result<BTreeMap<String, String>, TickError> {
        let catalog = match self.catalog.take() {
            Some(catalog) => catalog,
            None => self.ports.cloud.catalog().await?,
        };
        let catalog = self.catalog.insert(catalog);
        let entry = claim.instance.as_ref().and_then(|instance| catalog.entry(&instance.instance_type));
        Ok(entry.map(|entry| outrigger_catalog::labels::of(&entry.facts)).unwrap_or_default())
    }

    async fn initialize(&mut self, claim: &mut NodeClaim, node: &Node) -> Result<Option<String>, TickError> {
        if let Some(why) = register::not_initialized(claim, node) {
            // Every node that becomes ready before this one may have cost its pods their nominations.
            opening::nominate(self.ports, claim).await;
            return Ok(Some(why));
        }
        self.ports.cluster.change_node(&register::initialization(node)).await?;
        claim.state = ClaimState::Initialized;
        claim.initialized_at = Some(self.ports.clock.now());
        *claim = self.ports.ledger.update_claim(claim).await?;
        self.summary.initialized.push(claim.name.clone());
        tracing::info!(claim = claim.name, node = node.name, "initialised");
        Ok(None)
    }

    async fn say_when_late(&self, claim: &mut NodeClaim) -> Result<(), TickError> {
        let since = claim.launched_at.unwrap_or(claim.created_at);
        let age = self.ports.clock.now().duration_since(since).unsigned_abs();
        if age < REGISTRATION_TIMEOUT || claim.last_error.is_some() {
            return Ok(());
        }
        tracing::error!(
            claim = claim.name,
            instance = claim.instance_id(),
            "the node has not joined in 15 minutes"
        );
        claim.last_error = Some("its node has not joined in 15 minutes".into());
        *claim = self.ports.ledger.update_claim(claim).await?;
        Ok(())
    }

    /// Makes the NodeClaim objects say what the ledger says. They are for people: when it fails, the claims go on and the
    /// next pass tries again.
    async fn mirror(&mut self, claims: Vec<NodeClaim>) {
        if let Err(error) = self.try_mirror(claims).await {
            tracing::warn!(error = chain(&error), "the NodeClaim objects are not up to date");
            self.mirrored = None;
        }
    }

    async fn try_mirror(&mut self, claims: Vec<NodeClaim>) -> Result<(), ClusterError> {
        let mut shown = match self.mirrored.take() {
            Some(shown) => shown,
            None => self.ports.cluster.mirrors().await?,
        };
        let claims: BTreeMap<_, _> = claims.into_iter().map(|claim| (claim.name.clone(), claim)).collect();
        for claim in claims.values().filter(|claim| claim.state != ClaimState::Intent) {
            if shown.get(&claim.name) != Some(&claim.version) {
                self.ports.cluster.mirror_claim(claim).await?;
                shown.insert(claim.name.clone(), claim.version);
            }
        }
        let over: Vec<_> = shown.keys().filter(|name| !claims.contains_key(*name)).cloned().collect();
        for name in over {
            self.ports.cluster.remove_mirror(&name).await?;
            shown.remove(&name);
        }
        self.mirrored = Some(shown);
        Ok(())
    }
}

fn is_young(claim: &NodeClaim) -> bool {
    claim.state <= ClaimState::Registered
}

/// Nodes by instance id; a providerID that two nodes carry leads to both.
fn index(nodes: &[Node]) -> BTreeMap<&str, Vec<&Node>> {
    let mut by_instance: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in nodes {
        if let Some(id) = node.instance_id() {
            by_instance.entry(id).or_default().push(node);
        }
    }
    by_instance
}
