//! Claims on their way to being ready for pods: what makes a node that has joined the node of its
//! claim, and whether it is ready.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use futures::{FutureExt, StreamExt};
use jiff::{SignedDuration, Timestamp};
use outrigger_catalog::Catalog;
use outrigger_model::resources::NODES;
use outrigger_model::{
    ClaimState, Command, Node, NodeClaim, Quantity, Resources, Taint, TaintEffect, labels,
};
use outrigger_policy::leaving::replacement;

use super::placing::Placing;
use super::tick::Tick;
use crate::TickError;
use crate::claim::change::{self, ours, unchanged};
use crate::claim::index::Nodes;
use crate::claim::placing::{self, opened};
use crate::guards::Guard;
use crate::ports::{NodeChange, Ports};

/// By then whether a node served the pods that it was bought for has long been judged.
const PODS_FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_mins(30);
/// How many changes of nodes are on their way at once.
const CONCURRENT_CALLS: usize = 16;

impl Tick<'_> {
    /// Takes every claim that is not ready yet as far as its nodes allow.
    pub(crate) async fn start(&mut self, claims: &mut [NodeClaim], commands: &[Command], nodes: &Nodes<'_>) {
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
        self.place_pods(closed).await;
        for (claim, on) in others {
            if let Err(error) = self.advance(claim, on).await {
                self.report_stuck_claim(&claim.name, &error);
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
                Err(error) => self.report_stuck_claim(&claim.name, &error),
            }
        }
        let results: Vec<_> = futures::stream::iter(registering).buffered(CONCURRENT_CALLS).collect().await;
        for (claim, result) in results {
            match result {
                Ok(()) => {
                    self.summary.waiting.insert(claim.clone(), "its node to be ready".to_owned());
                    self.summary.registered.push(claim);
                }
                Err(error) => self.report_stuck_claim(&claim, &error),
            }
        }
    }

    /// Takes one claim as far as its nodes allow; nodes that are to be registered or are closed
    /// have been seen to.
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

    /// A node that lost our finalizer, or was registered before there was one, gets it; one that
    /// still has the soft taints with which an earlier version opened nodes loses them.
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

    /// The pods that a node was bought for run on it by now, or are planned for anew: a claim
    /// forgets their names, with which it would only grow.
    async fn forget_pods(&self, claim: &mut NodeClaim) -> Result<(), TickError> {
        let is_old = |since: Timestamp| self.ports.now().duration_since(since) >= PODS_FORGOTTEN_AFTER;
        if !claim.status.nominated.is_empty() && claim.status.initialized_at.is_some_and(is_old) {
            let next = claim.clone().with_status(|status| status.nominated.clear());
            *claim = self.ports.ledger.update_claim(&next, None).await?;
        }
        Ok(())
    }

    /// The labels of the claim's instance type, as pods may select them; none for a type that the
    /// catalogue lacks.
    async fn type_labels(&mut self, claim: &NodeClaim) -> Result<BTreeMap<String, String>, TickError> {
        let catalog = self.catalog().await?;
        let entry =
            claim.status.instance.as_ref().and_then(|instance| catalog.entry(&instance.instance_type));
        Ok(entry.map(|entry| outrigger_catalog::labels::labels_of(&entry.facts)).unwrap_or_default())
    }

    pub(crate) async fn catalog(&mut self) -> Result<&Catalog, TickError> {
        let catalog = match self.catalog.take() {
            Some(catalog) => catalog,
            None => self.ports.cloud.catalog().await?,
        };
        Ok(self.catalog.insert(catalog))
    }

    async fn initialize(&mut self, claim: &mut NodeClaim, node: &Node) -> Result<Option<String>, TickError> {
        if let Some(why) = not_initialized(claim, node) {
            return Ok(Some(why.to_string()));
        }
        self.tell_of_refusals(claim, node).await;
        self.ports.cluster.change_node(&initialization(node)).await?;
        claim.status.state = ClaimState::Initialized;
        claim.status.initialized_at = Some(self.ports.now());
        *claim = self.ports.ledger.update_claim(claim, None).await?;
        self.summary.initialized.push(claim.name.clone());
        self.learn(claim, node).await?;
        tracing::info!(claim = claim.name, node = node.name, "initialised");
        Ok(None)
    }
}

/// What a node offers, and what it was planned with and does not show yet: devices are announced a
/// little later.
fn with_announced(offered: &Resources, promised: &Resources) -> Resources {
    let mut expected = offered.clone();
    let missing = promised.iter().filter(|(name, _)| offered.get(name).is_zero());
    missing.for_each(|(name, amount)| expected.set(name, amount));
    expected
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
    // Without the lease: nodes are registered many at a time, and the version alone keeps two
    // writers apart.
    *claim = ports.ledger.update_claim(claim, None).await?;
    if !is_closed {
        // It joined without the gate and is open to all: kube-scheduler can only be told whom it is
        // for.
        placing::nominate(ports, &placing::nominations(claim, &node.name)).await;
    }
    tracing::info!(claim = claim.name, node = node.name, "registered");
    Ok(())
}

/// The change that makes a node that has joined the node of its claim: labels, annotations, taints
/// (Karpenter `nodeclaim/lifecycle/registration.go`). Where the taint `karpenter.sh/unregistered`
/// was, there is the one that keeps other pods away until the planned ones are bound. The user's
/// labels win over those of the instance type.
pub(crate) fn registration(
    claim: &NodeClaim,
    node: &Node,
    type_labels: BTreeMap<String, String>,
) -> NodeChange {
    let mut node_labels = type_labels;
    node_labels.extend(claim.spec.labels.clone());
    node_labels.remove(labels::HOSTNAME);
    node_labels.insert(labels::NODE_POOL.into(), claim.spec.node_pool.clone());
    node_labels.insert(labels::REGISTERED.into(), "true".into());
    if let Some(instance) = &claim.status.instance {
        node_labels.insert(labels::CAPACITY_TYPE.into(), instance.capacity_type.to_string());
        node_labels.insert(labels::INSTANCE_TYPE.into(), instance.instance_type.clone());
        node_labels.insert(labels::ZONE.into(), instance.zone.clone());
    }
    let stays = |taint: &&Taint| taint.key != labels::UNREGISTERED_TAINT && !taint.is_opening();
    let mut taints: Vec<_> = node.taints.iter().filter(stays).cloned().collect();
    let was_gated = node.taints.iter().any(|taint| taint.key == labels::UNREGISTERED_TAINT);
    if was_gated && !node.awaits_placing() {
        taints.push(Taint::placing());
    }
    // A run that died before it wrote the claim has registered the node already; what has started
    // since does not start again.
    let is_new = !node.labels.contains_key(labels::REGISTERED);
    for taint in claim.spec.taints.iter().chain(claim.spec.startup_taints.iter().filter(|_| is_new)) {
        if !taints.iter().any(|present| present.matches(taint)) {
            taints.push(taint.clone());
        }
    }
    let mut annotations = claim.spec.annotations.clone();
    annotations.insert(labels::CLAIM.into(), claim.name.clone());
    NodeChange { labels: node_labels, annotations, taints, ..ours(node) }
}

/// Why a registered node is not ready for pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    /// Its Ready condition is not true.
    NotReady,
    /// It still has a taint that something must take off first.
    Tainted(Taint),
    /// It does not offer this extended resource, which its pods ask for.
    Lacks(String),
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("its node is not Ready"),
            Self::Tainted(taint) => write!(f, "its node still has the taint {taint}"),
            Self::Lacks(resource) => write!(f, "its node does not offer {resource} yet"),
        }
    }
}

/// Why a registered node cannot run its planned pods yet, its being closed aside; `None` when it
/// can. What it offers is not looked at.
pub(crate) fn not_startable(claim: &NodeClaim, node: &Node) -> Option<Unready> {
    if !node.ready {
        return Some(Unready::NotReady);
    }
    let waits_for = |taint: &&Taint| {
        let is_its_own = claim.spec.taints.iter().any(|planned| planned.matches(taint));
        taint.key != labels::PLACING_TAINT && taint.is_ephemeral()
            || claim.spec.startup_taints.iter().any(|startup| startup.matches(taint))
            || taint.effect == TaintEffect::NoExecute && !is_its_own
    };
    node.taints.iter().find(waits_for).cloned().map(Unready::Tainted)
}

/// Why a registered node is not ready for pods yet; `None` when it is (Karpenter
/// `nodeclaim/lifecycle/initialization.go`).
pub(crate) fn not_initialized(claim: &NodeClaim, node: &Node) -> Option<Unready> {
    if !node.ready {
        return Some(Unready::NotReady);
    }
    let waits_for = |taint: &&Taint| {
        taint.is_ephemeral() || claim.spec.startup_taints.iter().any(|startup| startup.matches(taint))
    };
    if let Some(taint) = node.taints.iter().find(waits_for) {
        return Some(Unready::Tainted(taint.clone()));
    }
    let missing = claim.status.requests.iter().find(|(name, quantity)| {
        let extended = name.contains('/');
        extended && !quantity.is_zero() && node.allocatable.get(name).is_zero()
    });
    missing.map(|(name, _)| Unready::Lacks(name.to_owned()))
}

/// Whether a node is ready for pods but for being closed to those that were not planned for it.
pub(crate) fn awaits_only_pods(claim: &NodeClaim, node: &Node) -> bool {
    let opened = Node { taints: opened(node).taints, ..node.clone() };
    node.awaits_placing() && not_initialized(claim, &opened).is_none()
}

/// The change that says that a node is ready for pods.
pub(crate) fn initialization(node: &Node) -> NodeChange {
    let label = BTreeMap::from([(labels::INITIALIZED.to_owned(), "true".to_owned())]);
    NodeChange { labels: label, ..unchanged(node) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::placing;
    use outrigger_model::Resources;
    use outrigger_model::TaintEffect;
    use outrigger_model::fixtures::{claim, node};

    #[test]
    fn registration_gives_labels_and_taints_and_takes_the_gate_off() {
        let unregistered = Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
        let of_type = BTreeMap::from([
            ("karpenter.k8s.aws/instance-cpu".to_owned(), "2".to_owned()),
            ("team".to_owned(), "of the type".to_owned()),
        ]);
        let change = registration(&claim(), &node(vec![unregistered]), of_type);
        let taints: Vec<_> = change.taints.iter().map(ToString::to_string).collect();
        let expected = ["outrigger.dev/placing:NoSchedule", "dedicated=web:NoSchedule", "cni:NoSchedule"];
        assert_eq!(taints, expected);
        assert_eq!(change.resource_version, "7");
        assert_eq!(change.finalizers, ["example.com/own", labels::TERMINATION_FINALIZER]);
        assert_eq!(change.annotations[labels::CLAIM], "web-1");
        let expected = [
            ("karpenter.k8s.aws/instance-cpu", "2"),
            (labels::CAPACITY_TYPE, "spot"),
            (labels::NODE_POOL, "web"),
            (labels::REGISTERED, "true"),
            (labels::INSTANCE_TYPE, "m5.large"),
            ("team", "red"),
            (labels::ZONE, "us-east-1a"),
        ];
        let expected: BTreeMap<_, _> = expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(change.labels, expected);
    }

    #[test]
    fn a_gated_node_is_closed_until_its_pods_are_placed() {
        let gate = Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
        let planned = [claim().spec.taints, claim().spec.startup_taints].concat();
        let change = registration(&claim(), &node(vec![gate.clone()]), BTreeMap::new());
        assert_eq!(change.taints, [vec![Taint::placing()], planned.clone()].concat());
        // What a run that was killed has left is not doubled.
        let again =
            registration(&claim(), &node([vec![gate], change.taints.clone()].concat()), BTreeMap::new());
        assert_eq!(again.taints, change.taints);
        assert_eq!(placing::opened(&node(change.taints)).taints, planned);
        let open = registration(&claim(), &node(vec![]), BTreeMap::new());
        assert_eq!(open.taints, planned, "it was open before, and closing it would help nobody");
        let mut registered = node(vec![]);
        registered.labels.insert(labels::REGISTERED.into(), "true".into());
        let change = registration(&claim(), &registered, BTreeMap::new());
        assert_eq!(change.taints, claim().spec.taints, "what has started does not start again");
    }

    #[test]
    fn pods_are_placed_when_only_the_placing_holds_the_node_back() {
        let closed = |taints: Vec<Taint>| node([vec![Taint::placing()], taints].concat());
        assert_eq!(not_startable(&claim(), &closed(claim().spec.taints)), None);
        let no_gpu = Node { allocatable: Resources::new(), ..closed(vec![]) };
        assert_eq!(not_startable(&claim(), &no_gpu), None, "pods without a GPU need not wait for it");
        for (taint, word) in [
            (claim().spec.startup_taints[0].clone(), "cni"),
            (Taint::new("node.kubernetes.io/not-ready", "", TaintEffect::NoSchedule), "not-ready"),
            (Taint::new("example.com/broken", "", TaintEffect::NoExecute), "broken"),
        ] {
            assert!(
                not_startable(&claim(), &closed(vec![taint])).unwrap().to_string().contains(word),
                "{word}"
            );
        }
        assert!(awaits_only_pods(&claim(), &closed(claim().spec.taints)));
        assert!(!awaits_only_pods(&claim(), &node(vec![])), "it is open");
        assert!(
            !awaits_only_pods(&claim(), &Node { allocatable: Resources::new(), ..closed(vec![]) }),
            "no GPU"
        );
        let unready = Node { ready: false, ..closed(vec![]) };
        assert!(not_startable(&claim(), &unready).unwrap().to_string().contains("Ready"));
    }

    #[test]
    fn a_node_is_initialised_when_nothing_holds_it_back() {
        assert_eq!(not_initialized(&claim(), &node(vec![])), None);
        let startup = node(vec![Taint::new("cni", "", TaintEffect::NoSchedule)]);
        assert!(not_initialized(&claim(), &startup).unwrap().to_string().contains("cni:NoSchedule"));
        let unready = Node { ready: false, ..node(vec![]) };
        assert!(not_initialized(&claim(), &unready).unwrap().to_string().contains("Ready"));
        let no_gpu = Node { allocatable: Resources::new(), ..node(vec![]) };
        assert!(not_initialized(&claim(), &no_gpu).unwrap().to_string().contains("nvidia.com/gpu"));
    }
}
