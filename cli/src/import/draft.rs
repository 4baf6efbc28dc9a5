//! Objects on their way to what Outrigger takes: `apiVersion`, `kind`, `metadata` and `spec`.

use std::collections::BTreeMap;

use outrigger_kubernetes::RawObject;
use serde_json::{Map, Value, json};

use super::note::{Fate, Notes, Origin, shown};

/// What the API server and controllers write in `metadata`: it is of the cluster that it comes
/// from.
const WRITTEN_BY_SERVERS: [&str; 10] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "finalizers",
    "ownerReferences",
];
/// Annotations that kubectl and Karpenter write for themselves.
const WRITTEN_ANNOTATIONS: [&str; 7] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "karpenter.sh/nodepool-hash",
    "karpenter.sh/nodepool-hash-version",
    "karpenter.sh/stored-version-migrated",
    "karpenter.k8s.aws/ec2nodeclass-hash",
    "karpenter.k8s.aws/ec2nodeclass-hash-version",
    "compatibility.karpenter.sh/v1beta1-nodeclass-reference",
];
/// kOps prunes objects with these labels once the addon no longer has them.
const ADDON_LABELS: [&str; 3] = ["addon.kops.k8s.io/name", "addon.kops.k8s.io/version", "k8s-addon"];
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// An object in the form that Outrigger takes, as far as it has come.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// Where it came from.
    pub(super) origin: Origin,
    /// Its name.
    pub(super) name: String,
    /// All of it.
    pub(super) value: Value,
}

impl Draft {
    /// An object with its metadata cleaned. `None` where it has no name or is being deleted, which
    /// is noted.
    pub(super) fn of(raw: RawObject, version: &str, kind: &str, notes: &mut Notes) -> Option<Self> {
        let RawObject { file, kind: old_kind, mut value, .. } = raw;
        let name = value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let origin = Origin { file, object: format!("{old_kind}/{name}") };
        if name.is_empty() {
            notes.add(Fate::LeftOut, &origin, "metadata.name", "nothing", "allowed: the object's name");
            return None;
        }
        if let Some(time) = value.pointer("/metadata/deletionTimestamp").filter(|time| !time.is_null()) {
            let advice = "it is being deleted, and nothing is made of it";
            notes.add(Fate::PassedOver, &origin, "metadata.deletionTimestamp", shown(time), advice);
            return None;
        }
        let mut fields = value.as_object_mut().map(std::mem::take).unwrap_or_default();
        let metadata = cleaned_metadata(fields.remove("metadata").unwrap_or_default(), &origin, notes);
        let spec = fields.remove("spec").unwrap_or_else(|| json!({}));
        for known in ["apiVersion", "kind", "status"] {
            fields.remove(known);
        }
        for (field, value) in &fields {
            notes.add(Fate::NotCarried, &origin, field, shown(value), "allowed: metadata and spec");
        }
        let value = json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec});
        Some(Self { origin, name, value })
    }

    /// Its spec, where that has fields.
    pub(super) fn spec(&mut self) -> Option<&mut Map<String, Value>> {
        self.map("/spec")
    }

    /// The fields at a JSON pointer.
    pub(super) fn map(&mut self, pointer: &str) -> Option<&mut Map<String, Value>> {
        self.value.pointer_mut(pointer).and_then(Value::as_object_mut)
    }

    /// The text at a JSON pointer.
    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        self.value.pointer(pointer).and_then(Value::as_str)
    }

    /// Takes an annotation off.
    pub(super) fn take_annotation(&mut self, key: &str) -> Option<Value> {
        let annotations = self.map("/metadata/annotations")?;
        let taken = annotations.remove(key);
        if annotations.is_empty() {
            self.map("/metadata")?.remove("annotations");
        }
        taken
    }
}

/// Objects by their names.
pub(super) type Drafts = BTreeMap<String, Draft>;

/// Adds an object, unless there is one of its name.
pub(super) fn add(drafts: &mut Drafts, draft: Draft, notes: &mut Notes) {
    if let Some(first) = drafts.get(&draft.name) {
        let Origin { file, object } = &first.origin;
        let advice = format!("allowed: each name once; {object} of {file} is used");
        let found = format!("{:?} a second time", draft.name);
        notes.add(Fate::LeftOut, &draft.origin, "metadata.name", found, advice);
    } else {
        drafts.insert(draft.name.clone(), draft);
    }
}

/// Name, labels and annotations, without what others than users write there.
fn cleaned_metadata(metadata: Value, origin: &Origin, notes: &mut Notes) -> Map<String, Value> {
    let Value::Object(mut metadata) = metadata else { return Map::new() };
    metadata.retain(|field, value| !WRITTEN_BY_SERVERS.contains(&field.as_str()) && !value.is_null());
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !WRITTEN_ANNOTATIONS.contains(&key.as_str()));
    }
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.retain(|key, value| {
            let of_addon = ADDON_LABELS.contains(&key.as_str()) || (key == MANAGED_BY && *value == "kops");
            if of_addon {
                let advice = "kOps deletes what has it once its addon is gone";
                notes.add(Fate::NotCarried, origin, format!("metadata.labels[{key}]"), shown(value), advice);
            }
            !of_addon
        });
    }
    metadata.retain(|field, value| {
        let is_kept = ["name", "labels", "annotations"].contains(&field.as_str());
        if !is_kept {
            let field = format!("metadata.{field}");
            notes.add(Fate::NotCarried, origin, field, shown(value), "allowed: name, labels and annotations");
        }
        is_kept && value.as_object().is_none_or(|map| !map.is_empty())
    });
    metadata
}
