//! Volumes: whether those of each pod can be attached where it is placed, and not too many of them.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::volume::EBS_DRIVER;
use outrigger_model::{InstanceType, Pod, PodRef, PodState, VolumeClaim, labels};

use super::Violation;
use super::cluster_state::ClusterState;
use super::node_info::{NodeInfo, NodeSource, PossibleLabels};

/// Checks the volumes of the pods that are placed there.
pub(super) fn check(cluster: &ClusterState<'_>, node: &NodeInfo<'_>, out: &mut Vec<Violation>) {
    let mut labels = PossibleLabels::new(node);
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

/// Checks the claims that one pod alone may use: no pod is placed that mounts one which another pod
/// has, or which is placed with another pod.
pub(super) fn check_for_one_pod(
    cluster: &ClusterState<'_>,
    nodes: &[NodeInfo<'_>],
    out: &mut Vec<Violation>,
) {
    let one = |id: &PodRef| cluster.volume_claims.get(id).is_some_and(|claim| claim.for_one_pod);
    let mounted =
        |pod: &Pod| pod.volume_claims.iter().map(|name| id_of(pod, name)).filter(&one).collect::<Vec<_>>();
    let mut users: BTreeMap<PodRef, &Pod> = BTreeMap::new();
    for pod in cluster.snapshot.pods.iter().filter(|pod| keeps_its_claims(cluster, pod)) {
        users.extend(mounted(pod).into_iter().map(|claim| (claim, pod)));
    }
    for node in nodes {
        for pod in node.planned.iter().filter(|pod| !pod.volume_claims.is_empty()) {
            for claim in mounted(pod) {
                let Some(other) = users.insert(claim.clone(), pod).filter(|other| other.uid != pod.uid)
                else {
                    continue;
                };
                let claim = &claim.name;
                let reason =
                    format!("its PersistentVolumeClaim {claim} is for one pod, and {} has it", other.id);
                out.push(Violation::Refused { pod: pod.id.clone(), on: node.name.to_owned(), reason });
            }
        }
    }
}

/// Whether a pod is on a node and stays there, or ends there before anybody else can use what it
/// mounts. One that leaves with its node hands its claims on.
fn keeps_its_claims(cluster: &ClusterState<'_>, pod: &Pod) -> bool {
    let node = pod.node_name.as_deref().and_then(|name| cluster.nodes.get(name));
    let goes = match pod.state {
        PodState::Leaving => true,
        PodState::Terminating => node.is_some_and(|node| node.is_leaving()),
        _ => false,
    };
    pod.node_name.is_some() && !pod.state.is_over() && !goes
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

/// A node attaches no more volumes than its drivers allow, whatever it becomes. A volume counts
/// once however many pods mount it.
fn check_attachments(cluster: &ClusterState<'_>, node: &NodeInfo<'_>, out: &mut Vec<Violation>) {
    if !node.planned.iter().any(|pod| !pod.volume_claims.is_empty()) {
        return;
    }
    let before = attached(cluster, &node.bound);
    let planned = attached(cluster, &node.planned);
    for (driver, limit) in limits(cluster, node) {
        let nothing = BTreeSet::new();
        let before = before.get(driver).unwrap_or(&nothing);
        let attached: BTreeSet<&str> =
            before.union(planned.get(driver).unwrap_or(&nothing)).copied().collect();
        if attached.len() > before.len() && attached.len() > limit as usize {
            out.push(Violation::Attachments {
                node: node.name.to_owned(),
                driver: driver.to_owned(),
                attached: attached.len(),
                limit,
            });
        }
    }
}

/// How many volumes each driver attaches: what the CSINode of a node that has joined reports, and
/// for EBS volumes of which none reports anything the least that an instance type gives which the
/// node is or may be.
fn limits<'n>(cluster: &ClusterState<'_>, node: &'n NodeInfo<'_>) -> BTreeMap<&'n str, u32> {
    let mut limits = BTreeMap::new();
    let mut types: Vec<&InstanceType> =
        node.options.iter().filter_map(|option| option.instance.instance_type).collect();
    if let NodeSource::Node(joined) = node.source {
        limits.extend(joined.volume_limits.iter().map(|(driver, limit)| (driver.as_str(), *limit)));
        let pool = joined.node_pool().and_then(|name| cluster.pool(name));
        let of_pool = pool.and_then(|pool| cluster.snapshot.offer_for(pool));
        let name = joined.labels.get(labels::INSTANCE_TYPE);
        let is_its = |kind: &&InstanceType| Some(&kind.name) == name;
        types.extend(of_pool.and_then(|offer| offer.instance_types.iter().find(is_its)));
    }
    if let Some(least) = types.iter().map(|kind| kind.ebs_volumes()).min() {
        limits.entry(EBS_DRIVER).or_insert(least);
    }
    limits
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
