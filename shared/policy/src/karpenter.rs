//! Whose a NodePool is where a Karpenter may live beside us.
//!
//! Karpenter takes every pool for its own whose class is of its kinds, and leaves alone those whose
//! class is an InstanceGroup. So a pool of the first sort is ours only while no live Karpenter
//! holds its Lease, or where the pool is annotated `outrigger.dev/managed: "true"`.

use jiff::Timestamp;
use outrigger_model::karpenter_lease::{NAME, NAMESPACE};
use outrigger_model::{KarpenterLease, NodeClassRef, NodePool, Snapshot};

/// Whose a pool is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Ours.
    Ours,
    /// A live Karpenter's, and how that is known.
    Karpenter(String),
    /// Nobody knows, and why.
    Unknown(String),
}

impl Owner {
    /// Whose a pool of this class is; of a class that cannot be read, too.
    pub fn of_class(
        class: Option<&NodeClassRef>,
        is_managed: bool,
        lease: &KarpenterLease,
        now: Timestamp,
    ) -> Self {
        if is_managed || class.is_some_and(NodeClassRef::is_instance_group) {
            return Self::Ours;
        }
        match lease {
            KarpenterLease::Known(lease) if lease.is_live(now) => Self::Karpenter(format!(
                "it is Karpenter's: its lease {NAME} in {NAMESPACE} is held by {}",
                lease.holder
            )),
            KarpenterLease::Known(_) | KarpenterLease::Absent => Self::Ours,
            KarpenterLease::Unreadable(why) => Self::Unknown(format!(
                "it may be Karpenter's: its lease {NAME} in {NAMESPACE} could not be read: {why}"
            )),
        }
    }

    /// Whose a pool of a snapshot is.
    pub fn of_pool(pool: &NodePool, snapshot: &Snapshot) -> Self {
        let (lease, now) = (&snapshot.karpenter_lease, snapshot.taken_at);
        Self::of_class(Some(pool.node_class()), pool.is_managed(), lease, now)
    }
}
