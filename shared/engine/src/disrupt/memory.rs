//! Since when nodes have had the pods that they have: `consolidateAfter` counts from there
//! (Karpenter's `lastPodEventTime`).

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use outrigger_model::{DisruptionMemory, NodePool, Pod, PodsSeen, Snapshot};

/// The pods of each node whose pool waits after a change of them, and since when they are these. A
/// node that was never seen before counts as changed just now: that costs the wait once.
pub(super) fn pods_seen(snapshot: &Snapshot, remembered: &DisruptionMemory) -> BTreeMap<String, PodsSeen> {
    let waits =
        |pool: &&NodePool| pool.spec.disruption.consolidate_after.get().is_some_and(|wait| !wait.is_zero());
    let pools: Vec<&str> = snapshot.node_pools.iter().filter(waits).map(|pool| pool.name.as_str()).collect();
    let nodes =
        snapshot.nodes.iter().filter(|node| node.node_pool().is_some_and(|pool| pools.contains(&pool)));
    let pods = snapshot.pods_by_node();
    let seen = nodes.map(|node| {
        let digest = digest(pods.get(node.name.as_str()).map(Vec::as_slice).unwrap_or_default());
        let same = remembered.pods.get(&node.name).filter(|seen| seen.digest == digest);
        let seen = same.cloned().unwrap_or(PodsSeen { digest, since: snapshot.taken_at });
        (node.name.clone(), seen)
    });
    seen.collect()
}

/// Of pods, those of daemonsets and static ones aside. Another version of the standard library may
/// come to another digest, which looks like a change of pods.
fn digest(pods: &[&Pod]) -> String {
    let mut uids: Vec<&str> =
        pods.iter().filter(|pod| !pod.is_bound_to_its_node()).map(|pod| pod.uid.as_str()).collect();
    uids.sort_unstable();
    let mut hasher = DefaultHasher::new();
    uids.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
