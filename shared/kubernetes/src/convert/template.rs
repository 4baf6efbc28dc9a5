//! What CapacityBuffers take their pods from: PodTemplates and the templates of workloads.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::{apps, core};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use outrigger_model::capacity_buffer::TemplateRef;
use outrigger_model::{CapacityBuffer, CapacityBufferObject, Invalid, PodSpec};

use super::affinity::Owner;
use super::pod::reference;
use super::problem::{Problem, Within};
use super::spec::pod_spec;
use super::{Interner, bounds};

/// Below every priority that a user may give: real pods come first (Karpenter
/// `VirtualPodPriority`).
const LEAST_PRIORITY: i32 = i32::MIN;
/// Where a workload says nothing, the API server makes it one replica.
const DEFAULT_REPLICAS: i32 = 1;

/// A template of pods, with the number of replicas that its workload asks for.
#[derive(Clone, Debug)]
pub struct Template {
    spec: Arc<PodSpec>,
    labels: Arc<BTreeMap<String, String>>,
    replicas: u32,
}

/// An object that has a template, of one of the kinds that a buffer may name.
#[derive(Debug)]
pub enum Templated {
    /// A PodTemplate.
    PodTemplate(core::v1::PodTemplate),
    /// A Deployment.
    Deployment(apps::v1::Deployment),
    /// A StatefulSet.
    StatefulSet(apps::v1::StatefulSet),
    /// A ReplicaSet.
    ReplicaSet(apps::v1::ReplicaSet),
}

/// The object's name and its template.
pub fn template(object: Templated, interner: &mut Interner) -> (TemplateRef, Result<Template, Invalid>) {
    let (kind, root, metadata, template, replicas) = parts(object);
    let id = reference(&metadata);
    let read = read(template, &id.namespace, replicas, interner).within(root);
    let read = read.map_err(|problem| problem.about(kind, Some(&id.namespace), &id.name));
    (TemplateRef { kind, id }, read)
}

type Parts = (&'static str, &'static str, ObjectMeta, Option<core::v1::PodTemplateSpec>, Option<i32>);

fn parts(object: Templated) -> Parts {
    match object {
        Templated::PodTemplate(object) => ("PodTemplate", "template", object.metadata, object.template, None),
        Templated::Deployment(object) => {
            let (replicas, template) = object.spec.map(|spec| (spec.replicas, spec.template)).unzip();
            ("Deployment", "spec.template", object.metadata, template, replicas.flatten())
        }
        Templated::StatefulSet(object) => {
            let (replicas, template) = object.spec.map(|spec| (spec.replicas, spec.template)).unzip();
            ("StatefulSet", "spec.template", object.metadata, template, replicas.flatten())
        }
        Templated::ReplicaSet(object) => {
            let (replicas, template) = object.spec.map(|spec| (spec.replicas, spec.template)).unzip();
            ("ReplicaSet", "spec.template", object.metadata, template.flatten(), replicas.flatten())
        }
    }
}

fn read(
    template: Option<core::v1::PodTemplateSpec>,
    namespace: &str,
    replicas: Option<i32>,
    interner: &mut Interner,
) -> Result<Template, Problem> {
    let template = template.unwrap_or_default();
    let Some(pod) = template.spec else { return Err(Problem::new("spec", "nothing", "a pod's spec")) };
    let labels = template.metadata.and_then(|metadata| metadata.labels).unwrap_or_default();
    bounds::labels("metadata.labels", Some(&labels))?;
    let owner = Owner { namespace, labels: &labels };
    let mut spec = pod_spec(&pod, None, &owner).within("spec")?;
    spec.priority = LEAST_PRIORITY;
    let replicas = u32::try_from(replicas.unwrap_or(DEFAULT_REPLICAS)).unwrap_or(0);
    Ok(Template { spec: interner.spec(spec), labels: interner.labels(labels), replicas })
}

/// The buffer with the template that it names; absent where there is none.
pub fn capacity_buffer(
    object: &CapacityBufferObject,
    template: Option<&Result<Template, Invalid>>,
) -> Result<CapacityBuffer, Invalid> {
    let field =
        if object.spec.pod_template_ref.is_some() { "spec.podTemplateRef" } else { "spec.scalableRef" };
    let refuse = |value: String, allowed: &str| {
        let name = format!("CapacityBuffer/{}/{}", object.id.namespace, object.id.name);
        Err(Invalid::new(name, field, value, allowed))
    };
    let reference = object.template().map(|reference| reference.to_string()).unwrap_or_default();
    match template {
        Some(Ok(template)) => {
            let (spec, labels) = (Arc::clone(&template.spec), Arc::clone(&template.labels));
            object.resolve(spec, labels, template.replicas)
        }
        Some(Err(problem)) => {
            refuse(format!("{reference}, which cannot be used: {problem}"), "a usable template")
        }
        None => {
            refuse(format!("{reference}, which is not there"), "one that exists in the buffer's namespace")
        }
    }
}
