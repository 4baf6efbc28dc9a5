//! Static pods: what each node of a class runs by itself, so that planned pods cannot have its
//! room.
//!
//! Nodes show better than files what the next one will run: a hook may write a manifest that nobody
//! can read. Of each static pod counts the most that a ready node of the class shows. What the
//! class says of others counts until a node that is ready and has settled shows none of them.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_model::pod::HostPort;
use outrigger_model::{Node, NodeClaim, NodeClassRef, Pod, PodRef, Resources, Snapshot, StaticPod};

/// A node that is older shows all that it runs.
const SETTLED_AFTER: Duration = Duration::from_mins(2);

/// What a static pod takes of each node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// What it asks for.
    pub requests: Resources,
    /// The ports of the node that it takes.
    pub host_ports: Vec<HostPort>,
}

/// The static pods of a class, by name.
type OfClass = BTreeMap<PodRef, Taken>;

/// The static pods of all classes.
#[derive(Debug)]
pub struct StaticPods<'a> {
    snapshot: &'a Snapshot,
    groups: Groups<'a>,
    of_class: BTreeMap<&'a NodeClassRef, OfClass>,
}

impl<'a> StaticPods<'a> {
    /// What classes say and nodes show.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let groups = Groups::new(snapshot);
        let mut of_class: BTreeMap<&NodeClassRef, OfClass> = BTreeMap::new();
        for offer in &snapshot.classes {
            let said = offer.class.static_pods.iter().flatten();
            let said: OfClass = said.map(|pod| (pod.id.clone(), Taken::by(pod))).collect();
            if !said.is_empty() {
                of_class.insert(&offer.class.reference, said);
            }
        }
        let mut shown: BTreeMap<&str, Vec<StaticPod>> = BTreeMap::new();
        for pod in &snapshot.pods {
            let (Some(node), Some(mirrored)) = (pod.node_name.as_deref(), StaticPod::shown_by(pod)) else {
                continue;
            };
            shown.entry(node).or_default().push(mirrored);
        }
        if !of_class.is_empty() || !shown.is_empty() {
            for (class, seen) in seen(snapshot, &groups, &shown) {
                let expected = of_class.entry(class).or_default();
                expected.retain(|id, _| !seen.has_settled || seen.pods.contains_key(id));
                expected.extend(seen.pods);
            }
        }
        of_class.retain(|_, pods| !pods.is_empty());
        Self { snapshot, groups, of_class }
    }

    /// What each new node of a class will run.
    pub fn of_class(&self, class: &NodeClassRef) -> impl Iterator<Item = &Taken> {
        self.of_class.get(class).into_iter().flat_map(BTreeMap::values)
    }

    /// What a node of ours that has not settled will run and does not show yet.
    pub fn to_come(&self, node: &Node, claim: Option<&NodeClaim>, pods: &[&Pod]) -> Vec<&Taken> {
        let is_ours = claim.is_some() || node.node_pool().is_some();
        if self.of_class.is_empty() || !is_ours || (node.is_initialized() && has_settled(self.snapshot, node))
        {
            return Vec::new();
        }
        let class = claim.map(|claim| &claim.spec.node_class).or_else(|| self.groups.class_of(node));
        let Some(of_class) = class.and_then(|class| self.of_class.get(class)) else { return Vec::new() };
        let shows = |id: &PodRef| {
            pods.iter().any(|pod| StaticPod::shown_by(pod).is_some_and(|shown| shown.id == *id))
        };
        of_class.iter().filter(|(id, _)| !shows(id)).map(|(_, taken)| taken).collect()
    }
}

impl Taken {
    fn by(pod: &StaticPod) -> Self {
        Self { requests: pod.spec.requests.clone(), host_ports: pod.spec.host_ports.clone() }
    }

    /// What it takes where it takes most.
    fn raise_to(&mut self, other: Self) {
        self.requests.raise_to(&other.requests);
        let new = other.host_ports.into_iter().filter(|port| !self.host_ports.contains(port));
        self.host_ports.extend(new.collect::<Vec<_>>());
    }
}

/// What ready nodes of a class show.
#[derive(Default)]
struct Seen {
    pods: OfClass,
    /// Whether one of them has settled, so that what it does not show is not there.
    has_settled: bool,
}

fn seen<'a>(
    snapshot: &Snapshot,
    groups: &Groups<'a>,
    shown: &BTreeMap<&str, Vec<StaticPod>>,
) -> BTreeMap<&'a NodeClassRef, Seen> {
    let mut by_class: BTreeMap<&NodeClassRef, Seen> = BTreeMap::new();
    for node in snapshot.nodes.iter().filter(|node| node.ready && !node.deleting) {
        let Some(class) = groups.class_of(node) else { continue };
        let seen = by_class.entry(class).or_default();
        let is_started = node.node_pool().is_none() || node.is_initialized();
        seen.has_settled |= is_started && has_settled(snapshot, node);
        for pod in shown.get(node.name.as_str()).into_iter().flatten() {
            let taken = Taken::by(pod);
            let most = seen.pods.entry(pod.id.clone()).or_default();
            most.raise_to(taken);
        }
    }
    by_class
}

fn has_settled(snapshot: &Snapshot, node: &Node) -> bool {
    let age = Duration::try_from(snapshot.taken_at.duration_since(node.created_at)).unwrap_or_default();
    age >= SETTLED_AFTER
}

/// By which labels nodes tell their class.
#[derive(Debug)]
struct Groups<'a> {
    /// For each label that names classes of some kind, the classes by name.
    by_label: BTreeMap<String, BTreeMap<&'a str, &'a NodeClassRef>>,
    of_pool: BTreeMap<&'a str, &'a NodeClassRef>,
}

impl<'a> Groups<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        let mut by_label: BTreeMap<String, BTreeMap<&str, &NodeClassRef>> = BTreeMap::new();
        for class in snapshot.classes.iter().map(|offer| &offer.class.reference) {
            by_label.entry(class.label()).or_default().insert(&class.name, class);
        }
        let pools = snapshot.node_pools.iter();
        Self { by_label, of_pool: pools.map(|pool| (pool.name.as_str(), pool.node_class())).collect() }
    }

    /// The class of a node, whoever launched it: kOps labels each node of an InstanceGroup.
    fn class_of(&self, node: &Node) -> Option<&'a NodeClassRef> {
        let mut by_label = self.by_label.iter().filter_map(|(key, classes)| {
            let name = node.labels.get(key)?;
            classes.get(name.as_str()).copied()
        });
        by_label.next().or_else(|| self.of_pool.get(node.node_pool()?).copied())
    }
}
