//! Ports -> Snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::Arc;

use outrigger_catalog::Catalog;
use outrigger_model::volume::claims_to_know;
use outrigger_model::{
    ClassOffer, InstanceType, NodeClass, NodeClassRef, PodRef, SeenMemory, Snapshot, VolumeClaim,
};

use crate::addresses::leave_usable;
use crate::health;
use crate::learning;
use crate::leaving;
use crate::ports::{ClassSource, ClusterError, ClusterState, Configuration, LedgerState, Ports, Volumes};
use crate::provision::Settings;

/// What is the same for every snapshot of a tick: the catalogue, and what it is for each class.
pub(crate) struct Offers {
    catalog: Catalog,
    seen_memory: Vec<SeenMemory>,
    resolved: BTreeMap<NodeClassRef, ClassOffer>,
}

impl Offers {
    pub(crate) const fn new(catalog: Catalog) -> Self {
        Self { catalog, seen_memory: Vec::new(), resolved: BTreeMap::new() }
    }

    /// Takes in what nodes have taught about the memory of their types.
    fn learn(&mut self, seen_memory: Vec<SeenMemory>) {
        if self.seen_memory != seen_memory {
            self.seen_memory = seen_memory;
            self.resolved.clear();
        }
    }

    /// The class with its instance types; computing them is kept for as long as the class stays the same.
    fn offer(&mut self, class: NodeClass) -> ClassOffer {
        match self.resolved.get(&class.reference) {
            Some(known) if known.class == class => known.clone(),
            _ => {
                let instance_types = self.shared(&class).unwrap_or_else(|| {
                    let types = self.catalog.instance_types(&class);
                    learning::corrected(types, &class, &self.seen_memory)
                });
                let offer = ClassOffer { class, instance_types };
                self.resolved.insert(offer.class.reference.clone(), offer.clone());
                offer
            }
        }
    }

    /// The list of another class under whose rules the catalogue comes out the same.
    fn shared(&self, class: &NodeClass) -> Option<Arc<Vec<InstanceType>>> {
        let same = |other: &NodeClass| {
            other.kubelet == class.kubelet
                && other.requirements == class.requirements
                && other.root_volume == class.root_volume
                && other.images == class.images
                && other.subnets == class.subnets
        };
        self.resolved.values().find(|offer| same(&offer.class)).map(|offer| Arc::clone(&offer.instance_types))
    }
}

/// Puts together what a decision may use. The ledger's state was loaded before `state` was last brought up to date, so
/// that a node can be missing from the cluster's side only while its claim is still in the ledger's.
pub(crate) async fn snapshot(
    ports: Ports<'_>,
    settings: &Settings,
    ledger: LedgerState,
    state: &ClusterState,
    offers: &mut Offers,
) -> Result<Snapshot, ClusterError> {
    let configuration = ports.cluster.configuration().await?;
    for problem in &configuration.invalid {
        tracing::warn!(%problem, "refused; the others go on without it");
    }
    let mut snapshot = Snapshot::empty(&settings.cluster, ports.now());
    snapshot.max_new_nodes_per_minute = Some(settings.max_new_nodes_per_minute);
    let closed = health::closed_subnets(&ledger.health, snapshot.taken_at);
    offers.learn(ledger.seen_memory);
    for reference in references(&configuration) {
        let class = resolve(ports, &configuration, reference).await;
        let mut offer = offers.offer(class);
        leave_usable(&mut offer.class, &closed, (&ledger.claims, &ledger.intents), snapshot.taken_at);
        snapshot.classes.push(offer);
    }
    snapshot.paused = health::paused(&ledger.health, snapshot.taken_at);
    snapshot.probing = health::probing(&ledger.health, snapshot.taken_at);
    snapshot.quarantined = health::quarantined(&ledger.health, snapshot.taken_at);
    snapshot.generation = ledger.generation;
    snapshot.claims = ledger.claims;
    snapshot.commands = ledger.commands;
    snapshot.unavailable = ledger.unavailable;
    snapshot.node_pools = configuration.node_pools;
    snapshot.invalid = configuration.invalid;
    snapshot.overlays = configuration.overlays;
    snapshot.buffers = configuration.buffers;
    snapshot.nodes = state.nodes.values().cloned().collect();
    snapshot.pods = state.pods.values().cloned().collect();
    snapshot.daemon_sets.clone_from(&state.daemon_sets);
    leaving::mark(ports, &mut snapshot).await?;
    add_volumes(ports, &mut snapshot).await?;
    if snapshot.pods.iter().any(|pod| pod.spec.selects_namespaces()) {
        snapshot.namespaces = ports.cluster.namespaces().await?;
    }
    Ok(snapshot)
}

/// Volumes are looked at only while a pod that waits for a node mounts one: most clusters never pay for them. A right
/// that is missing concerns the pods with volumes alone, and the others go on.
async fn add_volumes(ports: Ports<'_>, snapshot: &mut Snapshot) -> Result<(), ClusterError> {
    let mounted = claims_to_know(snapshot.pods.iter());
    if mounted.is_empty() {
        return Ok(());
    }
    let volumes = match ports.cluster.volumes(&mounted).await {
        Err(error @ ClusterError::Refused { status: 403, .. }) => unusable(mounted, &error),
        answer => answer?,
    };
    put_volumes(snapshot, volumes);
    Ok(())
}

/// What stands for volumes that could not be read: their pods wait, or are left to kube-scheduler.
pub(crate) fn unusable(mounted: BTreeSet<PodRef>, error: &ClusterError) -> Volumes {
    let why = chain(error);
    tracing::warn!(error = why, "nothing is decided for pods with volumes");
    let claims = mounted.into_iter().map(|id| VolumeClaim::unusable(id, &why)).collect();
    Volumes { claims, limits: BTreeMap::new() }
}

pub(crate) fn put_volumes(snapshot: &mut Snapshot, mut volumes: Volumes) {
    for node in &mut snapshot.nodes {
        node.volume_limits = volumes.limits.remove(&node.name).unwrap_or_default();
    }
    snapshot.volume_claims = volumes.claims;
}

fn references(configuration: &Configuration) -> Vec<NodeClassRef> {
    let mut references: Vec<_> =
        configuration.node_pools.iter().map(|pool| pool.node_class().clone()).collect();
    references.sort();
    references.dedup();
    references
}

/// A class that cannot be resolved keeps its pools from launching and lets the others go on.
async fn resolve(ports: Ports<'_>, configuration: &Configuration, reference: NodeClassRef) -> NodeClass {
    let not_ready =
        |why: String| NodeClass { not_ready: Some(why), ..NodeClass::for_planning(reference.clone()) };
    let source = if reference.is_instance_group() {
        ClassSource::InstanceGroup(reference.name.clone())
    } else {
        let found = configuration.ec2_node_classes.iter().find(|class| class.name == reference.name);
        match found {
            Some(class) => ClassSource::Ec2(Box::new(class.clone())),
            None => return not_ready(format!("there is no valid {reference}")),
        }
    };
    match ports.cloud.resolve_class(&source).await {
        Ok(class) => class,
        Err(error) => {
            let why = chain(&error);
            tracing::warn!(class = %reference, error = why, "the node class could not be resolved");
            not_ready(why)
        }
    }
}

/// An error and its causes in one line. Some errors of AWS's SDK say what their cause says once more; it is told once.
pub fn chain(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    let mut words: Vec<String> = causes.map(ToString::to_string).collect();
    words.dedup();
    words.join(": ")
}
