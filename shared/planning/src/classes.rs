//! Equivalence classes: pods that ask for the same are one thing to decide about, with a count.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use outrigger_model::{Pod, PodSpec, Requirements};

use crate::amounts::Dimensions;

/// Maps whose hashes are the same in every run; nothing iterates over them all the same.
pub(crate) type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

/// Pods that ask for the same.
#[derive(Debug)]
pub(crate) struct PodClass<'a> {
    /// What they ask for.
    pub(crate) spec: &'a PodSpec,
    /// The pods, oldest first, then by uid.
    pub(crate) pods: Vec<&'a Pod>,
    /// What each of them takes.
    pub(crate) request: Vec<i64>,
    /// What its node must be like: any of these. None means that no node will do.
    pub(crate) alternatives: Vec<Requirements>,
}

/// Groups pods by equal specs. Pods that share a spec in memory are told so by its address, without comparing it.
pub(crate) fn group<'a>(pods: impl Iterator<Item = &'a Pod>) -> Vec<(&'a PodSpec, Vec<&'a Pod>)> {
    let mut by_address: FixedMap<*const PodSpec, usize> = FixedMap::default();
    let mut by_content: FixedMap<&PodSpec, usize> = FixedMap::default();
    let mut groups: Vec<(&PodSpec, Vec<&Pod>)> = Vec::new();
    for pod in pods {
        let index = *by_address.entry(Arc::as_ptr(&pod.spec)).or_insert_with(|| {
            *by_content.entry(pod.spec.as_ref()).or_insert_with(|| {
                groups.push((pod.spec.as_ref(), Vec::new()));
                groups.len() - 1
            })
        });
        groups[index].1.push(pod);
    }
    groups
}

/// The classes of some groups in the order in which they are placed: Karpenter's first-fit decreasing, the most cpu
/// first, then the most memory, then the oldest pod, then the uid.
pub(crate) fn ordered<'a>(
    groups: Vec<(&'a PodSpec, Vec<&'a Pod>)>,
    dimensions: &Dimensions,
) -> Vec<PodClass<'a>> {
    let mut classes: Vec<PodClass<'a>> = groups
        .into_iter()
        .map(|(spec, mut pods)| {
            pods.sort_by(|a, b| (a.created_at, &a.uid, &a.id).cmp(&(b.created_at, &b.uid, &b.id)));
            let request = dimensions.request(&spec.requests);
            PodClass { spec, pods, request, alternatives: spec.node_requirements() }
        })
        .collect();
    classes.sort_by(|a, b| {
        let size = |class: &PodClass<'_>| (class.request[Dimensions::CPU], class.request[Dimensions::MEMORY]);
        let age = |class: &PodClass<'a>| class.pods.first().map(|pod| (pod.created_at, &pod.uid, &pod.id));
        size(b).cmp(&size(a)).then_with(|| age(a).cmp(&age(b)))
    });
    classes
}
