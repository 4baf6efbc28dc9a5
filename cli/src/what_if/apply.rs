//! What a change that somebody wonders about makes of a Snapshot.

use std::sync::Arc;

use outrigger_model::{CapacityType, InstanceType, Node, Pod, PodState, Price, Snapshot, labels};

use crate::args::Change;

/// What pods of a Deployment, a StatefulSet or a Job have behind its name: digits, or what
/// Kubernetes makes random names of (`k8s.io/apimachinery/pkg/util/rand`).
const RANDOM: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Makes a change. An error says that the cluster has nothing to change so.
pub(super) fn apply(change: &Change, snapshot: &mut Snapshot) -> Result<(), String> {
    match change {
        Change::LoseZone(zone) => {
            lose_nodes(snapshot, |node| node.labels.get(labels::ZONE) == Some(zone));
            let found = change_offerings(snapshot, |types| {
                retain_offerings(types, |_, offering| offering.zone != *zone)
            });
            found.then_some(()).ok_or_else(|| format!("nothing is sold in a zone {zone}"))
        }
        Change::LoseSpot => {
            let is_spot =
                |node: &Node| node.labels.get(labels::CAPACITY_TYPE).is_some_and(|way| way == "spot");
            lose_nodes(snapshot, is_spot);
            change_offerings(snapshot, |types| {
                retain_offerings(types, |_, offering| offering.capacity_type != CapacityType::Spot)
            });
            Ok(())
        }
        Change::OnlyTypes(pattern) => retain_types(snapshot, pattern, true),
        Change::NoTypes(pattern) => retain_types(snapshot, pattern, false),
        Change::NoPool(name) => {
            let before = snapshot.node_pools.len();
            snapshot.node_pools.retain(|pool| pool.name != *name);
            let found = snapshot.node_pools.len() < before;
            found.then_some(()).ok_or_else(|| format!("there is no NodePool {name}"))
        }
        Change::Scale { namespace, workload, times } => scale(snapshot, namespace, workload, *times),
        Change::Discount(share) => {
            change_offerings(snapshot, |types| discount(types, *share));
            Ok(())
        }
        Change::Patience(_) => Ok(()),
    }
}

/// Takes nodes away; their pods wait for others.
fn lose_nodes(snapshot: &mut Snapshot, is_lost: impl Fn(&Node) -> bool) {
    let lost: Vec<String> =
        snapshot.nodes.iter().filter(|node| is_lost(node)).map(|node| node.name.clone()).collect();
    snapshot.nodes.retain(|node| !lost.contains(&node.name));
    let is_on_lost = |pod: &Pod| pod.node_name.as_ref().is_some_and(|node| lost.contains(node));
    // What a node runs by itself, and what nothing makes again, ends with it.
    snapshot.pods.retain(|pod| !is_on_lost(pod) || pod.is_reschedulable());
    for pod in snapshot.pods.iter_mut().filter(|pod| is_on_lost(pod)) {
        pod.node_name = None;
        pod.state = PodState::Unschedulable;
    }
}

/// Changes what is sold, for each class. Whether anything has changed.
fn change_offerings(snapshot: &mut Snapshot, change: impl Fn(&mut Vec<InstanceType>) -> bool) -> bool {
    let mut changed = false;
    for offer in &mut snapshot.classes {
        changed |= change(Arc::make_mut(&mut offer.instance_types));
    }
    changed
}

fn retain_offerings(
    types: &mut [InstanceType],
    stays: impl Fn(&InstanceType, &outrigger_model::Offering) -> bool,
) -> bool {
    let count = |types: &[InstanceType]| types.iter().map(|kind| kind.offerings.len()).sum::<usize>();
    let before = count(types);
    for kind in types.iter_mut() {
        let offerings = std::mem::take(&mut kind.offerings);
        let kept = offerings.into_iter().filter(|offering| stays(kind, offering)).collect();
        kind.offerings = kept;
    }
    count(types) < before
}

/// Nodes that run are of the types that they are; they only cannot be bought again.
fn retain_types(snapshot: &mut Snapshot, pattern: &str, wanted: bool) -> Result<(), String> {
    let is_meant = |name: &str| match pattern.split_once('*') {
        Some((start, end)) => name.starts_with(start) && name.ends_with(end),
        None => name == pattern,
    };
    let types = || snapshot.classes.iter().flat_map(|offer| offer.instance_types.iter());
    if !types().any(|kind| is_meant(&kind.name)) {
        return Err(format!("no instance type is called {pattern}"));
    }
    change_offerings(snapshot, |types| {
        for kind in types.iter_mut().filter(|kind| is_meant(&kind.name) != wanted) {
            kind.offerings.iter_mut().for_each(|offering| offering.available = false);
        }
        true
    });
    Ok(())
}

fn discount(types: &mut [InstanceType], share: f64) -> bool {
    let offerings = types.iter_mut().flat_map(|kind| &mut kind.offerings);
    for offering in offerings.filter(|offering| offering.capacity_type == CapacityType::OnDemand) {
        let price = offering.price.dollars() * (1.0 - share);
        offering.price = Price::from_dollars(price).unwrap_or(offering.price);
    }
    true
}

fn scale(snapshot: &mut Snapshot, namespace: &str, workload: &str, times: f64) -> Result<(), String> {
    let is_its = |pod: &Pod| {
        pod.id.namespace == namespace && is_pod_of(&pod.id.name, workload) && pod.state.is_active()
    };
    let its: Vec<Pod> = snapshot.pods.iter().filter(|pod| is_its(pod)).cloned().collect();
    if its.is_empty() {
        return Err(format!("there is no pod of a workload {namespace}/{workload}"));
    }
    let exactly = its.len() as f64 * times;
    let wanted = (1..=u32::MAX).take_while(|number| f64::from(*number) - 0.5 <= exactly).count();
    let gone: Vec<&str> = its.iter().skip(wanted).map(|pod| pod.uid.as_str()).collect();
    snapshot.pods.retain(|pod| !gone.contains(&pod.uid.as_str()));
    let more = its.iter().cycle().take(wanted).skip(its.len()).enumerate();
    snapshot.pods.extend(more.map(|(number, like)| copy(like, workload, number)));
    snapshot.pods.sort_by(|a, b| (&a.id, &a.uid).cmp(&(&b.id, &b.uid)));
    Ok(())
}

/// A further pod, which waits. Its volume would be a new one.
fn copy(like: &Pod, workload: &str, number: usize) -> Pod {
    let mut pod = like.clone();
    pod.id.name = format!("{workload}-what-if-{number}");
    pod.uid = format!("{}/{}", pod.id.namespace, pod.id.name);
    pod.node_name = None;
    pod.nominated_node = None;
    pod.state = PodState::Unschedulable;
    pod.volume_claims = Vec::new();
    pod
}

/// Whether a pod's name is a workload's with what controllers put behind it.
fn is_pod_of(pod: &str, workload: &str) -> bool {
    let Some(rest) = pod.strip_prefix(workload) else { return false };
    let Some(rest) = rest.strip_prefix('-') else { return rest.is_empty() };
    let is_made = |part: &str| {
        let is_number = part.chars().all(|c| c.is_ascii_digit());
        !part.is_empty() && (is_number || part.chars().all(|c| RANDOM.contains(c)))
    };
    rest.split('-').count() <= 2 && rest.split('-').all(is_made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_known_by_what_controllers_put_behind_a_name() {
        let table = [
            ("web-6d4cf56db6-x2bzl", true),
            ("web-0", true),
            ("web", true),
            ("web-api-6d4cf56db6-x2bzl", false),
            ("web-api-0", false),
            ("website-0", false),
            ("web-", false),
        ];
        for (pod, expected) in table {
            assert_eq!(is_pod_of(pod, "web"), expected, "{pod}");
        }
    }
}
