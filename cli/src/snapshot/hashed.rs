//! A Snapshot whose names say nothing: each is replaced by a hash, the same one wherever it stands,
//! so that selectors select what they did. Which hash it is differs from run to run.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use outrigger_model::{Snapshot, labels};
use serde_json::{Map, Value};

use crate::error::CliError;

/// Fields whose texts are names, or `namespace/name`.
const NAMES: [&str; 22] = [
    "claim",
    "claims",
    "cluster",
    "command",
    "daemonSet",
    "delete",
    "group",
    "id",
    "intent",
    "name",
    "namespace",
    "node",
    "nodeClassRef",
    "nodeName",
    "nodePool",
    "nominatedNode",
    "object",
    "pod",
    "pods",
    "scheduler",
    "uid",
    "volumeClaims",
];
/// Fields that hold labels, or what is like them.
const LABELS: [&str; 5] = ["labels", "matchLabels", "namespaces", "nodeSelector", "tags"];
/// Domains of labels whose values anybody may know: zones, types, and what types have.
const PUBLIC_DOMAINS: [&str; 5] = [
    "karpenter.k8s.aws",
    "node.kubernetes.io",
    "topology.ebs.csi.aws.com",
    "topology.k8s.aws",
    "topology.kubernetes.io",
];
/// Labels beside those whose values anybody may know.
const PUBLIC_LABELS: [&str; 5] = [
    labels::ARCH,
    labels::CAPACITY_TYPE,
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
];
/// Domains of labels that anybody may know.
const PUBLIC_KEYS: [&str; 6] =
    ["kubernetes.io", "k8s.io", "k8s.aws", "karpenter.sh", "outrigger.dev", "aws.com"];
/// Fields whose keys are names.
const MAPS_BY_NAME: [&str; 5] = ["demand", "demandHistory", "drifted", "podEvents", "waste"];
/// Words that are no secret, and that mean something where they stand.
const WORDS: [&str; 41] = [
    "",
    "Always",
    "Bound",
    "DaemonSet",
    "Deployment",
    "DoesNotExist",
    "EC2NodeClass",
    "Equal",
    "Exists",
    "Gated",
    "Gt",
    "Honor",
    "Ignore",
    "In",
    "InstanceGroup",
    "Job",
    "Lt",
    "NoExecute",
    "NoSchedule",
    "Node",
    "NotIn",
    "PreferNoSchedule",
    "Ready",
    "ReplicaSet",
    "StatefulSet",
    "Waiting",
    "amd64",
    "arm64",
    "default",
    "default-scheduler",
    "false",
    labels::EC2_GROUP,
    labels::KOPS_GROUP,
    "outrigger.dev",
    "kube-system",
    "linux",
    "on-demand",
    "reserved",
    "spot",
    "true",
    "zone",
];

/// The same Snapshot with hashes for names. What it says for people of single objects is dropped.
pub(super) fn with_hashed_names(snapshot: &Snapshot) -> Result<Snapshot, CliError> {
    let failed = |source| CliError::Print { format: "a Snapshot", source: Box::new(source) };
    let mut value = serde_json::to_value(snapshot).map_err(failed)?;
    for said in ["invalid", "unreadable"] {
        value[said] = Value::Array(Vec::new());
    }
    silence(&mut value);
    let (mut names, mut fields) = (BTreeSet::new(), BTreeSet::new());
    gather(&value, "", &mut names);
    gather_field_names(&value, "", &mut fields);
    names.retain(|name| !fields.contains(name));
    let hasher = Hasher { names, state: RandomState::new() };
    hasher.apply(&mut value);
    serde_json::from_value(value).map_err(failed)
}

/// Takes away what is said in sentences, and what could not be read.
fn silence(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(silence),
        Value::Object(map) => {
            for (field, value) in map.iter_mut() {
                match field.as_str() {
                    "remarks" => *value = Value::Array(Vec::new()),
                    "found" | "notReady" if value.is_string() => *value = Value::from("not shown"),
                    "instanceTypes" => {}
                    _ => silence(value),
                }
            }
        }
        _ => {}
    }
}

/// Gathers what is a name below a field.
fn gather(value: &Value, field: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if NAMES.contains(&field) => names.extend(words(text).map(str::to_owned)),
        Value::Array(items) => items.iter().for_each(|item| gather(item, field, names)),
        Value::Object(map) if LABELS.contains(&field) => {
            map.iter().for_each(|(key, value)| gather_label(key, value, names));
        }
        Value::Object(map) => gather_fields(map, field, names),
        _ => {}
    }
}

fn gather_fields(map: &Map<String, Value>, field: &str, names: &mut BTreeSet<String>) {
    // A taint, a toleration or a requirement.
    if let Some(key) = map.get("key").or_else(|| map.get("topologyKey")).and_then(Value::as_str) {
        for value in ["value", "values"].iter().filter_map(|value| map.get(*value)) {
            gather_label(key, value, names);
        }
        gather_label(key, &Value::Null, names);
    }
    for (inner, value) in map {
        // What can be bought is no secret.
        if inner != "instanceTypes" {
            gather(value, inner, names);
        }
        if MAPS_BY_NAME.contains(&field) {
            names.extend(words(inner).map(str::to_owned));
        }
    }
}

fn gather_label(key: &str, value: &Value, names: &mut BTreeSet<String>) {
    let domain = key.rsplit_once('/').map_or("", |(domain, _)| domain);
    let is_of = |public: &str| domain == public || domain.ends_with(&format!(".{public}"));
    if !PUBLIC_KEYS.iter().any(|public| is_of(public)) {
        names.insert(key.to_owned());
        names.extend(words(key).map(str::to_owned));
    }
    if PUBLIC_DOMAINS.contains(&domain) || PUBLIC_LABELS.contains(&key) {
        return;
    }
    match value {
        Value::String(text) => names.extend(words(text).map(str::to_owned)),
        Value::Array(items) => items.iter().for_each(|item| gather_label(key, item, names)),
        Value::Object(map) => map.iter().for_each(|(key, value)| gather_label(key, value, names)),
        _ => {}
    }
}

/// What the Snapshot's own fields are called, which is no name of anybody's.
fn gather_field_names(value: &Value, field: &str, fields: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| gather_field_names(item, field, fields)),
        Value::Object(map) if !LABELS.contains(&field) => {
            let is_named = MAPS_BY_NAME.contains(&field);
            fields.extend(map.keys().filter(|_| !is_named).cloned());
            map.iter().for_each(|(inner, value)| gather_field_names(value, inner, fields));
        }
        _ => {}
    }
}

/// The parts of a text that can be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('/').filter(|word| !WORDS.contains(word) && !word.chars().all(|c| c.is_ascii_digit()))
}

struct Hasher {
    names: BTreeSet<String>,
    state: RandomState,
}

impl Hasher {
    fn apply(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.replaced(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.apply(item)),
            Value::Object(map) => {
                let entries = std::mem::take(map);
                map.extend(entries.into_iter().map(|(key, mut value)| {
                    if key != "instanceTypes" {
                        self.apply(&mut value);
                    }
                    (self.replaced(&key), value)
                }));
            }
            _ => {}
        }
    }

    /// A text with a hash for each part of it that is a name.
    fn replaced(&self, text: &str) -> String {
        let part = |part: &str| {
            if self.names.contains(part) {
                format!("x{:015x}", self.state.hash_one(part) >> 4)
            } else {
                part.to_owned()
            }
        };
        text.split('/').map(part).collect::<Vec<_>>().join("/")
    }
}
