//! Karpenter's `karpenter.sh/v1alpha5` Provisioner, as a NodePool of v1.
//!
//! What v1alpha5 took for granted is written out where v1 takes something else for granted
//! (Karpenter 0.31: its defaulting webhook).

use outrigger_model::invalid;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::carry::{carry, only_unknown};
use super::draft::Draft;
use super::karpenter_v1beta1::note_expiry;
use super::note::{Fate, Notes};

const OS: &str = "kubernetes.io/os";
const ARCH: &str = "kubernetes.io/arch";
const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
const GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// Keys of which each says which instance types are meant.
const TYPE_KEYS: [&str; 4] =
    ["node.kubernetes.io/instance-type", "karpenter.k8s.aws/instance-family", CATEGORY, GENERATION];

/// The spec of a Provisioner.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProvisionerSpec {
    annotations: Map<String, Value>,
    labels: Map<String, Value>,
    taints: Vec<Value>,
    startup_taints: Vec<Value>,
    requirements: Vec<Value>,
    kubelet_configuration: Option<Value>,
    provider: Option<Map<String, Value>>,
    provider_ref: Option<ProviderRef>,
    ttl_seconds_after_empty: Option<u64>,
    ttl_seconds_until_expired: Option<u64>,
    limits: Limits,
    weight: Option<Value>,
    consolidation: Consolidation,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ProviderRef {
    #[serde(rename = "apiVersion")]
    _api_version: Option<String>,
    #[serde(rename = "kind")]
    _kind: Option<String>,
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Limits {
    resources: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Consolidation {
    enabled: Option<bool>,
}

/// What a Provisioner becomes.
pub(super) struct Converted {
    /// The NodePool.
    pub(super) pool: Draft,
    /// Its kubelet settings, which v1 has in the class.
    pub(super) kubelet: Option<Value>,
    /// The spec of the AWSNodeTemplate that it has within itself.
    pub(super) provider: Option<Value>,
}

/// Makes a Provisioner into a NodePool. `None` where it is left out.
pub(super) fn convert(mut draft: Draft, notes: &mut Notes) -> Option<Converted> {
    let object = draft.origin.object.clone();
    let read = |value: &Value| invalid::read::<ProvisionerSpec>(&object, "spec", &value["spec"]);
    let spec = carry(&mut draft.value, &draft.origin.file, read, only_unknown, notes)?;
    note_name(&draft, notes);
    let class = match (&spec.provider_ref, &spec.provider) {
        (Some(reference), _) => reference.name.clone(),
        (None, Some(_)) => draft.name.clone(),
        (None, None) => String::new(),
    };
    let expire_after = seconds(spec.ttl_seconds_until_expired);
    if let Some(seconds) = spec.ttl_seconds_until_expired {
        note_expiry(&seconds.into(), "spec.ttlSecondsUntilExpired", &draft, notes);
    }
    let disruption = disruption(&spec, &draft, notes);
    let mut template = json!({
        "requirements": with_defaults(spec.requirements, &spec.labels),
        "expireAfter": expire_after,
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": class},
    });
    insert_list(&mut template, "taints", spec.taints);
    insert_list(&mut template, "startupTaints", spec.startup_taints);
    let mut metadata = json!({});
    insert_map(&mut metadata, "labels", spec.labels);
    insert_map(&mut metadata, "annotations", spec.annotations);
    let mut pool = json!({"template": {"metadata": metadata, "spec": template}, "disruption": disruption});
    insert_map(&mut pool, "limits", spec.limits.resources);
    if let Some(weight) = spec.weight.filter(|weight| *weight != 0) {
        pool["weight"] = weight;
    }
    draft.value["spec"] = pool;
    Some(Converted {
        pool: draft,
        kubelet: spec.kubelet_configuration.filter(|kubelet| !kubelet.is_null()),
        provider: spec.provider.map(Value::Object),
    })
}

/// Pods know Provisioners by a label that NodePools do not have.
fn note_name(draft: &Draft, notes: &mut Notes) {
    let name = &draft.name;
    let advice = format!(
        "pods that select karpenter.sh/provisioner-name: {name} select karpenter.sh/nodepool: {name} from now on"
    );
    notes.add(Fate::ToDo, &draft.origin, "metadata.name", format!("{name:?}"), advice);
}

/// How nodes are disrupted. Without either field v1alpha5 ended no node to save money.
fn disruption(spec: &ProvisionerSpec, draft: &Draft, notes: &mut Notes) -> Value {
    let after_empty = spec.ttl_seconds_after_empty;
    if spec.consolidation.enabled == Some(true) {
        if let Some(seconds) = after_empty {
            let advice = "allowed: this or consolidation.enabled; consolidation is carried";
            let field = "spec.ttlSecondsAfterEmpty";
            notes.add(Fate::NotCarried, &draft.origin, field, seconds.to_string(), advice);
        }
        return json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"});
    }
    json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": seconds(after_empty)})
}

/// A number of seconds as v1 writes it; nothing is never.
fn seconds(seconds: Option<u64>) -> Value {
    match seconds {
        None => "Never".into(),
        Some(seconds) if seconds > 0 && seconds % 3_600 == 0 => format!("{}h", seconds / 3_600).into(),
        Some(seconds) => format!("{seconds}s").into(),
    }
}

/// The requirements with those that v1alpha5 added where nothing was said.
fn with_defaults(mut requirements: Vec<Value>, labels: &Map<String, Value>) -> Vec<Value> {
    let named: Vec<String> =
        requirements.iter().filter_map(|one| one["key"].as_str()).map(str::to_owned).collect();
    let is_said = |key: &str| labels.contains_key(key) || named.iter().any(|name| name == key);
    let mut defaults = vec![
        json!({"key": OS, "operator": "In", "values": ["linux"]}),
        json!({"key": ARCH, "operator": "In", "values": ["amd64"]}),
        json!({"key": CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]}),
    ];
    defaults.retain(|default| default["key"].as_str().is_none_or(|key| !is_said(key)));
    if !TYPE_KEYS.into_iter().any(is_said) {
        defaults.push(json!({"key": CATEGORY, "operator": "In", "values": ["c", "m", "r"]}));
        defaults.push(json!({"key": GENERATION, "operator": "Gt", "values": ["2"]}));
    }
    requirements.extend(defaults);
    requirements
}

fn insert_list(object: &mut Value, field: &str, list: Vec<Value>) {
    if !list.is_empty() {
        object[field] = list.into();
    }
}

fn insert_map(object: &mut Value, field: &str, map: Map<String, Value>) {
    if !map.is_empty() {
        object[field] = map.into();
    }
}
