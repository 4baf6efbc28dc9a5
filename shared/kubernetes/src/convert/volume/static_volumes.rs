//! Volumes that are there already and that no claim has: which of them a claim takes that waits for
//! its first consumer (kube-scheduler's volume binding, `FindMatchingVolume`).
//!
//! Each volume is meant for one claim alone, so that pods may be planned for all of the claims at
//! once. As many claims as can be get one, and what is then left over is dealt out.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::PodRef;

use super::objects::{Claim, Volume};

/// How many volumes a reason tells of.
const TOLD_MAX: usize = 3;

/// The volumes of a StorageClass that no claim has, by name.
pub(super) struct StaticVolumes<'v> {
    available: BTreeMap<&'v str, &'v Volume>,
    /// The volumes that are meant for each claim, the smallest first.
    meant: BTreeMap<&'v PodRef, Vec<&'v str>>,
}

impl<'v> StaticVolumes<'v> {
    /// Deals the volumes of a class out to its claims.
    pub(super) fn deal(
        class: &str,
        volumes: impl Iterator<Item = (&'v str, &'v Volume)>,
        claims: &[(&'v PodRef, &'v Claim)],
    ) -> Self {
        let free = |volume: &Volume| volume.class == class && volume.available && !volume.deleting;
        let available: BTreeMap<&str, &Volume> = volumes.filter(|(_, volume)| free(volume)).collect();
        let fitting: Vec<Vec<&str>> =
            claims.iter().map(|(id, claim)| fitting(id, claim, &available)).collect();
        let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
        for claim in 0..claims.len() {
            find(claim, &fitting, &mut owners, &mut BTreeSet::new());
        }
        let mut counts = vec![0_usize; claims.len()];
        for claim in owners.values() {
            counts[*claim] += 1;
        }
        for name in available.keys().filter(|name| !owners.contains_key(**name)).collect::<Vec<_>>() {
            let takers = (0..claims.len()).filter(|claim| fitting[*claim].contains(name));
            if let Some(claim) = takers.min_by_key(|claim| (counts[*claim], *claim)) {
                counts[claim] += 1;
                owners.insert(name, claim);
            }
        }
        let mut meant: BTreeMap<&PodRef, Vec<&str>> = BTreeMap::new();
        for (names, (claim, (id, _))) in fitting.iter().zip(claims.iter().enumerate()) {
            let dealt = names.iter().copied().filter(|name| owners.get(name) == Some(&claim));
            meant.insert(id, dealt.collect());
        }
        Self { available, meant }
    }

    /// The volumes that are meant for a claim.
    pub(super) fn meant_for(&self, id: &PodRef) -> Vec<&'v Volume> {
        let names = self.meant.get(id).into_iter().flatten();
        names.filter_map(|name| self.available.get(name).copied()).collect()
    }

    /// Why none is meant for a claim.
    pub(super) fn refusal(&self, id: &PodRef, claim: &Claim) -> String {
        if self.available.is_empty() {
            return "no PersistentVolume of it is Available".to_owned();
        }
        let reasons = self.available.iter().take(TOLD_MAX).map(|(name, volume)| {
            let why = misfit(id, claim, volume).unwrap_or_else(|| "another claim comes before".to_owned());
            format!("{name}: {why}")
        });
        let more = self.available.len().saturating_sub(TOLD_MAX);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        format!("no Available PersistentVolume of it fits ({}{more})", reasons.collect::<Vec<_>>().join("; "))
    }
}

/// The volumes that a claim could take, the smallest first. One that is kept for it stands alone.
fn fitting<'v>(id: &PodRef, claim: &Claim, available: &BTreeMap<&'v str, &'v Volume>) -> Vec<&'v str> {
    let fits = available.iter().filter(|(_, volume)| misfit(id, claim, volume).is_none());
    let mut fits: Vec<(&str, &Volume)> = fits.map(|(name, volume)| (*name, *volume)).collect();
    if fits.iter().any(|(_, volume)| volume.kept_for.is_some()) {
        fits.retain(|(_, volume)| volume.kept_for.is_some());
    }
    fits.sort_by_key(|(name, volume)| (volume.size, *name));
    fits.into_iter().map(|(name, _)| name).collect()
}

/// Finds a volume for a claim, if need be by giving others another one of theirs.
fn find<'v>(
    claim: usize,
    fitting: &[Vec<&'v str>],
    owners: &mut BTreeMap<&'v str, usize>,
    asked: &mut BTreeSet<&'v str>,
) -> bool {
    if let Some(free) = fitting[claim].iter().find(|name| !owners.contains_key(**name)) {
        owners.insert(free, claim);
        return true;
    }
    for name in &fitting[claim] {
        let Some(owner) = owners.get(name).copied().filter(|_| asked.insert(name)) else { continue };
        if find(owner, fitting, owners, asked) {
            owners.insert(name, claim);
            return true;
        }
    }
    false
}

/// Why a volume is not for a claim.
fn misfit(id: &PodRef, claim: &Claim, volume: &Volume) -> Option<String> {
    let missing = claim.access_modes.iter().find(|mode| !volume.access_modes.contains(mode));
    let selected = claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels));
    if let Some(other) = volume.kept_for.as_ref().filter(|other| *other != id) {
        Some(format!("it is kept for {other}"))
    } else if let Some(mode) = missing {
        Some(format!("it lacks the access mode {mode}"))
    } else if volume.mode != claim.volume_mode {
        Some(format!("its volumeMode is {}", volume.mode))
    } else if volume.size < claim.size {
        Some(format!("its {} are less than {}", volume.size, claim.size))
    } else if !selected {
        Some("the claim's selector does not select it".to_owned())
    } else {
        None
    }
}
