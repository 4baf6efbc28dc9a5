//! What is kept of each object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage;
use outrigger_model::{Requirement, Requirements, labels};

use super::super::affinity::node_term;
use super::super::bounds::{self, MAX_TERMS, MAX_VALUES};
use super::super::problem::{Problem, Within, each};
use super::driver;

/// Without it a claim that names a volume is still being bound to it.
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_CLASS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
/// Between the zones of a volume that lies in several.
const ZONES_GAP: &str = "__";

/// What is kept of a PersistentVolumeClaim.
#[derive(Debug)]
pub(super) struct Claim {
    /// The volume that it is bound to, or is being bound to; empty while there is none.
    pub(super) volume: String,
    /// Its StorageClass; empty where it wants none, absent where it wants the default.
    pub(super) class: Option<String>,
    pub(super) deleting: bool,
    pub(super) lost: bool,
    pub(super) bind_completed: bool,
    /// Who may use it, as `ReadWriteOnce`.
    pub(super) access_modes: Vec<String>,
}

impl Claim {
    /// Whether one pod alone may use it.
    pub(super) fn is_for_one_pod(&self) -> bool {
        self.access_modes.iter().any(|mode| mode == "ReadWriteOncePod")
    }
}

/// What is kept of a PersistentVolume.
#[derive(Debug)]
pub(super) struct Volume {
    pub(super) driver: String,
    pub(super) handle: String,
    pub(super) alternatives: Alternatives,
    pub(super) deleting: bool,
}

/// What is kept of a StorageClass.
#[derive(Debug)]
pub(super) struct StorageClass {
    pub(super) driver: String,
    /// Whether it waits for a pod before it makes a volume.
    pub(super) waits: bool,
    pub(super) alternatives: Alternatives,
    /// When it was made, if it is marked as the default.
    pub(super) default_since: Option<Timestamp>,
}

/// What a node must meet one of, nothing meaning that any node will do; absent where no node will.
type Alternatives = Option<Vec<Requirements>>;

pub(super) fn claim(wire: core::PersistentVolumeClaim) -> Result<Claim, Problem> {
    named(wire.metadata.name.as_deref())?;
    let annotations = wire.metadata.annotations.unwrap_or_default();
    let spec = wire.spec.unwrap_or_default();
    let phase = wire.status.and_then(|status| status.phase);
    Ok(Claim {
        access_modes: spec.access_modes.unwrap_or_default(),
        volume: spec.volume_name.unwrap_or_default(),
        class: annotations.get(CLASS).cloned().or(spec.storage_class_name),
        deleting: wire.metadata.deletion_timestamp.is_some(),
        lost: phase.as_deref() == Some("Lost"),
        bind_completed: annotations.contains_key(BIND_COMPLETED),
    })
}

pub(super) fn volume(wire: core::PersistentVolume) -> Result<Volume, Problem> {
    named(wire.metadata.name.as_deref())?;
    let spec = wire.spec.unwrap_or_default();
    let (driver, handle) = driver::of_volume(&spec);
    // What lies on a host is made anew on the next one, so that host is no condition (Karpenter).
    let on_host = spec.local.is_some() || spec.host_path.is_some();
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let mut alternatives = match required {
        Some(required) => node_terms(required, on_host).within("spec.nodeAffinity.required")?,
        None => Some(Vec::new()),
    };
    let places = places(&wire.metadata.labels.unwrap_or_default());
    if let Some(alternatives) = alternatives.as_mut().filter(|_| !places.is_empty()) {
        if alternatives.is_empty() {
            alternatives.push(Requirements::new());
        }
        for alternative in alternatives {
            alternative.add_all(&places);
        }
    }
    let deleting = wire.metadata.deletion_timestamp.is_some();
    Ok(Volume { driver, handle, alternatives, deleting })
}

pub(super) fn class(wire: storage::StorageClass) -> Result<StorageClass, Problem> {
    named(wire.metadata.name.as_deref())?;
    let annotations = wire.metadata.annotations.unwrap_or_default();
    let is_default =
        DEFAULT_CLASS.iter().any(|key| annotations.get(*key).is_some_and(|value| value == "true"));
    let made = wire.metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let waits = match wire.volume_binding_mode.as_deref() {
        None | Some("" | "Immediate") => false,
        Some("WaitForFirstConsumer") => true,
        Some(other) => {
            return Err(Problem::text("volumeBindingMode", other, "Immediate or WaitForFirstConsumer"));
        }
    };
    Ok(StorageClass {
        driver: driver::of_provisioner(&wire.provisioner).to_owned(),
        waits,
        alternatives: topologies(wire.allowed_topologies.as_deref().unwrap_or_default())?,
        default_since: is_default.then_some(made),
    })
}

fn named(name: Option<&str>) -> Result<(), Problem> {
    if name.is_some_and(|name| !name.is_empty()) {
        return Ok(());
    }
    Err(Problem::new("metadata.name", "nothing", "a name"))
}

fn node_terms(required: &core::NodeSelector, on_host: bool) -> Result<Alternatives, Problem> {
    let terms = each("nodeSelectorTerms", Some(&required.node_selector_terms), MAX_TERMS, |wire| {
        let term = node_term(wire)?;
        if term.has_match_fields {
            let allowed = "matchExpressions only; a new node has no name yet";
            return Err(Problem::new("matchFields", "a condition", allowed));
        }
        let kept = term.match_expressions.iter().filter(|spec| !on_host || spec.key != labels::HOSTNAME);
        Ok((!term.is_empty()).then(|| kept.collect::<Requirements>()))
    })?;
    Ok(one_of(terms.into_iter().flatten().collect()))
}

fn topologies(terms: &[core::TopologySelectorTerm]) -> Result<Alternatives, Problem> {
    if terms.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let terms = each("allowedTopologies", Some(terms), MAX_TERMS, |term| {
        let expressions = term.match_label_expressions.as_deref().unwrap_or_default();
        bounds::at_most("matchLabelExpressions", expressions, MAX_TERMS)?;
        let mut requirements = Requirements::new();
        for (index, expression) in expressions.iter().enumerate() {
            let list = "matchLabelExpressions";
            bounds::key("key", &expression.key).within_item(list, index)?;
            bounds::at_most("values", &expression.values, MAX_VALUES).within_item(list, index)?;
            requirements.add(&expression.key, Requirement::any_of(expression.values.iter().cloned()));
        }
        Ok((!expressions.is_empty()).then_some(requirements))
    })?;
    Ok(one_of(terms.into_iter().flatten().collect()))
}

/// Alternatives without repetition; one that asks for nothing makes all of them void.
fn one_of(alternatives: Vec<Requirements>) -> Alternatives {
    if alternatives.is_empty() {
        return None;
    }
    let mut distinct: Vec<Requirements> = Vec::new();
    for alternative in alternatives {
        if alternative.is_empty() {
            return Some(Vec::new());
        }
        if !distinct.contains(&alternative) {
            distinct.push(alternative);
        }
    }
    Some(distinct)
}

/// The zones and the region that a volume's own labels name (kube-scheduler's VolumeZone).
fn places(volume: &BTreeMap<String, String>) -> Requirements {
    let mut places = Requirements::new();
    for (key, value) in volume {
        if [labels::ZONE, labels::REGION].contains(&labels::normalized(key)) {
            places.add(key, Requirement::any_of(value.split(ZONES_GAP)));
        }
    }
    places
}
