//! Whose a NodePool is where a Karpenter may live beside us.
//!
//! Karpenter takes every pool for its own whose class is of its kinds, and leaves alone those whose
//! class is an InstanceGroup. So a pool of the first sort is ours only once no Karpenter has
//! renewed its Lease for ten minutes, or where it is annotated `outrigger.dev/managed: "true"`.

use jiff::Timestamp;
use outrigger_model::karpenter_lease::{NAME, NAMESPACE};
use outrigger_model::{KarpenterLease, LeaderLease, NodeClassRef, NodePool, Snapshot};

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
            KarpenterLease::Known(lease) if lease.is_live(now) => Self::Karpenter(why(lease, now)),
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

/// Why a pool is a live Karpenter's, and until when where that Karpenter is silent.
fn why(lease: &LeaderLease, now: Timestamp) -> String {
    let its = format!("its lease {NAME} in {NAMESPACE}");
    let second =
        |time: Option<Timestamp>| time.unwrap_or_default().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    if lease.is_held(now) {
        return format!("it is Karpenter's: {its} is held by {}", lease.holder);
    }
    format!(
        "it is Karpenter's until {}: {its} was renewed at {} and may be again, unless it is deleted",
        second(lease.lives_until()),
        second(lease.renewed_at)
    )
}
