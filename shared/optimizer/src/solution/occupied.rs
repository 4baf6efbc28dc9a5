//! An existing node with the pods that are placed on it.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_policy::pods::volumes::Mounts;

use super::Load;
use crate::ids::Variant;
use crate::problem::Problem;
use crate::problem::existing::ExistingNode;

/// The load of an existing node, and the pods that are placed on it.
#[derive(Clone)]
pub struct Occupied<'a> {
    pub(crate) load: Load,
    /// How many volumes each driver has attached, and those of them that several pods mount.
    attached: BTreeMap<&'a str, u32>,
    shared: BTreeSet<(&'a str, &'a str)>,
    pub pods: Vec<PlacedPods>,
}

/// Pods of a class that are placed on an existing node.
#[derive(Clone, Copy, Debug)]
pub struct PlacedPods {
    pub variant: Variant,
    pub count: u32,
}

impl<'a> Occupied<'a> {
    /// The node as it is.
    pub(crate) fn new(node: &ExistingNode<'a>) -> Self {
        let count = |handles: &BTreeSet<&str>| u32::try_from(handles.len()).unwrap_or(u32::MAX);
        let handles = node
            .attached
            .iter()
            .flat_map(|(driver, volumes)| volumes.iter().map(|volume| (*driver, *volume)));
        Self {
            load: Load::new(node.free.len(), node.ports.clone(), node.host.clone()),
            attached: node.attached.iter().map(|(driver, volumes)| (*driver, count(volumes))).collect(),
            shared: handles.collect(),
            pods: Vec::new(),
        }
    }

    /// How many pods of a class are placed on it in a relaxation.
    pub(super) fn count(&self, variant: Variant) -> u32 {
        let like = self.pods.iter().filter(|pods| pods.variant == variant);
        like.map(|pods| pods.count).sum()
    }

    /// How many of some pods the drivers can attach the volumes of, beside those that are attached.
    pub(crate) fn attachable(&self, node: &ExistingNode<'_>, mounts: &Mounts<'_>, wanted: u32) -> u32 {
        let limits = &node.attachable;
        if limits.is_empty() {
            return wanted;
        }
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let fit = mounts.attachments.iter().map(|(driver, each)| {
            let Some(limit) = limits.get(*driver) else { return wanted };
            let of_driver = || mounts.shared.iter().filter(|(other, _)| other == driver);
            let new = count(of_driver().filter(|volume| !self.shared.contains(*volume)).count());
            let unshared = each - count(of_driver().count());
            let attached = self.attached.get(driver).copied().unwrap_or(0);
            match limit.checked_sub(attached.saturating_add(new)) {
                None => 0,
                Some(free) if unshared > 0 => free / unshared,
                Some(_) => wanted,
            }
        });
        fit.fold(wanted, u32::min)
    }

    /// Takes in pods of a class.
    pub(super) fn take(&mut self, problem: &Problem<'a>, variant: Variant, count: u32) {
        let pod_class = &problem.classes[variant.class];
        self.load.take(problem.load_on_existing(variant), count);
        for (driver, each) in &pod_class.mounts.attachments {
            let of_driver = pod_class.mounts.shared.iter().filter(|(other, _)| other == driver);
            let (mut unshared, mut new) = (*each, 0);
            for volume in of_driver {
                unshared -= 1;
                new += u32::from(self.shared.insert(*volume));
            }
            *self.attached.entry(driver).or_default() += unshared * count + new;
        }
        match self.pods.iter_mut().find(|pods| pods.variant == variant) {
            Some(alike) => alike.count += count,
            None => self.pods.push(PlacedPods { variant, count }),
        }
    }
}
