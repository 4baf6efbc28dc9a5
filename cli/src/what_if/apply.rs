//! What a change that somebody wonders about makes of a Snapshot.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrigger_model::{CapacityType, InstanceType, Node, Offering, Pod, PodState, Price, Snapshot, labels};

use crate::args::Change;

/// What pods of a Deployment, a StatefulSet or a Job have behind its name: digits, or what
/// Kubernetes makes random names of (`k8s.io/apimachinery/pkg/util/rand`).
const RANDOM: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Makes a change. An error says that the cluster has nothing to change so.
pub(super) fn apply(change: &Change, snapshot: &mut Snapshot) -> Result<(), String> {
    match change {
        Change::LoseZone(zone) => lose_zone(snapshot, zone),
        Change::LoseSpot => {
            lose_nodes(snapshot, |node| capacity_type(node) == Some(CapacityType::Spot));
            retain_offerings(snapshot, |offering| offering.capacity_type != CapacityType::Spot);
            Ok(())
        }
        Change::OnlyTypes(pattern) => stop_selling(snapshot, pattern, |is_meant| !is_meant),
        Change::NoTypes(pattern) => stop_selling(snapshot, pattern, |is_meant| is_meant),
        Change::NoPool(name) => {
            let before = snapshot.node_pools.len();
            snapshot.node_pools.retain(|pool| pool.name != *name);
            let found = snapshot.node_pools.len() < before;
            found.then_some(()).ok_or_else(|| format!("there is no NodePool {name}"))
        }
        Change::Scale { namespace, workload, times } => scale(snapshot, namespace, workload, *times),
        Change::Discount(share) => {
            discount(snapshot, *share);
            Ok(())
        }
        Change::Patience(_) => Ok(()),
    }
}

fn capacity_type(node: &Node) -> Option<CapacityType> {
    CapacityType::named(node.labels.get(labels::CAPACITY_TYPE)?)
}

fn lose_zone(snapshot: &mut Snapshot, zone: &str) -> Result<(), String> {
    let is_sold = |kind: &InstanceType| kind.offerings.iter().any(|offering| offering.zone == zone);
    if !types_mut(snapshot).any(|kind| is_sold(kind)) {
        return Err(format!("nothing is sold in a zone {zone}"));
    }
    lose_nodes(snapshot, |node| node.labels.get(labels::ZONE).is_some_and(|label| label == zone));
    retain_offerings(snapshot, |offering| offering.zone != zone);
    Ok(())
}

/// Takes nodes away; their pods wait for others.
fn lose_nodes(snapshot: &mut Snapshot, is_lost: impl Fn(&Node) -> bool) {
    let lost: BTreeSet<String> =
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

/// What is sold, for each class.
fn types_mut(snapshot: &mut Snapshot) -> impl Iterator<Item = &mut InstanceType> {
    snapshot.classes.iter_mut().flat_map(|offer| Arc::make_mut(&mut offer.instance_types))
}

fn retain_offerings(snapshot: &mut Snapshot, stays: impl Fn(&Offering) -> bool) {
    types_mut(snapshot).for_each(|kind| kind.offerings.retain(&stays));
}

/// Types of a pattern, or all others, are sold no more. Nodes that run stay what they are.
fn stop_selling(
    snapshot: &mut Snapshot,
    pattern: &str,
    is_unsold: impl Fn(bool) -> bool,
) -> Result<(), String> {
    let is_meant = |name: &str| match pattern.split_once('*') {
        Some((start, end)) => name.starts_with(start) && name.ends_with(end),
        None => name == pattern,
    };
    if !types_mut(snapshot).any(|kind| is_meant(&kind.name)) {
        return Err(format!("no instance type is called {pattern}"));
    }
    let unsold = types_mut(snapshot).filter(|kind| is_unsold(is_meant(&kind.name)));
    unsold.flat_map(|kind| &mut kind.offerings).for_each(|offering| offering.available = false);
    Ok(())
}

fn discount(snapshot: &mut Snapshot, share: f64) {
    let offerings = types_mut(snapshot).flat_map(|kind| &mut kind.offerings);
    for offering in offerings.filter(|offering| offering.capacity_type == CapacityType::OnDemand) {
        let price = offering.price.dollars() * (1.0 - share);
        offering.price = Price::from_dollars(price).unwrap_or(offering.price);
    }
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
    let gone: BTreeSet<&str> = its.iter().skip(wanted).map(|pod| pod.uid.as_str()).collect();
    snapshot.pods.retain(|pod| !gone.contains(pod.uid.as_str()));
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
