//! Volumes: where a pod's PersistentVolumeClaims let it go, and how many attachments they take.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{Pod, Requirements, Snapshot, VolumeClaim};

/// The driver of EBS volumes, the only one whose limit on new nodes is known.
pub(crate) const EBS: &str = "ebs.csi.aws.com";
/// How many EBS volumes a new node attaches beside its root volume. Nitro instances have 28 attachments, which network
/// interfaces and local disks share; three are kept for those.
pub(crate) const EBS_ATTACHMENTS: i64 = 24;
/// How many combinations of its volumes' places one pod may have; the rest are not tried.
const PLACES_MAX: usize = 64;

/// The claims of a snapshot.
#[derive(Debug)]
pub(crate) struct Volumes<'a> {
    claims: BTreeMap<(&'a str, &'a str), &'a VolumeClaim>,
    /// Claims that several pods mount.
    shared: BTreeSet<(&'a str, &'a str)>,
}

/// What the volumes of a pod ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mounts<'a> {
    /// Alternatives of what the node must be like; one without demands when any will do.
    pub(crate) places: Vec<Requirements>,
    /// How many volumes each driver attaches.
    pub(crate) attachments: Vec<(&'a str, u32)>,
    /// Those of them that other pods mount too, by driver and handle: a node attaches them once.
    pub(crate) shared: Vec<(&'a str, &'a str)>,
}

impl Default for Mounts<'_> {
    fn default() -> Self {
        Self { places: vec![Requirements::new()], attachments: Vec::new(), shared: Vec::new() }
    }
}

impl Mounts<'_> {
    /// How many EBS volumes.
    pub(crate) fn ebs(&self) -> u32 {
        self.attachments.iter().find(|(driver, _)| *driver == EBS).map_or(0, |(_, count)| *count)
    }
}

impl<'a> Volumes<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot) -> Self {
        let claims = snapshot.volume_claims.iter();
        let by_name = |claim: &'a VolumeClaim| ((&*claim.id.namespace, &*claim.id.name), claim);
        let claims: BTreeMap<_, _> = claims.map(by_name).collect();
        let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
        for pod in snapshot.pods.iter().filter(|_| !claims.is_empty()) {
            let names = pod.volume_claims.iter().map(|name| (&*pod.id.namespace, name.as_str()));
            shared.extend(names.filter(|name| !seen.insert(*name)));
        }
        Self { claims, shared }
    }

    /// The claims of a pod that are known.
    pub(crate) fn of_pod(&self, pod: &'a Pod) -> impl Iterator<Item = &'a VolumeClaim> {
        let names = pod.volume_claims.iter();
        names.filter_map(|name| self.claims.get(&(pod.id.namespace.as_str(), name.as_str())).copied())
    }

    /// Why the pod cannot be planned for, as Karpenter ignores pods with broken claims.
    pub(crate) fn problem(&self, pod: &'a Pod) -> Option<String> {
        pod.volume_claims.iter().find_map(|name| {
            let found = self.claims.get(&(pod.id.namespace.as_str(), name.as_str()));
            match found {
                None => Some(format!("PersistentVolumeClaim {}/{name}: not found", pod.id.namespace)),
                Some(claim) => claim.problem.clone(),
            }
        })
    }

    /// What the pod's volumes ask; one node must do for all of them.
    pub(crate) fn mounts(&self, pod: &'a Pod) -> Mounts<'a> {
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

/// The places that meet one of each, each once; those that contradict one another are none.
pub(crate) fn together(places: &[Requirements], alternatives: &[Requirements]) -> Vec<Requirements> {
    let mut both: Vec<Requirements> = Vec::new();
    for place in places {
        for other in alternatives.iter().filter(|other| !place.contradict(other)) {
            let mut place = place.clone();
            place.add_all(other);
            if !both.contains(&place) {
                both.push(place);
            }
        }
    }
    both.truncate(PLACES_MAX);
    both
}
