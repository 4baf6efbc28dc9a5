//! A daemonset of the API.

use k8s_openapi::api::apps::v1 as wire;
use outrigger_model::{DaemonSet, Invalid};

use super::affinity::Owner;
use super::pod::reference;
use super::problem::{Problem, Within};
use super::readable::{self, SpecOf};
use super::spec::pod_spec;
use super::{Interner, bounds};

/// A daemonset: its name, and the labels and demands of its template's pods. One that cannot be
/// read whole is degraded.
pub fn daemon_set(wire: wire::DaemonSet, interner: &mut Interner) -> Result<DaemonSet, Invalid> {
    let id = reference(&wire.metadata);
    let refuse = |problem: Problem| problem.about("DaemonSet", Some(&id.namespace), &id.name);
    if id.name.is_empty() {
        return Err(refuse(Problem::new("metadata.name", "nothing", "a name")));
    }
    let template = wire.spec.map(|spec| spec.template).unwrap_or_default();
    let Some(pod) = template.spec else {
        return Err(refuse(Problem::new("spec.template.spec", "nothing", "a pod's spec")));
    };
    let labels = template.metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
    let owner = Owner { namespace: &id.namespace, labels: &labels };
    let sound_labels = bounds::labels("spec.template.metadata.labels", Some(&labels));
    let whole = sound_labels.and_then(|()| pod_spec(&pod, None, &owner).within("spec.template.spec"));
    let (spec, problem) = match whole {
        Ok(spec) => (spec, None),
        Err(problem) => (readable::pod_spec(&pod, None, &owner, SpecOf::Template), Some(refuse(problem))),
    };
    let labels = if problem.is_some() { readable::labels(labels) } else { labels };
    let (spec, labels) = (interner.spec(spec), interner.labels(labels));
    Ok(DaemonSet { spec, labels, id, degraded: problem.map(Box::new) })
}
