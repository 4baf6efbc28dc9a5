//! What is kept of each object.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1 as storage_api;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use outrigger_model::selector::LabelSelector;
use outrigger_model::{PodRef, Quantity, Requirement, Requirements, labels};

use super::super::affinity::node_term;
use super::super::bounds::{self, MAX_TERMS, MAX_VALUES};
use super::super::problem::{Problem, Within, each};
use super::super::selector::{nothing, selector};
use super::driver;

/// The node for which kube-scheduler has asked that a claim's volume be made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
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
    pub(super) selected_node: Option<String>,
    /// Who may use it, as `ReadWriteOnce`.
    pub(super) access_modes: Vec<String>,
    /// How large its volume must be at least.
    pub(super) size: Quantity,
    /// `Filesystem` or `Block`.
    pub(super) volume_mode: String,
    /// The labels that a volume must have which was made beforehand.
    pub(super) selector: Option<LabelSelector>,
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
    /// What a node must be like, with the host that its data lie on left out.
    pub(super) alternatives: Alternatives,
    /// The same with that host.
    pub(super) on_host: Alternatives,
    pub(super) deleting: bool,
    /// Whether no claim is bound to it and none is being bound.
    pub(super) available: bool,
    /// The claim that it is kept for.
    pub(super) kept_for: Option<PodRef>,
    pub(super) class: String,
    pub(super) access_modes: Vec<String>,
    pub(super) size: Quantity,
    /// `Filesystem` or `Block`.
    pub(super) mode: String,
    pub(super) labels: BTreeMap<String, String>,
}

/// What is kept of a StorageClass.
#[derive(Debug)]
pub(super) struct StorageClass {
    pub(super) driver: String,
    /// Whether volumes are made for its claims; without a provisioner they take those that are
    /// there.
    pub(super) makes_volumes: bool,
    /// Whether it waits for a pod before it makes or takes a volume.
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
    let selects = |wire| selector(Some(wire)).unwrap_or_else(|_| nothing());
    let selector = spec.selector.as_ref().map(selects);
    Ok(Claim {
        size: storage(spec.resources.and_then(|resources| resources.requests)).unwrap_or(Quantity::ZERO),
        volume_mode: volume_mode(spec.volume_mode),
        selector,
        selected_node: annotations.get(SELECTED_NODE).filter(|node| !node.is_empty()).cloned(),
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
    let metadata = wire.metadata;
    let (driver, handle) = driver::of_volume(&spec);
    // What lies on a host is made anew on the next one, so that host is no condition (Karpenter).
    let on_host = spec.local.is_some() || spec.host_path.is_some();
    let required = spec.node_affinity.as_ref().and_then(|affinity| affinity.required.as_ref());
    let labels = metadata.labels.unwrap_or_default();
    let of_terms = |host: Host| -> Result<Alternatives, Problem> {
        let terms = required.map(|required| node_terms(required, host).within("spec.nodeAffinity.required"));
        Ok(in_places(terms.transpose()?.unwrap_or(Some(Vec::new())), &places(&labels)))
    };
    let phase = wire.status.and_then(|status| status.phase);
    let kept_for = spec.claim_ref.as_ref().map(|claim| PodRef {
        namespace: claim.namespace.clone().unwrap_or_default(),
        name: claim.name.clone().unwrap_or_default(),
    });
    Ok(Volume {
        alternatives: of_terms(if on_host { Host::LeftOut } else { Host::Kept })?,
        on_host: of_terms(Host::Kept)?,
        driver,
        handle,
        deleting: metadata.deletion_timestamp.is_some(),
        available: phase.is_none_or(|phase| phase == "Available"),
        kept_for,
        class: metadata
            .annotations
            .unwrap_or_default()
            .remove(CLASS)
            .or(spec.storage_class_name)
            .unwrap_or_default(),
        access_modes: spec.access_modes.unwrap_or_default(),
        size: storage(spec.capacity).unwrap_or(Quantity::ZERO),
        mode: volume_mode(spec.volume_mode),
        labels,
    })
}

/// Whether a condition on the host's name is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Host {
    Kept,
    LeftOut,
}

fn in_places(alternatives: Alternatives, places: &Requirements) -> Alternatives {
    let mut alternatives = alternatives?;
    if !places.is_empty() {
        if alternatives.is_empty() {
            alternatives.push(Requirements::new());
        }
        for alternative in &mut alternatives {
            alternative.add_all(places);
        }
    }
    Some(alternatives)
}

/// The amount of storage. It matters to volumes that are taken, and no other claim depends on its
/// being readable.
fn storage(amounts: Option<BTreeMap<String, WireQuantity>>) -> Option<Quantity> {
    amounts?.remove("storage")?.0.parse().ok()
}

fn volume_mode(mode: Option<String>) -> String {
    mode.filter(|mode| !mode.is_empty()).unwrap_or_else(|| "Filesystem".to_owned())
}

pub(super) fn class(wire: storage_api::StorageClass) -> Result<StorageClass, Problem> {
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
        makes_volumes: wire.provisioner != driver::NO_PROVISIONER,
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

fn node_terms(required: &core::NodeSelector, host: Host) -> Result<Alternatives, Problem> {
    let terms = each("nodeSelectorTerms", Some(&required.node_selector_terms), MAX_TERMS, |wire| {
        let term = node_term(wire)?;
        if term.has_match_fields {
            let allowed = "matchExpressions only; a new node has no name yet";
            return Err(Problem::new("matchFields", "a condition", allowed));
        }
        let is_kept = |key: &str| host == Host::Kept || key != labels::HOSTNAME;
        let kept = term.match_expressions.iter().filter(|spec| is_kept(&spec.key));
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
