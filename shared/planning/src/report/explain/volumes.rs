//! What the volumes of a pod have to do with its having no place.

use outrigger_model::{Refusal, Requirements, Snapshot};
use outrigger_optimizer::market::templates::Template;
use outrigger_optimizer::problem::classes::PodClass;
use outrigger_policy::pods::volumes::together;

use super::{Asked, conflict};

/// A volume that cannot be attached everywhere.
pub(super) struct Volume<'a> {
    /// The name of its PersistentVolumeClaim.
    pub(super) claim: &'a str,
    /// What the node must be like: one of these.
    pub(super) alternatives: &'a [Requirements],
}

impl Volume<'_> {
    /// What a pod and the volume ask together, once for each alternative that the pod does not
    /// contradict.
    pub(super) fn with<'v>(
        &'v self,
        requirements: &'v Requirements,
    ) -> impl Iterator<Item = Requirements> + 'v {
        let possible = self.alternatives.iter().filter(|other| !requirements.contradict(other));
        possible.map(|other| {
            let mut both = requirements.clone();
            both.add_all(other);
            both
        })
    }
}

/// The volumes of the first pod of a class. Those of the others ask for the same.
pub(super) fn mounted_by<'a>(snapshot: &'a Snapshot, class: &PodClass<'a>) -> Vec<Volume<'a>> {
    let Some(pod) = class.pods.first().filter(|pod| !pod.volume_claims.is_empty()) else {
        return Vec::new();
    };
    let is_mounted = |name: &String| pod.volume_claims.contains(name);
    let claims = snapshot.volume_claims.iter();
    let claims = claims.filter(|claim| !claim.alternatives.is_empty());
    claims
        .filter(|claim| claim.id.namespace == pod.id.namespace && is_mounted(&claim.id.name))
        .map(|claim| Volume { claim: &claim.id.name, alternatives: &claim.alternatives })
        .collect()
}

/// Where a pod, which asks for one of `own`, and its volumes contradict one another: the first two
/// that do, or else all of them.
pub(super) fn contradiction(alternatives: &[Requirements], volumes: &[Volume<'_>]) -> Option<Refusal> {
    let name = |volume: &Volume<'_>| volume.claim.to_owned();
    for volume in volumes {
        if let Some(refusal) = clash(alternatives, volume, vec![name(volume)]) {
            return Some(refusal);
        }
    }
    for (index, one) in volumes.iter().enumerate() {
        for other in &volumes[index + 1..] {
            if let Some(refusal) = clash(one.alternatives, other, vec![name(one), name(other)]) {
                return Some(refusal);
            }
        }
    }
    let mut places = alternatives.to_vec();
    volumes.iter().find_map(|volume| {
        let refusal = clash(&places, volume, volumes.iter().map(name).collect());
        places = together(&places, volume.alternatives);
        refusal
    })
}

/// The contradiction between some alternatives and a volume, where none of them goes with it.
fn clash(alternatives: &[Requirements], volume: &Volume<'_>, volumes: Vec<String>) -> Option<Refusal> {
    let mut last = None;
    for asked in alternatives {
        for wanted in volume.alternatives {
            last = Some(conflict(asked, wanted)?);
        }
    }
    last.map(|conflict| Refusal::Contradiction { volumes, conflict })
}

/// Why a template has no nodes to which the volumes could be attached: the first volume by itself,
/// or else all.
pub(super) fn refusal(volumes: &[Volume<'_>], template: &Template<'_>, asked: &Asked) -> Option<Refusal> {
    let alone = volumes.iter().find_map(|volume| {
        let mut last = None;
        for both in volume.with(&asked.by_pod) {
            last = Some(template.requirements.meets(&both).err()?);
        }
        last.map(|conflict| Refusal::Volume { claims: vec![volume.claim.to_owned()], conflict })
    });
    alone.or_else(|| {
        let conflict = template.requirements.meets(&asked.with_volumes).err()?;
        let claims = volumes.iter().map(|volume| volume.claim.to_owned()).collect();
        Some(Refusal::Volume { claims, conflict })
    })
}
