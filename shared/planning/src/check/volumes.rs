//! Volumes: whether those of each pod can be attached where it is placed, and not too many of them.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{Pod, PodRef, VolumeClaim};

use super::Violation;
use super::cluster_state::ClusterState;
use super::node_info::{NodeInfo, NodeSource, PossibleLabels};

/// Checks the volumes of the pods that are placed there.
pub(super) fn check(cluster: &ClusterState<'_>, node: &NodeInfo<'_>, out: &mut Vec<Violation>) {
    let mut labels = PossibleLabels::of(node);
    for pod in node.planned.iter().filter(|pod| !pod.volume_claims.is_empty()) {
        for name in &pod.volume_claims {
            let refusal = match cluster.volume_claims.get(&id_of(pod, name)) {
                None => Some(format!("its PersistentVolumeClaim {name} is not known")),
                Some(claim) => refusal(claim, &mut labels),
            };
            if let Some(reason) = refusal {
                out.push(Violation::Refused { pod: pod.id.clone(), on: node.name.to_owned(), reason });
            }
        }
    }
    check_attachments(cluster, node, out);
}

fn id_of(pod: &Pod, claim: &str) -> PodRef {
    PodRef { namespace: pod.id.namespace.clone(), name: claim.to_owned() }
}

fn refusal(claim: &VolumeClaim, labels: &mut PossibleLabels<'_, '_>) -> Option<String> {
    if let Some(problem) = &claim.problem {
        return Some(format!("a volume of it cannot be had: {problem}"));
    }
    if claim.alternatives.is_empty() {
        return None;
    }
    let conflicts = labels.meet(&claim.alternatives).err()?;
    Some(format!("its PersistentVolumeClaim {} asks for {conflicts}", claim.id.name))
}

/// A node attaches no more volumes than its drivers allow (`CSINode`); nodes that have not joined have no known limit.
/// A volume counts once however many pods mount it.
fn check_attachments(cluster: &ClusterState<'_>, node: &NodeInfo<'_>, out: &mut Vec<Violation>) {
    let NodeSource::Node(joined) = node.source else { return };
    let before = attached(cluster, &node.bound);
    let planned = attached(cluster, &node.planned);
    for (driver, limit) in &joined.volume_limits {
        let nothing = BTreeSet::new();
        let before = before.get(driver.as_str()).unwrap_or(&nothing);
        let all: BTreeSet<&str> =
            before.union(planned.get(driver.as_str()).unwrap_or(&nothing)).copied().collect();
        if all.len() > before.len() && all.len() > *limit as usize {
            out.push(Violation::Attachments {
                node: joined.name.clone(),
                driver: driver.clone(),
                attached: all.len(),
                limit: *limit,
            });
        }
    }
}

/// The volumes of these pods, by driver.
fn attached<'a>(cluster: &ClusterState<'a>, pods: &[&'a Pod]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut attached: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for pod in pods {
        let claims = pod.volume_claims.iter().filter_map(|name| cluster.volume_claims.get(&id_of(pod, name)));
        for claim in claims.filter(|claim| !claim.driver.is_empty()) {
            attached.entry(&claim.driver).or_default().insert(&claim.handle);
        }
    }
    attached
}
