//! PersistentVolumeClaims as far as a decision about nodes needs them: where the volume can be
//! attached, and by which driver.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Node, Pod, PodRef, Requirement, Requirements, labels};

/// The driver of EBS volumes, the only one of which it is known how many volumes a new node
/// attaches.
pub const EBS_DRIVER: &str = "ebs.csi.aws.com";

/// A PersistentVolumeClaim that some pod mounts, with what its volume and StorageClass say about
/// nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaim {
    /// Namespace and name of the claim.
    pub id: PodRef,
    /// The CSI driver that attaches it; in-tree names are translated. Empty when nothing has to be
    /// attached.
    #[serde(default)]
    pub driver: String,
    /// What counts as one attachment: the volume's handle, or the claim itself while it has no
    /// volume.
    #[serde(default)]
    pub handle: String,
    /// Alternatives of which the node must meet one, from the volume's node affinity or the
    /// StorageClass's allowedTopologies; none means that any node will do (Karpenter
    /// `volumetopology.go`).
    #[serde(default)]
    pub alternatives: Vec<Requirements>,
    /// Whether kube-scheduler must choose the node of a pod that mounts it: the volume waits for
    /// its first consumer, whose node it is told by kube-scheduler, or one pod alone may use it,
    /// which nobody else makes sure of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub needs_scheduler: bool,
    /// Whether one pod alone may use it (access mode ReadWriteOncePod).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub for_one_pod: bool,
    /// Whether its data lie on the disks of one node (a local volume), so that its pods run nowhere
    /// else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_host: bool,
    /// The node for which kube-scheduler has asked that the volume be made
    /// (annotation `volume.kubernetes.io/selected-node`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selected_node: Option<String>,
    /// Why a pod that mounts it cannot be planned for, whole and with the claim's name, as
    /// `PersistentVolumeClaim shop/data: it is being deleted`; absent when it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl VolumeClaim {
    /// A claim that keeps its pods from being planned for.
    pub fn unusable(id: PodRef, why: &str) -> Self {
        let problem = Some(format!("PersistentVolumeClaim {id}: {why}"));
        Self {
            id,
            driver: String::new(),
            handle: String::new(),
            alternatives: Vec::new(),
            needs_scheduler: true,
            for_one_pod: false,
            on_host: false,
            selected_node: None,
            problem,
        }
    }

    /// Keeps the pods of claims on the node that kube-scheduler has selected, while that is there:
    /// it considers no other. Where the node is gone, the provisioner takes the annotation away,
    /// and any node will do again.
    pub fn keep_on_selected_nodes(claims: &mut [Self], nodes: &[Node]) {
        for claim in claims.iter_mut().filter(|claim| claim.problem.is_none()) {
            let Some(name) = &claim.selected_node else { continue };
            let Some(node) = nodes.iter().find(|node| node.name == *name) else { continue };
            let hostname = node.labels.get(labels::HOSTNAME).unwrap_or(name);
            let only = Requirements::new().with(labels::HOSTNAME, Requirement::exactly(hostname));
            claim.alternatives = vec![only];
        }
    }
}

/// The claims that a decision about these pods has to know: those that any of them mounts, since
/// attachments are counted for each node; none while no pod that needs a node mounts one.
pub fn claims_to_know<'a>(
    pods: impl Iterator<Item = &'a Pod> + Clone,
    needs_node: impl FnMut(&Pod) -> bool,
) -> BTreeSet<PodRef> {
    let mounts = |pod: &&Pod| !pod.volume_claims.is_empty();
    if !pods.clone().filter(mounts).any(needs_node) {
        return BTreeSet::new();
    }
    let mounting = pods.filter(mounts).filter(|pod| !pod.state.is_over());
    let claim = |pod: &Pod, name: &String| PodRef { namespace: pod.id.namespace.clone(), name: name.clone() };
    mounting.flat_map(|pod| pod.volume_claims.iter().map(move |name| claim(pod, name))).collect()
}
