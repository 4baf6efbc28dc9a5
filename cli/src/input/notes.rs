//! What people should know of what was read: what is missing in it though it matters, what is not
//! read, and what can hardly be meant.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_kubernetes::Dump;
use outrigger_model::resources::{CPU, MEMORY, NODES};
use outrigger_model::{
    DaemonSet, InstanceType, NodePool, Pod, Quantity, Requirements, Resources, Snapshot, labels,
};

use crate::args::Source;
use crate::output::{count, names};

/// What is said where files have pods with volumes, and nothing about these.
pub(crate) const UNKNOWN_VOLUMES: &str = "pods mount volumes, of which the files say nothing; \
     add persistentvolumeclaims, persistentvolumes, storageclasses and csinodes to what kubectl gets";

/// The kinds that a decision is made from.
const KINDS: [&str; 20] = [
    "CSINode",
    "CapacityBuffer",
    "Cluster",
    "DaemonSet",
    "Deployment",
    "EC2NodeClass",
    "InstanceGroup",
    "Lease",
    "Namespace",
    "Node",
    "NodeClaim",
    "NodeOverlay",
    "NodePool",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodDisruptionBudget",
    "PodTemplate",
    "StatefulSet",
    "StorageClass",
];
/// What `outrigger import` makes into today's kinds.
const KARPENTERS_FORMER: [&str; 3] = ["AWSNodeTemplate", "Machine", "Provisioner"];
/// So many letters may be wrong in a kind that is meant to be another.
const LETTERS_WRONG: usize = 2;
/// No container lives on less memory.
const LEAST_MEMORY: Quantity = Quantity::units(1_024);

/// What the objects leave open or hold in vain.
pub(super) fn of_dump(dump: &Dump, source: &Source) -> Vec<String> {
    let mut notes = Vec::new();
    if !dump.volume_claims.is_empty() && !dump.has_volume_claims {
        notes.push(UNKNOWN_VOLUMES.to_owned());
    }
    let selecting = dump.ec2_node_classes.iter().filter(|class| {
        source.catalog.is_none() && !class.spec.capacity_reservation_selector_terms.is_empty()
    });
    notes.extend(selecting.map(|class| {
        format!(
            "EC2NodeClass/{}: its capacity reservations are in the account, and no file says what room they have; they \
             are left out",
            class.name
        )
    }));
    notes.extend(dump.other.iter().filter_map(|(kind, number)| not_read(kind, *number)));
    notes
}

/// What is said of a kind that is not read, where somebody may think that it is.
fn not_read(kind: &str, number: usize) -> Option<String> {
    let (name, group) = kind.split_once('.').unwrap_or((kind, ""));
    let what = format!("{} of the kind {kind} not read", count(number, "object"));
    if KARPENTERS_FORMER.contains(&name) {
        return Some(format!("{what}; outrigger import makes NodePools of Provisioners"));
    }
    if KINDS.contains(&name) {
        return None;
    }
    let wrong = |known: &str| strsim::levenshtein(&known.to_lowercase(), &name.to_lowercase());
    let alike = KINDS.into_iter().filter(|known| wrong(known) <= LETTERS_WRONG);
    if let Some(meant) = alike.min_by_key(|known| wrong(known)) {
        return Some(format!("{what}; did you mean {meant}?"));
    }
    let is_ours = [labels::KARPENTER_DOMAIN, labels::EC2_GROUP, labels::KOPS_GROUP].contains(&group);
    is_ours.then_some(what)
}

/// What can hardly be meant in what was read.
pub(super) fn of_snapshot(snapshot: &Snapshot) -> Vec<String> {
    let mut notes = unknown_limits(snapshot);
    notes.extend(little_memory(snapshot));
    notes.extend(on_unknown_nodes(snapshot));
    notes.extend(too_large(snapshot));
    notes
}

/// Limits on what no node has hold nothing back. An extended resource may be on nodes that no file
/// shows.
fn unknown_limits(snapshot: &Snapshot) -> Vec<String> {
    let types = snapshot.classes.iter().flat_map(|offer| offer.instance_types.iter());
    let mut counted: BTreeSet<&str> =
        types.flat_map(|kind| kind.counted().iter().map(|(name, _)| name)).collect();
    counted.extend([CPU, MEMORY, NODES]);
    let plain: Vec<&str> = counted.iter().copied().filter(|name| !name.contains('/')).collect();
    let mut notes = Vec::new();
    for pool in &snapshot.node_pools {
        let limited = pool.spec.limits.iter().flat_map(Resources::iter).map(|(name, _)| name);
        let unknown = limited.filter(|name| !counted.contains(name) && !name.contains('/'));
        notes.extend(unknown.map(|name| unknown_limit(pool, name, &plain)));
    }
    notes
}

fn unknown_limit(pool: &NodePool, name: &str, nodes_have: &[&str]) -> String {
    let nodes_have = nodes_have.join(", ");
    format!(
        "NodePool/{}: spec.limits.{name} limits nothing, since no node has {name}; nodes have {nodes_have}",
        pool.name
    )
}

/// `512m` of memory is half a byte.
fn little_memory(snapshot: &Snapshot) -> Option<String> {
    let is_little = |pod: &&Pod| {
        let memory = pod.spec.requests.get(MEMORY);
        memory > Quantity::default() && memory < LEAST_MEMORY && !pod.state.is_over()
    };
    let pods: Vec<_> = snapshot.pods.iter().filter(is_little).map(|pod| &pod.id).collect();
    let first = snapshot.pods.iter().find(is_little)?;
    let (number, memory) = (count(pods.len(), "pod"), first.spec.requests.get(MEMORY));
    let which = names(&pods);
    Some(format!(
        "{which}: {number} with less than 1Ki of memory, as {memory}; m is a thousandth, Mi a mebibyte"
    ))
}

/// Pods on nodes that nobody has shown count nowhere.
fn on_unknown_nodes(snapshot: &Snapshot) -> Option<String> {
    let known: BTreeSet<&str> = snapshot.nodes.iter().map(|node| node.name.as_str()).collect();
    let mut unknown: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| !pod.state.is_over()) {
        let node = pod.node_name.as_deref().filter(|node| !known.contains(node));
        if let Some(node) = node {
            *unknown.entry(node).or_default() += 1;
        }
    }
    let pods = count(unknown.values().sum(), "pod");
    let nodes: Vec<&str> = unknown.into_keys().collect();
    let note = || format!("{pods} on nodes that are not among the objects count nowhere: {}", names(&nodes));
    (!nodes.is_empty()).then(note)
}

/// Daemonsets whose pods no instance type of a NodePool has room for.
fn too_large(snapshot: &Snapshot) -> Vec<String> {
    let types: Vec<&InstanceType> =
        snapshot.node_pools.iter().flat_map(|pool| types_of(snapshot, pool)).collect();
    let fits = |set: &DaemonSet| types.iter().any(|kind| set.spec.requests.fit(&kind.allocatable));
    let large = snapshot.daemon_sets.iter().filter(|set| !types.is_empty() && !fits(set));
    let note = |set: &DaemonSet| {
        let requests = &set.spec.requests;
        format!(
            "DaemonSet/{}: no instance type of a NodePool has room for its pods, which ask for {requests}",
            set.id
        )
    };
    large.map(note).collect()
}

/// The instance types that a NodePool allows.
fn types_of<'s>(snapshot: &'s Snapshot, pool: &NodePool) -> impl Iterator<Item = &'s InstanceType> {
    let (wanted, class) = (pool.requirements(), pool.node_class().clone());
    let offers = snapshot.classes.iter().filter(move |offer| offer.class.reference == class);
    let types = offers.flat_map(|offer| offer.instance_types.iter());
    types.filter(move |kind| !wanted.contradict(&Requirements::from_labels(&kind.labels)))
}
