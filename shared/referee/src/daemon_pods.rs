//! Daemonset pods that nodes will still get, as the affinity and anti-affinity of planned pods meet
//! them.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::PodRef;
use outrigger_model::labels::normalized;
use outrigger_model::pod::PodAffinityTerm;
use outrigger_policy::pods::daemons::Daemon;

use super::cluster_state::ClusterState;
use super::node_info::{NodeInfo, PossibleLabels};
use super::pod_index::{EquivalentPods, PodIndex, PodSelector};
use super::topology::Topology;
use super::{Violation, fit};

/// The daemonset pods that are to come, by node.
pub(super) struct DaemonPods<'c, 'a> {
    by_node: BTreeMap<usize, Vec<DaemonPod<'c, 'a>>>,
}

/// A daemonset's pod that a node will get.
struct DaemonPod<'c, 'a> {
    daemon: &'c Daemon<'a>,
    /// Whether it comes whatever the node becomes.
    is_certain: bool,
}

impl<'c, 'a> DaemonPods<'c, 'a> {
    /// Those of the nodes with planned pods, where rules of affinity or anti-affinity may ask about
    /// them.
    pub(super) fn new(cluster: &'c ClusterState<'a>, nodes: &[NodeInfo<'a>]) -> Self {
        let asks = |node: &NodeInfo<'_>| {
            let mut specs = node.planned.iter().map(|pod| &pod.spec);
            specs.any(|spec| !spec.pod_affinity.is_empty() || !spec.pod_anti_affinity.is_empty())
        };
        let bars = cluster.daemons.iter().any(|daemon| !daemon.spec.pod_anti_affinity.is_empty());
        let mut by_node = BTreeMap::new();
        if cluster.daemons.is_empty() || !bars && !nodes.iter().any(asks) {
            return Self { by_node };
        }
        for (at, node) in nodes.iter().enumerate() {
            let coming = fit::daemons_coming(cluster, node, &mut PossibleLabels::new(node)).into_iter();
            let pods = coming.map(|coming| DaemonPod {
                daemon: coming.daemon,
                is_certain: coming.daemon.is_whole && coming.on.iter().all(|comes| *comes),
            });
            by_node.insert(at, pods.collect());
        }
        Self { by_node }
    }

    /// The nodes that will surely have a daemonset pod which all of some terms select.
    pub(super) fn certain(&self, terms: &[(&str, PodSelector)]) -> BTreeSet<usize> {
        let is_selected = |pod: &DaemonPod<'_, '_>| {
            let (id, labels) = (pod.daemon.id(), pod.daemon.labels);
            pod.is_certain && terms.iter().all(|(_, selector)| selector.selects(&id.namespace, labels))
        };
        let with = self.by_node.iter().filter(|(_, pods)| pods.iter().any(is_selected));
        with.map(|(node, _)| *node).collect()
    }

    /// No pod is planned for a node that may get a daemonset pod which one of the two must be away
    /// from. Whatever the topology key, a node that has the label is near itself.
    pub(super) fn check(
        &self,
        pod_index: &PodIndex<'_>,
        topology: &mut Topology<'_, '_>,
        out: &mut Vec<Violation>,
    ) {
        for pods in pod_index.planned() {
            for pod in self.by_node.get(&pods.node).into_iter().flatten() {
                let id = pod.daemon.id();
                if let Some(key) = parted_over(pod_index, topology, pods, pod.daemon) {
                    out.push(Violation::Topology {
                        pod: pods.first.clone(),
                        on: topology.nodes[pods.node].name.to_owned(),
                        rule: format!("pod anti-affinity over {key}"),
                        reason: format!("the node will have a pod of DaemonSet {id}"),
                    });
                }
            }
        }
    }
}

/// The topology key over which one of a planned pod and a daemonset's pod must be away from the
/// other.
fn parted_over<'t>(
    pod_index: &PodIndex<'_>,
    topology: &mut Topology<'_, '_>,
    pods: &EquivalentPods<'t>,
    daemon: &Daemon<'t>,
) -> Option<&'t str> {
    let id: &PodRef = daemon.id();
    let of_pods = pods.spec.pod_anti_affinity.iter();
    let of_pods = of_pods.filter(|term| {
        pod_index.affinity_selector(pods.namespace, term).selects(&id.namespace, daemon.labels)
    });
    let of_daemon = daemon.spec.pod_anti_affinity.iter();
    let of_daemon = of_daemon
        .filter(|term| pod_index.affinity_selector(&id.namespace, term).selects(pods.namespace, pods.labels));
    let keys = of_pods.chain(of_daemon).map(|term: &PodAffinityTerm| normalized(&term.topology_key));
    keys.into_iter().find(|key| !topology.domains(key).at(pods.node).possible.is_empty())
}
