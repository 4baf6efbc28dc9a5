//! `CapacityBuffer` of `autoscaling.x-k8s.io`: room that is kept free for pods to come.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::invalid::{self, Invalid, Problems, shown};
use crate::schema_rules as rules;
use crate::{PodRef, PodSpec, Resources};

/// The only provisioning strategy: nodes are bought for the buffer's room.
pub const ACTIVE_CAPACITY: &str = "buffer.x-k8s.io/active-capacity";
/// The versions of the API that are read; they have the same fields.
pub const VERSIONS: [&str; 2] = ["autoscaling.x-k8s.io/v1beta1", "autoscaling.x-k8s.io/v1alpha1"];
/// The most pods that a buffer may keep room for, so that a slip of a key does not buy a data
/// centre.
pub const MAX_COUNT: u32 = 10_000;

/// A CapacityBuffer with its template and number resolved: so many pods of this kind shall find
/// room at any time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityBuffer {
    /// Namespace and name.
    pub id: PodRef,
    /// How many pods: the larger of `replicas` and the percentage, within the buffer's limits.
    pub count: u32,
    /// What each asks for, volumes left out and below every priority (Karpenter
    /// `state/virtualpods`).
    pub spec: Arc<PodSpec>,
    /// The labels of such pods.
    pub labels: Arc<BTreeMap<String, String>>,
}

/// A CapacityBuffer as it is written, checked by itself; its template is looked up elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityBufferObject {
    /// Namespace and name.
    pub id: PodRef,
    /// What it asks for.
    pub spec: CapacityBufferSpec,
}

/// The spec of a CapacityBuffer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::buffer()))]
pub struct CapacityBufferSpec {
    /// The PodTemplate of the same namespace that says what one pod asks for; this or
    /// `scalableRef`.
    pub pod_template_ref: Option<PodTemplateRef>,
    /// The workload of the same namespace whose pods are meant; this or `podTemplateRef`.
    pub scalable_ref: Option<ScalableRef>,
    /// How many pods. With a percentage beside it the larger of the two counts.
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// How many pods, in percent of the replicas of the `scalableRef`, rounded up and at least one.
    #[schemars(range(min = 0))]
    pub percentage: Option<i32>,
    /// What all of the pods may ask for together. Alone, it says that as many are meant as fit.
    pub limits: Option<Resources>,
    /// `buffer.x-k8s.io/active-capacity`, which is what is meant where nothing is said.
    #[schemars(extend("default" = ACTIVE_CAPACITY))]
    pub provisioning_strategy: Option<String>,
}

/// A PodTemplate of the buffer's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct PodTemplateRef {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// A workload of the buffer's namespace.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct ScalableRef {
    /// `apps`, which is what is meant where nothing is said.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub api_group: String,
    /// `Deployment`, `StatefulSet` or `ReplicaSet`.
    #[schemars(length(min = 1))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// What says how the pods of a buffer are made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemplateRef {
    /// `PodTemplate`, `Deployment`, `StatefulSet` or `ReplicaSet`.
    pub kind: &'static str,
    /// Namespace and name.
    pub id: PodRef,
}

impl fmt::Display for TemplateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.id)
    }
}

/// The kinds that a buffer may take its pods from.
const SCALABLE: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

impl CapacityBufferObject {
    /// Reads and checks one CapacityBuffer object; every complaint is returned, not only the first.
    pub fn read(object: &Value) -> Result<Self, Vec<Invalid>> {
        let namespace = invalid::text_at(object, "/metadata/namespace");
        let namespace = if namespace.is_empty() { "default".to_owned() } else { namespace };
        let id = PodRef { namespace, name: invalid::name_of(object).unwrap_or_default() };
        let label = label(&id);
        let is_supported = |version: &Value| VERSIONS.iter().any(|supported| version == supported);
        if let Some(version) =
            object.get("apiVersion").filter(|version| !version.is_null() && !is_supported(version))
        {
            return Err(vec![Invalid::new(label, "apiVersion", shown(version), VERSIONS.join(" or "))]);
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let (spec, mut problems) = invalid::read_noting::<CapacityBufferSpec>(&label, "spec", spec)?;
        let object = Self { id, spec };
        problems.extend(object.problems(&label));
        if problems.is_empty() { Ok(object) } else { Err(problems) }
    }

    /// Where its pods are described.
    pub fn template(&self) -> Option<TemplateRef> {
        let named = |kind, name: &str| {
            let id = PodRef { namespace: self.id.namespace.clone(), name: name.to_owned() };
            Some(TemplateRef { kind, id })
        };
        match (&self.spec.pod_template_ref, &self.spec.scalable_ref) {
            (Some(template), _) => named("PodTemplate", &template.name),
            (None, Some(scalable)) => {
                let kind = SCALABLE.into_iter().find(|kind| *kind == scalable.kind)?;
                named(kind, &scalable.name)
            }
            (None, None) => None,
        }
    }

    /// The buffer of pods that ask for `spec`, where the workload that it follows has so many
    /// replicas.
    pub fn resolve(
        &self,
        spec: Arc<PodSpec>,
        labels: Arc<BTreeMap<String, String>>,
        replicas: u32,
    ) -> Result<CapacityBuffer, Invalid> {
        let refuse = |field: &str, actual: String, allowed: &str| {
            Err(Invalid::new(label(&self.id), field, actual, allowed))
        };
        let share = self.spec.percentage.map(|percentage| share(replicas, unsigned(percentage)));
        let wanted = self.spec.replicas.map(unsigned).max(share.filter(|share| *share > 0));
        let room = self.spec.limits.as_ref().and_then(|limits| copies(limits, &spec.requests));
        let count = match (wanted, room) {
            (Some(wanted), room) => room.map_or(wanted, |room| wanted.min(room)),
            (None, Some(room)) => room,
            (None, None) if share.is_none() => {
                let limits = self.spec.limits.as_ref().map(ToString::to_string).unwrap_or_default();
                let allowed = format!("a resource that its pods ask for: {}", spec.requests);
                return refuse("spec.limits", limits, &allowed);
            }
            (None, None) => 0,
        };
        if count > MAX_COUNT {
            return refuse("spec", format!("room for {count} pods"), &format!("at most {MAX_COUNT}"));
        }
        Ok(CapacityBuffer { id: self.id.clone(), count, spec, labels })
    }

    fn problems(&self, label: &str) -> Vec<Invalid> {
        let spec = &self.spec;
        let mut problems = Problems::about(label);
        if self.id.name.is_empty() {
            problems.refuse("metadata.name", "nothing", "a name");
        }
        match (&spec.pod_template_ref, &spec.scalable_ref) {
            (None, None) => {
                problems.refuse("spec", "neither podTemplateRef nor scalableRef", "one of the two");
            }
            (Some(_), Some(_)) => problems.refuse("spec", "podTemplateRef and scalableRef", "one of the two"),
            (Some(template), None) => self.check_template(template, &mut problems),
            (None, Some(scalable)) => self.check_scalable(scalable, &mut problems),
        }
        for (field, number) in [("replicas", spec.replicas), ("percentage", spec.percentage)] {
            if let Some(number) = number.filter(|number| *number < 0) {
                problems.refuse(format!("spec.{field}"), number, "a whole number of 0 or more");
            }
        }
        for (name, quantity) in spec.limits.iter().flat_map(Resources::iter) {
            if quantity.is_negative() {
                problems.refuse(format!("spec.limits[{name}]"), quantity, "a quantity of 0 or more");
            }
        }
        if let Some(other) =
            spec.provisioning_strategy.as_deref().filter(|s| !["", ACTIVE_CAPACITY].contains(s))
        {
            let allowed = format!("{ACTIVE_CAPACITY}, which is what nothing means");
            problems.refuse("spec.provisioningStrategy", shown(&other), allowed);
        }
        problems.into_vec()
    }

    fn check_template(&self, template: &PodTemplateRef, problems: &mut Problems) {
        if template.name.is_empty() {
            problems.refuse("spec.podTemplateRef.name", "\"\"", "the name of a PodTemplate");
        }
        if let Some(percentage) = self.spec.percentage {
            let allowed = "nothing beside podTemplateRef: it is a share of the scalableRef's replicas";
            problems.refuse("spec.percentage", percentage, allowed);
        }
        if self.spec.replicas.is_none() && self.spec.limits.is_none() {
            problems.refuse("spec", "podTemplateRef alone", "replicas or limits beside it");
        }
    }

    fn check_scalable(&self, scalable: &ScalableRef, problems: &mut Problems) {
        if !["", "apps"].contains(&scalable.api_group.as_str()) {
            problems.refuse("spec.scalableRef.apiGroup", shown(&scalable.api_group), "apps");
        }
        if !SCALABLE.contains(&scalable.kind.as_str()) {
            problems.refuse("spec.scalableRef.kind", shown(&scalable.kind), SCALABLE.join(", "));
        }
        if scalable.name.is_empty() {
            problems.refuse("spec.scalableRef.name", "\"\"", "the name of a workload");
        }
        let spec = &self.spec;
        if spec.replicas.is_none() && spec.percentage.is_none() && spec.limits.is_none() {
            problems.refuse("spec", "scalableRef alone", "replicas, percentage or limits beside it");
        }
    }
}

fn label(id: &PodRef) -> String {
    format!("CapacityBuffer/{}/{}", id.namespace, id.name)
}

fn unsigned(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// So many percent of a number, rounded up; at least one where neither is nothing.
fn share(of: u32, percent: u32) -> u32 {
    let exact = u64::from(of) * u64::from(percent);
    u32::try_from(exact.div_ceil(100)).unwrap_or(u32::MAX)
}

/// How many times the requests go into the limits; nothing where the two have no resource in
/// common.
fn copies(limits: &Resources, requests: &Resources) -> Option<u32> {
    let times = limits.iter().filter_map(|(name, limit)| {
        let request = requests.get(name).nanos();
        (request > 0).then(|| u32::try_from(limit.nanos() / request).unwrap_or(u32::MAX))
    });
    times.min()
}

#[cfg(test)]
mod tests;
