//! Objects of which some value did not even have the form that its field has. No API server gives
//! such a thing out; files that people write hold them.

use std::sync::Arc;

use k8s_openapi::api::{apps, core};
use outrigger_model::{DaemonSet, Invalid, Node, Pod, PodSpec, Resources};

use super::{Interner, daemon_set, node, pod, requests};
use crate::wire::Part;

/// A pod, degraded where a value was left out.
pub(crate) fn pod_in_part(part: Part<core::v1::Pod>, interner: &mut Interner) -> Result<Pod, Invalid> {
    let mut pod = pod(part.object, interner)?;
    if let Some(left_out) = part.left_out {
        pod.spec = interner.spec(with_unknown_requests(&pod.spec, &left_out));
        pod.degraded = Some(Box::new(left_out));
    }
    Ok(pod)
}

/// A daemonset, degraded where a value was left out.
pub(crate) fn daemon_set_in_part(
    part: Part<apps::v1::DaemonSet>,
    interner: &mut Interner,
) -> Result<DaemonSet, Invalid> {
    let read = daemon_set(part.object, interner)?;
    let degraded = part.left_out.map(Box::new).or(read.degraded);
    Ok(DaemonSet { degraded, ..read })
}

/// A node, degraded where a value was left out.
pub(crate) fn node_in_part(part: Part<core::v1::Node>) -> Result<Node, Invalid> {
    let read = node(part.object)?;
    let degraded = part.left_out.map(Box::new).or(read.degraded);
    Ok(Node { degraded, ..read })
}

/// What stands in a container may be what it asks for.
fn with_unknown_requests(spec: &Arc<PodSpec>, left_out: &Invalid) -> PodSpec {
    let spec = PodSpec::clone(spec);
    let fields = [
        "spec.containers",
        "spec.initContainers",
        "spec.resources",
        "spec.overhead",
        "status.containerStatuses",
        "status.initContainerStatuses",
    ];
    if !fields.iter().any(|field| left_out.field.starts_with(field)) {
        return spec;
    }
    let mut requests: Resources = requests::unknown();
    requests.raise_to(&spec.requests);
    PodSpec { requests, ..spec }
}
