//! What `lifecycle` remembers.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_model::SeenResources;
use serde::{Deserialize, Serialize};

use super::{Lease, LedgerError};

/// What `lifecycle` alone remembers, beside the claims.
#[async_trait]
pub trait LifecycleMemory: Send + Sync {
    /// What the last sweep found; an empty one before the first.
    async fn sweep(&self) -> Result<Sweep, LedgerError>;

    /// Keeps what a sweep found; with a lease, only while that is ours. Errors with
    /// [`LedgerError::LeaseLost`] when it has gone.
    async fn put_sweep(&self, sweep: &Sweep, lease: Option<&Lease>) -> Result<(), LedgerError>;

    /// Remembers what nodes of a type offer under an image and a class, unless a version that is no
    /// older is there. It is forgotten 60 days after the last lesson (Karpenter's discovered
    /// capacity).
    async fn put_seen_resources(&self, seen: &SeenResources, at: Timestamp) -> Result<(), LedgerError>;
}

/// What sweeps found amiss. One look proves nothing, so each finding keeps the time of the first
/// sweep that made it, for as long as every sweep makes it again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Sweep {
    /// When it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// Instances that no claim and no open launch accounts for, by id.
    pub orphans: BTreeMap<String, Timestamp>,
    /// Those of them whose node was registered, so that the ledger must have forgotten their
    /// claims.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub forgotten: BTreeMap<String, Timestamp>,
    /// Claims whose instance EC2 does not show, by name.
    pub missing: BTreeMap<String, Timestamp>,
    /// Claims whose Node is gone, by name.
    pub nodeless: BTreeMap<String, Timestamp>,
    /// Nodes of ours that have neither claim nor instance, by uid.
    pub abandoned: BTreeMap<String, Timestamp>,
    /// Nodes that are closed as for a drain while their claims live, by uid.
    pub closed: BTreeMap<String, Timestamp>,
    /// Launch templates of our own that nobody uses any more, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, Timestamp>,
    /// Claims whose end began of late since somebody deleted them, by name, and when that was; none
    /// whose end was said to be meant.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub deleted: BTreeMap<String, Timestamp>,
    /// Whether so many nodes were not ready that nothing was concluded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub partitioned: bool,
    /// How many instances the breaker kept from being terminated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<usize>,
}
