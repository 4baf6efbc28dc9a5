//! Why a node is no longer what its NodePool and its node class ask for: Karpenter's drift.
//!
//! What is not known has not changed: a node without a hash, or with one of another version, has
//! not drifted by it, and a class that could not be resolved keeps all nodes of its pools as they
//! are.

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{ClassOffer, Conflict, NodePool, Requirements, labels};

use super::managed_nodes::ManagedNode;

/// How old a node must be before it drifts by its instance type, which the catalogue may learn of
/// late (Karpenter).
const TYPE_PATIENCE: SignedDuration = SignedDuration::from_hours(1);

/// Why a node has drifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriftReason {
    /// The template of its NodePool has changed, its requirements aside.
    NodePool,
    /// Its labels do not meet the requirements of its NodePool, or of its class.
    Requirements(Conflict),
    /// What its machine was made from has changed.
    NodeClass,
    /// Its class has other images now.
    Image {
        /// The image that it runs.
        image: String,
    },
    /// Its class makes its instance type no longer.
    InstanceType {
        /// The type.
        instance_type: String,
    },
}

impl DriftReason {
    /// Its code, which does not change; Karpenter's.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NodePool => "NodePoolDrifted",
            Self::Requirements(_) => "RequirementsDrifted",
            Self::NodeClass => "NodeClassDrift",
            Self::Image { .. } => "AMIDrift",
            Self::InstanceType { .. } => "InstanceTypeNotFound",
        }
    }
}

impl fmt::Display for DriftReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NodePool => f.write_str("the template of its NodePool has changed"),
            Self::Requirements(conflict) => conflict.fmt(f),
            Self::NodeClass => f.write_str("its node class has changed"),
            Self::Image { image } => write!(f, "its class does not have the image {image} any more"),
            Self::InstanceType { instance_type } => {
                write!(f, "its class makes no instance type {instance_type} any more")
            }
        }
    }
}

/// Why a node has drifted; nothing where it has not.
pub(crate) fn reasons(managed: &ManagedNode<'_>, now: Timestamp) -> Vec<DriftReason> {
    let (Some(pool), Some(offer)) = (managed.pool, managed.offer) else { return Vec::new() };
    if offer.class.not_ready.is_some() {
        return Vec::new();
    }
    let pool_hash = Some(pool.template_hash());
    let of_pool = is_other(managed.annotation(labels::NODE_POOL_HASH), pool_hash.as_deref());
    let class_hash = offer.class.template_hash();
    let of_class = is_other(managed.annotation(labels::NODE_CLASS_HASH), class_hash.as_deref());
    let reasons = [
        of_pool.then_some(DriftReason::NodePool),
        unmet(managed, pool, offer).map(DriftReason::Requirements),
        of_class.then_some(DriftReason::NodeClass),
        other_image(managed, offer),
        lost_type(managed, offer, now),
    ];
    reasons.into_iter().flatten().collect()
}

/// Whether two hashes of the same version differ.
fn is_other(then: Option<&str>, now: Option<&str>) -> bool {
    let version = |hash: &str| hash.split_once('-').map(|(version, _)| version.to_owned());
    let (Some(then), Some(now)) = (then, now) else { return false };
    version(then) == version(now) && then != now
}

/// What the pool or the class asks for and the node's labels do not have. A well-known label that
/// nobody has written down is not known.
fn unmet(managed: &ManagedNode<'_>, pool: &NodePool, offer: &ClassOffer) -> Option<Conflict> {
    let mut wanted: Requirements = pool.spec.template.spec.requirements.iter().collect();
    wanted.add_all(&offer.class.requirements);
    let has = known_labels(managed);
    let unknown: Vec<String> = wanted
        .iter()
        .map(|(key, _)| key)
        .filter(|key| labels::is_well_known(key) && !has.contains_key(*key))
        .map(str::to_owned)
        .collect();
    for key in &unknown {
        wanted.remove(key);
    }
    wanted.match_labels(&has).err()
}

/// The labels of the node, those of its claim and of its type where it does not say, by their
/// current names.
fn known_labels(managed: &ManagedNode<'_>) -> BTreeMap<String, String> {
    let of_type = managed.known_type().into_iter().flat_map(|instance_type| &instance_type.labels);
    let labels = of_type.chain(managed.claim_labels()).chain(&managed.node.labels);
    labels.map(|(key, value)| (labels::normalized(key).to_owned(), value.clone())).collect()
}

fn other_image(managed: &ManagedNode<'_>, offer: &ClassOffer) -> Option<DriftReason> {
    let (image, images) = (managed.image()?, &offer.class.images);
    let is_known = images.is_empty() || images.iter().any(|other| other.id == image);
    (!is_known).then(|| DriftReason::Image { image: image.to_owned() })
}

fn lost_type(managed: &ManagedNode<'_>, offer: &ClassOffer, now: Timestamp) -> Option<DriftReason> {
    let instance_type = managed.instance_type()?;
    let is_known = offer.instance_types.is_empty() || managed.known_type().is_some();
    let is_old = now.duration_since(managed.created_at()) >= TYPE_PATIENCE;
    (!is_known && is_old).then(|| DriftReason::InstanceType { instance_type: instance_type.to_owned() })
}

#[cfg(test)]
mod tests;
