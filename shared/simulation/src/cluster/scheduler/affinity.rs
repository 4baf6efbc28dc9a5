//! Required affinity and anti-affinity between pods, as kube-scheduler's filter InterPodAffinity
//! has them. Pods that are nominated for the node which is looked at keep others away as if they
//! ran there, and draw nobody to it.

use std::collections::BTreeMap;

use outrigger_model::Pod;
use outrigger_model::pod::PodAffinityTerm;

use super::{Room, Rooms};

/// Whether a pod asks to be near others or away from them.
pub(super) fn minds(pod: &Pod) -> bool {
    !pod.spec.pod_affinity.is_empty() || !pod.spec.pod_anti_affinity.is_empty()
}

/// Whether the pod's terms, and those of the pods that run, let it be on a node.
pub(super) fn allows(pod: &Pod, node: &str, rooms: &Rooms<'_>) -> bool {
    let Some(room) = rooms.get(node) else { return false };
    if !minds(pod) && room.pods.repelling().next().is_none() {
        return true;
    }
    is_drawn(pod, room, rooms) && !is_repelled(pod, room, rooms) && !repels(pod, room, rooms)
}

/// Whether a pod that meets all of its terms is in the node's domain of each. The first pod of a
/// group that asks to be near itself needs none.
fn is_drawn(pod: &Pod, room: &Room<'_>, rooms: &Rooms<'_>) -> bool {
    let terms = &pod.spec.pod_affinity;
    let meets_all = |other: &Pod| terms.iter().all(|term| meets(term, other));
    let has_all = terms.iter().all(|term| room.node.labels.contains_key(&term.topology_key));
    let near = |term| neighbours(term, room, rooms).any(meets_all);
    let is_first = || meets_all(pod) && !rooms.values().flat_map(Room::here).any(meets_all);
    terms.is_empty() || has_all && (terms.iter().all(near) || is_first())
}

/// Whether a pod is near that the pod asks to be away from.
fn is_repelled(pod: &Pod, room: &Room<'_>, rooms: &Rooms<'_>) -> bool {
    pod.spec.pod_anti_affinity.iter().any(|term| {
        let nominated = room.nominated.iter().copied().filter(|other| other.uid != pod.uid);
        let has_domain = room.node.labels.contains_key(&term.topology_key);
        has_domain && neighbours(term, room, rooms).chain(nominated).any(|other| meets(term, other))
    })
}

/// Whether a pod is near that asks to be away from this one.
fn repels(pod: &Pod, room: &Room<'_>, rooms: &Rooms<'_>) -> bool {
    let before = room.pods.repelling().filter_map(|other| {
        let node = other.node_name.as_deref()?;
        Some((other, rooms.get(node)?))
    });
    let new = rooms.values().flat_map(|other| other.new.iter().map(move |pod| (*pod, other)));
    let nominated = room.nominated.iter().map(|other| (*other, room));
    before.chain(new).chain(nominated).filter(|(other, _)| other.uid != pod.uid).any(|(other, there)| {
        let terms = &other.spec.pod_anti_affinity;
        terms.iter().any(|term| meets(term, pod) && is_near(term, room, there))
    })
}

/// The pods in a node's domain of a term.
fn neighbours<'r>(
    term: &'r PodAffinityTerm,
    room: &'r Room<'_>,
    rooms: &'r Rooms<'_>,
) -> impl Iterator<Item = &'r Pod> {
    rooms.values().filter(|other| is_near(term, room, other)).flat_map(Room::here)
}

fn is_near(term: &PodAffinityTerm, room: &Room<'_>, other: &Room<'_>) -> bool {
    let domain = |room: &Room<'_>| room.node.labels.get(&term.topology_key).cloned();
    domain(room).is_some() && domain(room) == domain(other)
}

/// Whether a term means a pod.
fn meets(term: &PodAffinityTerm, pod: &Pod) -> bool {
    let namespace = &pod.id.namespace;
    let by_label = || {
        let name = ("kubernetes.io/metadata.name".to_owned(), namespace.clone());
        term.namespace_selector.as_ref().is_some_and(|labels| labels.matches(&BTreeMap::from([name])))
    };
    (term.namespaces.contains(namespace) || by_label()) && term.selector.matches(&pod.labels)
}
