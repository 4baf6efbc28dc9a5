//! Volumes: where a pod's PersistentVolumeClaims let it go, and how many attachments they take.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::volume::EBS_DRIVER;
use outrigger_model::{Node, Pod, PodState, Requirements, Snapshot, VolumeClaim};

/// How many combinations of its volumes' places one pod may have; the rest are not tried.
const PLACES_MAX: usize = 64;

/// The claims of a snapshot.
#[derive(Debug)]
pub struct Volumes<'a> {
    claims: BTreeMap<ClaimKey<'a>, &'a VolumeClaim>,
    /// Claims that several pods mount.
    shared: BTreeSet<ClaimKey<'a>>,
    /// For each claim that one pod alone may use, the pod that has it or is to have it next.
    users: BTreeMap<ClaimKey<'a>, &'a Pod>,
}

/// Namespace and name of a claim.
type ClaimKey<'a> = (&'a str, &'a str);

/// How a pod stands to a claim that one pod alone may use. The first in order has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// It is on a node and stays there.
    Runs,
    /// Its node is going, and its successor takes the claim over.
    Leaves,
    /// It has no node.
    Waits,
}

impl Use {
    /// `None` for a pod that has ended, and for one that ends on a node which is going: its
    /// successor is there already.
    fn by_pod(pod: &Pod, leaving_nodes: &BTreeSet<&str>) -> Option<Self> {
        let node = pod.node_name.as_deref();
        match pod.state {
            PodState::Finished | PodState::Refused => None,
            PodState::Terminating if node.is_some_and(|node| leaving_nodes.contains(node)) => None,
            PodState::Leaving => Some(Self::Leaves),
            _ if node.is_some() => Some(Self::Runs),
            _ => Some(Self::Waits),
        }
    }
}

/// What the volumes of a pod ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mounts<'a> {
    /// Alternatives of what the node must be like; one without demands when any will do.
    pub places: Vec<Requirements>,
    /// How many volumes each driver attaches.
    pub attachments: Vec<(&'a str, u32)>,
    /// Those of them that other pods mount too, by driver and handle: a node attaches them once.
    pub shared: Vec<(&'a str, &'a str)>,
}

impl Default for Mounts<'_> {
    fn default() -> Self {
        Self { places: vec![Requirements::new()], attachments: Vec::new(), shared: Vec::new() }
    }
}

impl Mounts<'_> {
    /// How many EBS volumes.
    pub fn ebs(&self) -> u32 {
        self.attachments.iter().find(|(driver, _)| *driver == EBS_DRIVER).map_or(0, |(_, count)| *count)
    }
}

impl<'a> Volumes<'a> {
    /// Looks the volumes of a snapshot up once.
    pub fn new(snapshot: &'a Snapshot) -> Self {
        let claims = snapshot.volume_claims.iter();
        let by_name = |claim: &'a VolumeClaim| ((&*claim.id.namespace, &*claim.id.name), claim);
        let claims: BTreeMap<_, _> = claims.map(by_name).collect();
        let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for pod in snapshot.pods.iter().filter(|_| !claims.is_empty()) {
            let names = pod.volume_claims.iter().map(|name| (&*pod.id.namespace, name.as_str()));
            shared.extend(names.filter(|name| !seen.insert(*name)));
        }
        let users = users(snapshot, &claims);
        Self { claims, shared, users }
    }

    /// The claims of a pod that are known.
    pub fn of_pod(&self, pod: &'a Pod) -> impl Iterator<Item = &'a VolumeClaim> {
        let names = pod.volume_claims.iter();
        names.filter_map(|name| self.claims.get(&(pod.id.namespace.as_str(), name.as_str())).copied())
    }

    /// Why the pod cannot be planned for, as Karpenter ignores pods with broken claims.
    pub fn problem(&self, pod: &'a Pod) -> Option<String> {
        pod.volume_claims.iter().find_map(|name| {
            let claim = self.claims.get(&(pod.id.namespace.as_str(), name.as_str()));
            match claim {
                None => Some(format!("PersistentVolumeClaim {}/{name}: not found", pod.id.namespace)),
                Some(claim) => claim.problem.clone().or_else(|| self.taken(claim, pod)),
            }
        })
    }

    /// Why a claim that one pod alone may use is another pod's.
    fn taken(&self, claim: &VolumeClaim, pod: &Pod) -> Option<String> {
        let user = self.users.get(&key(claim)).filter(|user| user.uid != pod.uid)?;
        let has = if user.node_name.is_some() { "has it" } else { "comes before" };
        Some(format!(
            "PersistentVolumeClaim {}: its access mode is ReadWriteOncePod, and the pod {} {has}",
            claim.id, user.id
        ))
    }

    /// Whether the data of a pod lie on the disks of its node, so that it runs nowhere else.
    pub fn are_on_host(&self, pod: &'a Pod) -> bool {
        self.of_pod(pod).any(|claim| claim.on_host)
    }

    /// What the pod's volumes ask; one node must do for all of them.
    pub fn mounts(&self, pod: &'a Pod) -> Mounts<'a> {
        let mut mounts = Mounts::default();
        let mut attachments: BTreeMap<&str, u32> = BTreeMap::new();
        for claim in self.of_pod(pod) {
            if !claim.driver.is_empty() {
                *attachments.entry(&claim.driver).or_default() += 1;
                if self.shared.contains(&(&*claim.id.namespace, &*claim.id.name)) {
                    mounts.shared.push((&claim.driver, &claim.handle));
                }
            }
            if claim.alternatives.is_empty() {
                continue;
            }
            mounts.places = together(&mounts.places, &claim.alternatives);
        }
        mounts.shared.sort_unstable();
        mounts.attachments = attachments.into_iter().collect();
        mounts
    }
}

fn key(claim: &VolumeClaim) -> ClaimKey<'_> {
    (&claim.id.namespace, &claim.id.name)
}

/// The pod that has each claim which one pod alone may use; while none has it, the first that waits
/// for it, in kube-scheduler's order.
fn users<'a>(
    snapshot: &'a Snapshot,
    claims: &BTreeMap<ClaimKey<'a>, &'a VolumeClaim>,
) -> BTreeMap<ClaimKey<'a>, &'a Pod> {
    if !claims.values().any(|claim| claim.for_one_pod) {
        return BTreeMap::new();
    }
    let leaving = snapshot.nodes.iter().filter(|node| Node::is_leaving(node));
    let leaving: BTreeSet<&str> = leaving.map(|node| node.name.as_str()).collect();
    let rank = |pod: &'a Pod| {
        let stands = Use::by_pod(pod, &leaving)?;
        Some((stands, Reverse(pod.spec.priority), pod.created_at, pod.uid.as_str()))
    };
    let mut users: BTreeMap<ClaimKey<'a>, &'a Pod> = BTreeMap::new();
    for pod in snapshot.pods.iter().filter(|pod| rank(pod).is_some()) {
        let names = pod.volume_claims.iter().map(|name| (&*pod.id.namespace, name.as_str()));
        for key in names.filter(|key| claims.get(key).is_some_and(|claim| claim.for_one_pod)) {
            let user = users.entry(key).or_insert(pod);
            if rank(pod) < rank(user) {
                *user = pod;
            }
        }
    }
    users
}

/// The places that meet one of each, each once; those that contradict one another are none.
pub fn together(requirements: &[Requirements], alternatives: &[Requirements]) -> Vec<Requirements> {
    let mut both: Vec<Requirements> = Vec::new();
    for wanted in requirements {
        for other in alternatives.iter().filter(|other| !wanted.contradict(other)) {
            let mut merged = wanted.clone();
            merged.add_all(other);
            if !both.contains(&merged) {
                both.push(merged);
            }
        }
    }
    both.truncate(PLACES_MAX);
    both
}
