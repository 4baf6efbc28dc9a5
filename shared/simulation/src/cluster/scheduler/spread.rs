//! Required topology spread as kube-scheduler's filter has it: pods that are nominated for the node
//! which is looked at count as if they ran there.

use std::collections::BTreeMap;

use outrigger_model::pod::TopologySpread;
use outrigger_model::taint::first_untolerated;
use outrigger_model::{Pod, Requirements};

use super::{Room, Rooms};

/// Whether a pod's required spreads let it be on a node.
pub(super) fn allows(pod: &Pod, node: &str, wanted: &[Requirements], rooms: &Rooms<'_>) -> bool {
    required(pod).all(|spread| {
        let key = spread.topology_key.as_str();
        let Some(domain) = rooms.get(node).and_then(|room| room.node.labels.get(key)) else { return false };
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (name, room) in rooms.iter().filter(|(_, room)| is_counted(spread, pod, room, wanted)) {
            let Some(domain) = room.node.labels.get(key) else { continue };
            let nominated = room.nominated.iter().filter(|other| *name == node && other.uid != pod.uid);
            let matching =
                room.here().chain(nominated.copied()).filter(|other| counts_with(spread, pod, other));
            *counts.entry(domain).or_default() += matching.count();
        }
        let here = counts.get(domain.as_str()).copied().unwrap_or_default();
        let itself = usize::from(spread.selector.matches(&pod.labels));
        let too_few =
            spread.min_domains.is_some_and(|least| counts.len() < usize::try_from(least).unwrap_or(0));
        let least = if too_few { 0 } else { counts.values().min().copied().unwrap_or_default() };
        here + itself <= least + usize::try_from(spread.max_skew).unwrap_or_default()
    })
}

/// The spreads that keep a pod away from nodes.
pub(super) fn required(pod: &Pod) -> impl Iterator<Item = &TopologySpread> {
    pod.spec.topology_spread.iter().filter(|spread| !spread.schedule_anyway)
}

fn is_counted(spread: &TopologySpread, pod: &Pod, room: &Room<'_>, wanted: &[Requirements]) -> bool {
    let admitted = || wanted.iter().any(|wanted| wanted.match_labels(&room.node.labels).is_ok());
    let borne = || first_untolerated(&room.node.taints, &pod.spec.tolerations).is_none();
    (!spread.honor_affinity || admitted()) && (!spread.honor_taints || borne())
}

fn counts_with(spread: &TopologySpread, pod: &Pod, other: &Pod) -> bool {
    other.id.namespace == pod.id.namespace
        && spread.selector.matches(&other.labels)
        && spread.match_label_keys.iter().all(|key| other.labels.get(key) == pod.labels.get(key))
}
