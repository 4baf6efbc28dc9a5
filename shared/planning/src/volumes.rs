//! Volumes: where a pod's PersistentVolumeClaims let it go, and how many attachments they take.

use std::collections::BTreeMap;

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
}

/// What the volumes of a pod ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mounts<'a> {
    /// Alternatives of what the node must be like; one without demands when any will do.
    pub(crate) places: Vec<Requirements>,
    /// How many volumes each driver attaches.
    pub(crate) attachments: Vec<(&'a str, u32)>,
}

impl Default for Mounts<'_> {
    fn default() -> Self {
        Self { places: vec![Requirements::new()], attachments: Vec::new() }
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
        Self { claims: claims.map(by_name).collect() }
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
            }
            if claim.alternatives.is_empty() {
                continue;
            }
            let both = mounts.places.iter().flat_map(|place| {
                claim.alternatives.iter().map(|other| {
                    let mut place = place.clone();
                    place.add_all(other);
                    place
                })
            });
            mounts.places = both.take(PLACES_MAX).collect();
        }
        mounts.attachments = attachments.into_iter().collect();
        mounts
    }
}
