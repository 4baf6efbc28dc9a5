//! One node with its pods: whether each of them may be there and whether they fit together,
//! whichever instance the node becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::pod::HostPort;
use outrigger_model::taint::first_untolerated;
use outrigger_model::{Pod, PodSpec, Quantity, Resources};
use outrigger_policy::pods::daemons::Daemon;
use outrigger_policy::pods::ports;
use outrigger_policy::pods::static_pods::Taken;

use super::Violation;
use super::cluster_state::ClusterState;
use super::node_info::{NodeInfo, NodeSource, PossibleLabels};
use super::nodes::is_starting;

/// Checks the pods that are planned there. What was wrong with the node before the plan is not the
/// plan's fault.
pub(super) fn check(cluster: &ClusterState<'_>, node: &NodeInfo<'_>, out: &mut Vec<Violation>) {
    if node.planned.is_empty() {
        return;
    }
    let mut labels = PossibleLabels::new(node);
    check_admission(node, &mut labels, out);
    let daemons = daemons_coming(cluster, node, &mut labels);
    let static_pods = static_pods_coming(cluster, node);
    check_ports(node, &daemons, &static_pods, out);
    check_resources(node, &daemons, &static_pods, out);
}

/// The static pods that the node will still run by itself.
fn static_pods_coming<'c>(cluster: &'c ClusterState<'_>, node: &NodeInfo<'_>) -> Vec<&'c Taken> {
    let static_pods = &cluster.static_pods;
    match node.source {
        NodeSource::Node(joined) => static_pods.to_come(joined, cluster.claim_of(joined), &node.bound),
        NodeSource::Claim(claim) => static_pods.of_class(&claim.spec.node_class).collect(),
        NodeSource::Planned(planned) => static_pods.of_class(&planned.spec.node_class).collect(),
    }
}

fn check_admission(node: &NodeInfo<'_>, labels: &mut PossibleLabels<'_, '_>, out: &mut Vec<Violation>) {
    let mut refusals: BTreeMap<*const PodSpec, Option<String>> = BTreeMap::new();
    for pod in &node.planned {
        if let Some(problem) = &pod.degraded {
            let reason = format!("nobody knows what it asks for: {}", problem.complaint());
            out.push(Violation::Refused { pod: pod.id.clone(), on: node.name.to_owned(), reason });
        }
        let refused =
            refusals.entry(Arc::as_ptr(&pod.spec)).or_insert_with(|| refusal(&pod.spec, node, labels));
        if let Some(reason) = refused {
            out.push(Violation::Refused {
                pod: pod.id.clone(),
                on: node.name.to_owned(),
                reason: reason.clone(),
            });
        }
    }
}

/// What keeps a pod off a node, resources aside.
fn refusal(spec: &PodSpec, node: &NodeInfo<'_>, labels: &mut PossibleLabels<'_, '_>) -> Option<String> {
    if spec.uses_resource_claims {
        return Some("it uses ResourceClaims, which are not planned for".into());
    }
    if spec.node_affinity.iter().any(|term| term.has_match_fields) {
        return Some("its node affinity uses matchFields, which are not planned for".into());
    }
    if let Some((name, amount)) = spec.requests.iter().find(|(_, amount)| amount.is_negative()) {
        return Some(format!("it asks for {name} {amount}, which is below nothing"));
    }
    if let Some(taint) = first_untolerated(&node.taints, &spec.tolerations) {
        return Some(format!("the pod does not tolerate {taint}"));
    }
    let alternatives = spec.node_requirements();
    if alternatives.is_empty() {
        return Some("its node affinity has only empty terms, which match no node".into());
    }
    labels.meet(&alternatives).err().map(|conflicts| format!("the pod asks for {conflicts}"))
}

/// A daemonset whose pod a node will still get.
pub(super) struct Coming<'c, 'a> {
    pub(super) daemon: &'c Daemon<'a>,
    /// On which options it comes.
    pub(super) on: Vec<bool>,
}

/// The daemonsets whose pods a node will still get.
pub(super) fn daemons_coming<'c, 'a>(
    cluster: &'c ClusterState<'a>,
    node: &NodeInfo<'_>,
    labels: &mut PossibleLabels<'_, '_>,
) -> Vec<Coming<'c, 'a>> {
    let joins = match node.source {
        NodeSource::Node(node) => is_starting(node, cluster.claim_of(node)),
        NodeSource::Claim(_) | NodeSource::Planned(_) => true,
    };
    let daemons = cluster.daemons.iter().filter(|daemon| !daemon.is_among(&node.bound));
    let tolerating = daemons.filter(|daemon| daemon.tolerates(&node.taints));
    let coming = tolerating.map(|daemon| {
        let on = labels.each_meets(daemon.alternatives(joins));
        Coming { daemon, on }
    });
    coming.filter(|coming| coming.on.contains(&true)).collect()
}

fn check_ports(
    node: &NodeInfo<'_>,
    daemons: &[Coming<'_, '_>],
    static_pods: &[&Taken],
    out: &mut Vec<Violation>,
) {
    if node.planned.iter().all(|pod| pod.spec.host_ports.is_empty()) {
        return;
    }
    let of_daemons = daemons.iter().flat_map(|daemon| &daemon.daemon.spec.host_ports);
    let of_bound = node.bound.iter().flat_map(|pod| &pod.spec.host_ports);
    let of_static = static_pods.iter().flat_map(|pod| &pod.host_ports);
    let mut taken: Vec<HostPort> = of_daemons.chain(of_bound).chain(of_static).cloned().collect();
    for pod in &node.planned {
        let ports = &pod.spec.host_ports;
        if let Some(port) = ports.iter().find(|port| ports::clash(std::slice::from_ref(port), &taken)) {
            let reason = format!("host port {} is taken", port.port);
            out.push(Violation::Refused { pod: pod.id.clone(), on: node.name.to_owned(), reason });
        }
        taken.extend_from_slice(ports);
    }
}

fn sum<'p>(pods: impl IntoIterator<Item = &'p &'p Pod>) -> Resources {
    let mut sum = Resources::new();
    pods.into_iter().for_each(|pod| sum.add(&pod.spec.requests));
    sum
}

fn check_resources(
    node: &NodeInfo<'_>,
    daemons: &[Coming<'_, '_>],
    static_pods: &[&Taken],
    out: &mut Vec<Violation>,
) {
    let mut taken = sum(&node.bound);
    for pod in static_pods {
        taken.add(&pod.requests);
    }
    let asked = sum(&node.planned);
    for (resource, amount) in asked.iter().filter(|(_, amount)| !amount.is_zero()) {
        for (index, option) in node.options.iter().enumerate() {
            let coming = daemons.iter().filter(|daemon| daemon.on[index]);
            let overhead: Quantity = coming.map(|coming| coming.daemon.spec.requests.get(resource)).sum();
            let total = amount + overhead;
            let available = option.allocatable.get(resource) - taken.get(resource);
            if total > available {
                out.push(Violation::Overfull {
                    on: node.name.to_owned(),
                    instance_type: option.instance.name().to_owned(),
                    resource: resource.to_owned(),
                    asked: total.to_string(),
                    available: available.to_string(),
                });
            }
        }
    }
}
