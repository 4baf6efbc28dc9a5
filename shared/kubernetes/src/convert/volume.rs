//! PersistentVolumeClaims with their volumes and StorageClasses: where the pods that mount them may
//! run.
//!
//! The rules are Karpenter's (`scheduling/volumetopology.go` and `volumeusage.go`, 1.14) and, where
//! these say less, kube-scheduler's (volume binding and volume zone).

mod driver;
mod objects;
mod static_volumes;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use outrigger_model::{Invalid, PodRef, Requirements, VolumeClaim};

use super::pod::reference;
use objects::{Claim, StorageClass, Volume};
use static_volumes::StaticVolumes;

/// The claims, volumes and StorageClasses of a cluster, as far as decisions need them.
#[derive(Debug, Default)]
pub struct Volumes {
    claims: BTreeMap<PodRef, Result<Claim, Invalid>>,
    persistent: BTreeMap<String, Result<Volume, Invalid>>,
    classes: BTreeMap<String, Result<StorageClass, Invalid>>,
}

impl Volumes {
    /// Takes in a PersistentVolumeClaim. One that cannot be understood keeps its pods waiting.
    pub fn add_claim(&mut self, wire: core::PersistentVolumeClaim) -> Result<(), Invalid> {
        let id = reference(&wire.metadata);
        let read = objects::claim(wire)
            .map_err(|problem| problem.about("PersistentVolumeClaim", Some(&id.namespace), &id.name));
        keep(&mut self.claims, id, read)
    }

    /// Takes in a PersistentVolume. One that cannot be understood keeps the pods that mount it
    /// waiting.
    pub fn add_volume(&mut self, wire: core::PersistentVolume) -> Result<(), Invalid> {
        let name = wire.metadata.name.clone().unwrap_or_default();
        let read = objects::volume(wire).map_err(|problem| problem.about("PersistentVolume", None, &name));
        keep(&mut self.persistent, name, read)
    }

    /// Takes in a StorageClass. One that cannot be understood keeps the pods of its unbound claims
    /// waiting.
    pub fn add_class(&mut self, wire: storage::StorageClass) -> Result<(), Invalid> {
        let name = wire.metadata.name.clone().unwrap_or_default();
        let read = objects::class(wire).map_err(|problem| problem.about("StorageClass", None, &name));
        keep(&mut self.classes, name, read)
    }

    /// Both together.
    #[must_use]
    pub fn join(mut self, other: Self) -> Self {
        self.claims.extend(other.claims);
        self.persistent.extend(other.persistent);
        self.classes.extend(other.classes);
        self
    }

    /// What the mounted claims mean for nodes, in order of name. A claim that there is no object
    /// for says so.
    pub fn claims(&self, mounted: &BTreeSet<PodRef>) -> Vec<VolumeClaim> {
        let default = self.default_class();
        let taken = self.static_volumes(mounted, default);
        mounted.iter().map(|id| self.resolve(id, default, &taken)).collect()
    }

    /// The volumes that are there for claims which are still to be bound, by StorageClass.
    fn static_volumes<'v>(
        &'v self,
        mounted: &'v BTreeSet<PodRef>,
        default: Option<&'v str>,
    ) -> BTreeMap<&'v str, StaticVolumes<'v>> {
        let mut unbound: BTreeMap<&str, Vec<(&PodRef, &Claim)>> = BTreeMap::new();
        for id in mounted {
            let Some(Ok(claim)) = self.claims.get(id) else { continue };
            let name = claim.class.as_deref().or(default);
            let waits = claim.volume.is_empty() && !claim.deleting;
            if let Some(name) = name.filter(|_| waits) {
                unbound.entry(name).or_default().push((id, claim));
            }
        }
        let volumes = || {
            let persistent = self.persistent.iter();
            persistent.filter_map(|(name, volume)| Some((name.as_str(), volume.as_ref().ok()?)))
        };
        unbound
            .into_iter()
            .map(|(name, claims)| (name, StaticVolumes::deal(name, volumes(), &claims)))
            .collect()
    }

    /// The newest of the classes that are marked as the default, and the first by name of equally
    /// new ones.
    fn default_class(&self) -> Option<&str> {
        let classes = self.classes.iter().filter_map(|(name, class)| Some((name, class.as_ref().ok()?)));
        let newest =
            classes.filter_map(|(name, class)| Some((class.default_since?, std::cmp::Reverse(name))));
        newest.max().map(|(_, name)| name.0.as_str())
    }

    fn resolve(
        &self,
        id: &PodRef,
        default: Option<&str>,
        taken: &BTreeMap<&str, StaticVolumes<'_>>,
    ) -> VolumeClaim {
        let unusable = |why: &str| VolumeClaim::unusable(id.clone(), why);
        let claim = match self.claims.get(id) {
            Some(Ok(claim)) => claim,
            Some(Err(problem)) => return unusable(&complaint(problem)),
            None => return unusable("not found"),
        };
        if claim.deleting {
            return unusable("it is being deleted");
        }
        if claim.lost {
            return unusable(&format!("its PersistentVolume {} is lost", claim.volume));
        }
        let resolved =
            if claim.volume.is_empty() { self.unbound(id, claim, default, taken) } else { self.bound(claim) };
        match resolved {
            Ok(Place { driver, handle, alternatives, on_host }) => VolumeClaim {
                id: id.clone(),
                driver,
                handle,
                alternatives,
                needs_scheduler: claim.volume.is_empty() || claim.is_for_one_pod(),
                for_one_pod: claim.is_for_one_pod(),
                on_host,
                selected_node: claim.selected_node.clone().filter(|_| claim.volume.is_empty()),
                problem: None,
            },
            Err(why) => unusable(&why),
        }
    }

    fn bound(&self, claim: &Claim) -> Result<Place, String> {
        let name = &claim.volume;
        let volume = match self.persistent.get(name) {
            Some(Ok(volume)) => volume,
            Some(Err(problem)) => return Err(format!("its PersistentVolume {name}: {}", complaint(problem))),
            None => return Err(format!("its PersistentVolume {name}: not found")),
        };
        if volume.deleting {
            return Err(format!("its PersistentVolume {name} is being deleted"));
        }
        if !claim.bind_completed {
            let annotation = objects::BIND_COMPLETED;
            return Err(format!(
                "it is not yet bound to its PersistentVolume {name} (no annotation {annotation})"
            ));
        }
        let alternatives = volume.alternatives.clone();
        let alternatives = alternatives.ok_or_else(|| {
            format!(
                "the node affinity of its PersistentVolume {name} has only empty terms, which no node meets"
            )
        })?;
        let on_host = volume.alternatives != volume.on_host;
        Ok(Place { driver: volume.driver.clone(), handle: volume.handle.clone(), alternatives, on_host })
    }

    /// A claim without a volume: it takes one that is there or gets one made, where the pod goes,
    /// if its class waits for that.
    fn unbound(
        &self,
        id: &PodRef,
        claim: &Claim,
        default: Option<&str>,
        taken: &BTreeMap<&str, StaticVolumes<'_>>,
    ) -> Result<Place, String> {
        let name = match claim.class.as_deref().or(default) {
            Some("") => return Err("it is unbound and its storageClassName is empty".into()),
            Some(name) => name,
            None => return Err("it is unbound and has no StorageClass, nor is there a default one".into()),
        };
        let class = match self.classes.get(name) {
            Some(Ok(class)) => class,
            Some(Err(problem)) => return Err(format!("its StorageClass {name}: {}", complaint(problem))),
            None => return Err(format!("its StorageClass {name}: not found")),
        };
        if !class.waits {
            return Err(format!(
                "it is unbound and its StorageClass {name} binds at once (volumeBindingMode Immediate), before there is a pod"
            ));
        }
        let of_class = taken.get(name);
        let taken = of_class.map(|volumes| volumes.meant_for(id)).unwrap_or_default();
        if taken.is_empty() && !class.makes_volumes {
            let why = of_class.map(|volumes| volumes.refusal(id, claim)).unwrap_or_default();
            return Err(format!("it is unbound, its StorageClass {name} has no provisioner, and {why}"));
        }
        let driver = if class.makes_volumes { &class.driver } else { &taken[0].driver };
        let made = class.alternatives.as_ref().filter(|_| class.makes_volumes);
        let places = taken.iter().filter_map(|volume| volume.on_host.as_ref()).chain(made);
        let alternatives = any_of(places).ok_or_else(|| {
            format!(
                "the allowedTopologies of its StorageClass {name} have only empty terms, which no node meets"
            )
        })?;
        Ok(Place { driver: driver.clone(), handle: id.to_string(), alternatives, on_host: false })
    }
}

/// What a claim means for nodes.
struct Place {
    driver: String,
    handle: String,
    alternatives: Vec<Requirements>,
    on_host: bool,
}

/// All alternatives together, each once; no condition where one of them has none, and `None` where
/// there are none.
fn any_of<'r>(volumes: impl Iterator<Item = &'r Vec<Requirements>>) -> Option<Vec<Requirements>> {
    let mut together: Option<Vec<Requirements>> = None;
    for alternatives in volumes {
        if alternatives.is_empty() {
            return Some(Vec::new());
        }
        let together = together.get_or_insert_with(Vec::new);
        let new: Vec<Requirements> =
            alternatives.iter().filter(|one| !together.contains(one)).cloned().collect();
        together.extend(new);
    }
    together
}

/// Keeps what was read under its name, and hands a complaint back.
fn keep<K: Ord, T>(
    kept: &mut BTreeMap<K, Result<T, Invalid>>,
    name: K,
    read: Result<T, Invalid>,
) -> Result<(), Invalid> {
    let complaint = read.as_ref().err().cloned();
    kept.insert(name, read);
    complaint.map_or(Ok(()), Err)
}

/// A complaint without the name of its object, which is said already.
fn complaint(problem: &Invalid) -> String {
    let Invalid { field, actual, allowed, .. } = problem;
    format!("{field}: found {actual}; allowed: {allowed}")
}
