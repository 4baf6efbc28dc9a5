//! A pod of the API.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as wire;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use outrigger_model::{DeletionCost, Invalid, Pod, PodRef, PodSpec, PodState, Protection, Readiness, labels};

use super::affinity::Owner;
use super::bounds::MAX_PARTS;
use super::problem::{Problem, Within};
use super::readable::{self, SpecOf};
use super::spec::{pod_spec, volume_claims};
use super::{Interner, bounds};

/// The annotation that the kubelet puts on the API's image of a static pod.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
/// The kind of daemonsets.
const DAEMON_SET: &str = "DaemonSet";

/// A pod. What a file written by hand leaves out is filled in: namespace `default`,
/// `namespace/name` for the uid, and 1970 for its age.
///
/// One that cannot be read whole is degraded: as much of it as can be read, with the reason. Only
/// what has no name or no spec is refused.
pub fn pod(wire: wire::Pod, interner: &mut Interner) -> Result<Pod, Invalid> {
    let wire::Pod { metadata, spec, status } = wire;
    let id = reference(&metadata);
    let refuse = |problem: Problem| problem.about("Pod", Some(&id.namespace), &id.name);
    if id.name.is_empty() {
        return Err(refuse(Problem::new("metadata.name", "nothing", "a name")));
    }
    let Some(wire) = spec else {
        return Err(refuse(Problem::new("spec", "nothing", "a pod's spec")));
    };
    let owner = owner(&metadata);
    let owner_kind = interner.word(owner.map_or_else(|| kind_without_owner(&metadata), |owner| &owner.kind));
    let daemon_set = owner
        .filter(|owner| owner.kind == DAEMON_SET)
        .map(|owner| Box::new(PodRef { namespace: id.namespace.clone(), name: owner.name.clone() }));
    let deleting = metadata.deletion_timestamp.is_some();
    let mut labels = metadata.labels.unwrap_or_default();
    let mut annotations = metadata.annotations.unwrap_or_default();
    let group = annotations.remove(labels::POD_GROUP).map(String::into_boxed_str);
    let started_at = status.as_ref().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    let wish = annotations.remove(labels::DO_NOT_DISRUPT);
    let deletion_cost = DeletionCost::take(&mut annotations);
    let do_not_disrupt = wish.map(|value| Box::new(Protection { value, started_at }));
    let owner = Owner { namespace: &id.namespace, labels: &labels };
    let (spec, problem) = match whole_spec(&wire, status.as_ref(), &owner) {
        Ok(spec) => (spec, None),
        Err(problem) => {
            let spec = readable::pod_spec(&wire, status.as_ref(), &owner, SpecOf::Pod);
            labels = readable::labels(labels);
            (spec, Some(refuse(problem)))
        }
    };
    let uid = metadata.uid.filter(|uid| !uid.is_empty()).unwrap_or_else(|| id.to_string());
    let state = state(&wire, status.as_ref(), deleting);
    let is_on_node = matches!(state, PodState::Bound | PodState::Terminating);
    let readiness = status.as_ref().filter(|_| is_on_node).map(readiness).unwrap_or_default();
    let nominated_node = status.and_then(|status| status.nominated_node_name);
    Ok(Pod {
        uid,
        labels: interner.labels(labels),
        spec: interner.spec(spec),
        created_at: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        node_name: wire.node_name.clone().filter(|name| !name.is_empty()),
        nominated_node: nominated_node.filter(|name| !name.is_empty()),
        state,
        owner_kind,
        daemon_set,
        volume_claims: volume_claims(&wire, &id.name),
        group,
        do_not_disrupt,
        deletion_cost,
        readiness,
        degraded: problem.map(Box::new),
        id,
    })
}

/// The spec of a pod that can be read whole.
fn whole_spec(
    wire: &wire::PodSpec,
    status: Option<&wire::PodStatus>,
    owner: &Owner<'_>,
) -> Result<PodSpec, Problem> {
    bounds::labels("metadata.labels", Some(owner.labels))?;
    check_statuses(status).within("status")?;
    pod_spec(wire, status, owner).within("spec")
}

/// Each container's status is looked up by its name.
fn check_statuses(status: Option<&wire::PodStatus>) -> Result<(), Problem> {
    let Some(status) = status else { return Ok(()) };
    let init = status.init_container_statuses.as_deref().unwrap_or_default();
    bounds::at_most("initContainerStatuses", init, MAX_PARTS)?;
    bounds::at_most("containerStatuses", status.container_statuses.as_deref().unwrap_or_default(), MAX_PARTS)
}

/// Namespace and name; the namespace is `default` where none is given.
pub(super) fn reference(metadata: &ObjectMeta) -> PodRef {
    let namespace = metadata.namespace.clone().filter(|namespace| !namespace.is_empty());
    PodRef {
        namespace: namespace.unwrap_or_else(|| "default".into()),
        name: metadata.name.clone().unwrap_or_default(),
    }
}

/// Where the pod stands. Only the scheduler's own verdict makes it unschedulable; a pod held back
/// by a gate waits.
fn state(spec: &wire::PodSpec, status: Option<&wire::PodStatus>, deleting: bool) -> PodState {
    let phase = status.and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        let refused = phase == Some("Failed") && status.is_some_and(is_rejection);
        return if refused { PodState::Refused } else { PodState::Finished };
    }
    if deleting {
        return PodState::Terminating;
    }
    if spec.node_name.as_ref().is_some_and(|name| !name.is_empty()) {
        return PodState::Bound;
    }
    if spec.scheduling_gates.as_ref().is_some_and(|gates| !gates.is_empty()) {
        return PodState::Gated;
    }
    let mut conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default().iter();
    let judged = conditions.any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    if judged { PodState::Unschedulable } else { PodState::Waiting }
}

/// Whether a pod on a node serves. Where a file does not say it, it does, so that budgets count for
/// it.
fn readiness(status: &wire::PodStatus) -> Readiness {
    let mut conditions = status.conditions.as_deref().unwrap_or_default().iter();
    let ready = conditions.find(|condition| condition.type_ == "Ready");
    if status.phase.as_deref() == Some("Pending") {
        Readiness::NotRunning
    } else if ready.is_some_and(|ready| ready.status != "True") {
        Readiness::NotReady
    } else {
        Readiness::Ready
    }
}

/// Whether a status is one that a kubelet writes for a pod that it does not admit (its
/// `rejectPod`).
fn is_rejection(status: &wire::PodStatus) -> bool {
    let begins = |text: &Option<String>, with| text.as_deref().is_some_and(|text| text.starts_with(with));
    begins(&status.message, "Pod was rejected") || begins(&status.reason, "OutOf")
}

/// The controlling owner. A node or a daemonset counts even where it is not marked as the
/// controller, as Karpenter has it.
fn owner(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let owners = metadata.owner_references.as_deref().unwrap_or_default();
    let bound_to_node = |kind: &str| matches!(kind, "Node" | DAEMON_SET);
    let owner = owners.iter().find(|owner| bound_to_node(&owner.kind));
    owner.or_else(|| owners.iter().find(|owner| owner.controller == Some(true)))
}

/// A static pod, which the mirror annotation tells, is its node's.
fn kind_without_owner(metadata: &ObjectMeta) -> &'static str {
    let is_mirror =
        metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR_ANNOTATION));
    if is_mirror { "Node" } else { "" }
}
