//! One node with its pods: whether each of them may be there and whether they fit together, whichever instance the node
//! becomes.

use std::collections::BTreeMap;
use std::sync::Arc;

use outrigger_model::labels::{INITIALIZED, REGISTERED};
use outrigger_model::pod::HostPort;
use outrigger_model::{DaemonSet, Pod, PodSpec, Quantity, Requirements, Resources};

use super::Violation;
use super::cluster_state::ClusterState;
use super::node_info::{NodeInfo, NodeSource, PossibleLabels, untolerated};
use super::nodes::is_starting;

/// Checks the pods that are planned there. What was wrong with the node before the plan is not the plan's fault.
pub(super) fn check(cluster: &ClusterState<'_>, node: &NodeInfo<'_>, out: &mut Vec<Violation>) {
    if node.planned.is_empty() {
        return;
    }
    let mut labels = PossibleLabels::of(node);
    check_admission(node, &mut labels, out);
    let daemons = Daemons::of(cluster, node, &mut labels);
    check_ports(node, &daemons, out);
    check_resources(node, &daemons, out);
}

fn check_admission(node: &NodeInfo<'_>, labels: &mut PossibleLabels<'_, '_>, out: &mut Vec<Violation>) {
    let mut known: BTreeMap<*const PodSpec, Option<String>> = BTreeMap::new();
    for pod in &node.planned {
        let verdict = known.entry(Arc::as_ptr(&pod.spec)).or_insert_with(|| refusal(&pod.spec, node, labels));
        if let Some(reason) = verdict {
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
    if let Some(taint) = untolerated(&node.taints, &spec.tolerations) {
        return Some(format!("the pod does not tolerate {taint}"));
    }
    let alternatives = spec.node_requirements();
    if alternatives.is_empty() {
        return Some("its node affinity has only empty terms, which match no node".into());
    }
    labels.meet(&alternatives).err().map(|conflicts| format!("the pod asks for {conflicts}"))
}

/// The daemonsets whose pods a node will still get.
struct Daemons<'a> {
    /// The pod's spec, and on which options it comes.
    coming: Vec<(&'a PodSpec, Vec<bool>)>,
}

impl<'a> Daemons<'a> {
    fn of(cluster: &ClusterState<'a>, node: &NodeInfo<'_>, labels: &mut PossibleLabels<'_, '_>) -> Self {
        let mut coming = Vec::new();
        for set in &cluster.snapshot.daemon_sets {
            if node.bound.iter().any(|pod| pod.daemon_set.as_deref() == Some(&set.id)) {
                continue;
            }
            // Its newest pod shows what the next one will be like (Karpenter `cluster.go` UpdateDaemonSet).
            let spec = cluster.newest_daemons.get(&set.id).map_or(&set.spec, |pod| &pod.spec);
            if untolerated(&node.taints, &spec.tolerations).is_none() {
                let options = labels.each_meets(&wanted(cluster, node, set, spec));
                if options.contains(&true) {
                    coming.push((spec.as_ref(), options));
                }
            }
        }
        Self { coming }
    }

    /// What they will ask for.
    fn overhead(&self, option: usize, resource: &str) -> Quantity {
        let coming = self.coming.iter().filter(|(_, options)| options[option]);
        coming.map(|(spec, _)| spec.requests.get(resource)).sum()
    }
}

/// What a daemonset's pod asks of the node: any of these. The affinity is the template's, since a pod's own names its
/// node. The labels that a node gets when it has joined are as good as there (Karpenter `nodeclaimtemplate.go`).
fn wanted(
    cluster: &ClusterState<'_>,
    node: &NodeInfo<'_>,
    set: &DaemonSet,
    spec: &PodSpec,
) -> Vec<Requirements> {
    let node_affinity = set.spec.node_affinity.clone();
    let asking = PodSpec { node_selector: spec.node_selector.clone(), node_affinity, ..PodSpec::default() };
    let mut alternatives = asking.node_requirements();
    let joins = match node.source {
        NodeSource::Node(node) => is_starting(node, cluster.claim_of(node)),
        NodeSource::Claim(_) | NodeSource::Planned(_) => true,
    };
    for key in [REGISTERED, INITIALIZED].into_iter().filter(|_| joins) {
        alternatives.retain(|wanted| wanted.allow(key, "true"));
        for wanted in &mut alternatives {
            wanted.remove(key);
        }
    }
    alternatives
}

fn check_ports(node: &NodeInfo<'_>, daemons: &Daemons<'_>, out: &mut Vec<Violation>) {
    if node.planned.iter().all(|pod| pod.spec.host_ports.is_empty()) {
        return;
    }
    let of_daemons = daemons.coming.iter().flat_map(|(spec, _)| &spec.host_ports);
    let of_bound = node.bound.iter().flat_map(|pod| &pod.spec.host_ports);
    let mut taken: Vec<&HostPort> = of_daemons.chain(of_bound).collect();
    for pod in &node.planned {
        let ports = &pod.spec.host_ports;
        if let Some(port) = ports.iter().find(|port| taken.iter().any(|other| collide(port, other))) {
            let reason = format!("host port {} is taken", port.port);
            out.push(Violation::Refused { pod: pod.id.clone(), on: node.name.to_owned(), reason });
        }
        taken.extend(ports);
    }
}

fn collide(a: &HostPort, b: &HostPort) -> bool {
    let wide = |port: &HostPort| port.ip.is_empty() || port.ip == "0.0.0.0" || port.ip == "::";
    a.port == b.port && a.protocol == b.protocol && (a.ip == b.ip || wide(a) || wide(b))
}

fn sum<'p>(pods: impl IntoIterator<Item = &'p &'p Pod>) -> Resources {
    let mut sum = Resources::new();
    pods.into_iter().for_each(|pod| sum.add(&pod.spec.requests));
    sum
}

fn check_resources(node: &NodeInfo<'_>, daemons: &Daemons<'_>, out: &mut Vec<Violation>) {
    let taken = sum(&node.bound);
    let asked = sum(&node.planned);
    for (resource, amount) in asked.iter().filter(|(_, amount)| !amount.is_zero()) {
        for (index, option) in node.options.iter().enumerate() {
            let total = amount + daemons.overhead(index, resource);
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
