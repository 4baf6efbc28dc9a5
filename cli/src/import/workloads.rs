//! Names that Karpenter had before v1 in what runs on its nodes: nodes do not carry them any more.

use outrigger_kubernetes::RawObject;
use serde_json::Value;

use super::note::{Fate, Notes, Origin};

/// The kinds that have pods, or are some.
const KINDS: [&str; 10] = [
    "Pod",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicaSet",
    "ReplicationController",
    "Job",
    "CronJob",
    "PodTemplate",
    "PersistentVolume",
];
/// Old names and new ones.
const RENAMED: [(&str, &str); 3] = [
    ("karpenter.sh/provisioner-name", "karpenter.sh/nodepool"),
    ("karpenter.sh/do-not-evict", "karpenter.sh/do-not-disrupt"),
    ("karpenter.sh/do-not-consolidate", "karpenter.sh/do-not-disrupt"),
];

/// Notes where an object that has pods has old names. Objects that others have made are passed
/// over: what made them has the names too.
pub(super) fn note_old_names(raw: &RawObject, notes: &mut Notes) {
    let is_made = raw.value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    if !KINDS.contains(&raw.kind.as_str()) || is_made.is_some_and(|owners| !owners.is_empty()) {
        return;
    }
    let text = |pointer: &str| raw.value.pointer(pointer).and_then(Value::as_str);
    let mut object = raw.kind.clone();
    for part in [text("/metadata/namespace"), text("/metadata/name")].into_iter().flatten() {
        object = format!("{object}/{part}");
    }
    let origin = Origin { file: raw.file.clone(), object };
    for part in ["metadata", "spec", "template"] {
        look_into(&raw.value[part], part, &origin, notes);
    }
}

fn look_into(value: &Value, path: &str, origin: &Origin, notes: &mut Notes) {
    match value {
        Value::String(text) => note_if_old(text, path, origin, notes),
        Value::Object(map) => {
            for (key, value) in map {
                let is_plain = !key.contains(['.', '/']);
                let field = if is_plain { format!("{path}.{key}") } else { format!("{path}[{key}]") };
                note_if_old(key, &field, origin, notes);
                look_into(value, &field, origin, notes);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                look_into(value, &format!("{path}[{index}]"), origin, notes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn note_if_old(name: &str, field: &str, origin: &Origin, notes: &mut Notes) {
    if let Some((_, new)) = RENAMED.iter().find(|(old, _)| *old == name) {
        notes.add(Fate::ToDo, origin, field, format!("{name:?}"), format!("write {new} instead"));
    }
}
