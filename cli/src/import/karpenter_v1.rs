//! Karpenter's `karpenter.sh/v1` NodePool and `karpenter.k8s.aws/v1` EC2NodeClass: as they are,
//! without what Outrigger does not act on.

use outrigger_model::{EC2NodeClass, Invalid, NodeOverlay, NodePool};
use serde_json::Value;

use super::carry::{carry, only_unknown};
use super::draft::Draft;
use super::note::{Fate, Notes, shown};

/// Where Karpenter's conversion of v1beta1 keeps a NodePool's kubelet settings.
const KUBELET_ANNOTATION: &str = "compatibility.karpenter.sh/v1beta1-kubelet-conversion";
/// How complaints name it.
pub(super) const KUBELET_FIELD: &str =
    "metadata.annotations[compatibility.karpenter.sh/v1beta1-kubelet-conversion]";
const AMI_FAMILY: &str = "spec.amiFamily";

/// The fields of an EC2NodeClass that Outrigger does not act on, though a node is one without them.
/// `docs/fields.md` has the same ones.
const NOT_ACTED_ON: [&str; 16] = [
    "spec.placementGroupSelector",
    "spec.networkInterfaces",
    "spec.connectionTracking",
    "spec.ipPrefixCount",
    "spec.cpuOptions.nestedVirtualization",
    "spec.instanceStorePolicy",
    "spec.context",
    "spec.kubelet.clusterDNS",
    "spec.kubelet.cpuCFSQuota",
    "spec.kubelet.evictionMaxPodGracePeriod",
    "spec.kubelet.evictionSoft",
    "spec.kubelet.evictionSoftGracePeriod",
    "spec.kubelet.imageGCHighThresholdPercent",
    "spec.kubelet.imageGCLowThresholdPercent",
    "spec.metadataOptions.httpEndpoint",
    // Where there is an instance profile; without one the class is left out before.
    "spec.role",
];
/// What is refused of volumes beside the root volume, and of the root volume itself.
const VOLUME_PARTS: [&str; 3] = ["ebs.snapshotID", "ebs.volumeInitializationRate", "ebs.deleteOnTermination"];

/// The kubelet settings that Karpenter's conversion has put aside on a NodePool.
pub(super) fn take_kubelet(draft: &mut Draft, notes: &mut Notes) -> Option<Value> {
    let text = draft.take_annotation(KUBELET_ANNOTATION)?;
    let kubelet = text.as_str().and_then(|text| serde_json::from_str(text).ok());
    if kubelet.is_none() {
        let advice = "allowed: the kubelet settings in JSON; set spec.kubelet of the class yourself";
        notes.add(Fate::NotCarried, &draft.origin, KUBELET_FIELD, shown(&text), advice);
    }
    kubelet
}

/// What Outrigger takes of a NodePool. `None` where it is left out.
pub(super) fn carry_pool(draft: &mut Draft, notes: &mut Notes) -> Option<NodePool> {
    carry(&mut draft.value, &draft.origin.file, NodePool::read, only_unknown, notes)
}

/// What Outrigger takes of a NodeOverlay. `None` where it is left out.
pub(super) fn carry_overlay(draft: &mut Draft, notes: &mut Notes) -> Option<NodeOverlay> {
    carry(&mut draft.value, &draft.origin.file, NodeOverlay::read, only_unknown, notes)
}

/// What Outrigger takes of an EC2NodeClass. `None` where it is left out.
pub(super) fn carry_class(draft: &mut Draft, notes: &mut Notes) -> Option<EC2NodeClass> {
    if let Some(family) = draft.text("/spec/amiFamily").filter(|family| *family != "Custom") {
        let advice = "allowed: Custom: nodes of kOps boot by the user data of nodeup, which other families \
                      replace by that of EKS";
        notes.add(Fate::LeftOut, &draft.origin, AMI_FAMILY, format!("{family:?}"), advice);
        return None;
    }
    name_profile(draft, notes);
    let class = carry(&mut draft.value, &draft.origin.file, EC2NodeClass::read, is_not_acted_on, notes)?;
    if class.spec.user_data.as_ref().is_none_or(String::is_empty) {
        let advice = "write kOps' nodeupscript.sh there, by which nodes join; or let NodePools borrow an \
                      InstanceGroup";
        notes.add(Fate::ToDo, &draft.origin, "spec.userData", "nothing", advice);
    }
    Some(class)
}

/// kOps calls role and instance profile of its nodes alike, `nodes.CLUSTER`, and makes both.
fn name_profile(draft: &mut Draft, notes: &mut Notes) {
    let Some(role) = draft.text("/spec/role").map(str::to_owned) else { return };
    if draft.text("/spec/instanceProfile").is_some() || !role.starts_with("nodes.") {
        return;
    }
    if let Some(spec) = draft.spec() {
        spec.remove("role");
        spec.insert("instanceProfile".to_owned(), role.clone().into());
    }
    let advice = "spec.instanceProfile names kOps' instance profile of the same name instead, since Outrigger \
                  makes none";
    notes.add(Fate::NotCarried, &draft.origin, "spec.role", format!("{role:?}"), advice);
}

fn is_not_acted_on(problem: &Invalid) -> bool {
    let field = problem.field.as_str();
    if let Some(volume) = field.strip_prefix("spec.blockDeviceMappings[") {
        let part = volume.split_once(']').map_or("", |(_, part)| part.trim_start_matches('.'));
        let is_beside_root = part.is_empty() && problem.actual.starts_with("a volume beside");
        return is_beside_root || VOLUME_PARTS.contains(&part);
    }
    NOT_ACTED_ON.contains(&field) || field.starts_with("spec.tags[")
}
