//! The Lease by which a live Karpenter is told: `karpenter-leader-election` in kube-system.

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::invalid::{self, Invalid, shown};

/// The namespace of the Lease, as Karpenter's chart and kOps have it.
pub const NAMESPACE: &str = "kube-system";
/// The name of the Lease (Karpenter's `LEADER_ELECTION_NAME`).
pub const NAME: &str = "karpenter-leader-election";
/// How long a Lease holds that does not say (client-go's default, which Karpenter keeps).
const DEFAULT_SECONDS: i64 = 15;
/// How long nobody may renew the Lease until Karpenter counts as gone, and not as one that restarts
/// or moves to another node.
const SILENCE: i64 = 600;

/// What is known of Karpenter's Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KarpenterLease {
    /// There is none, or nobody looked since nothing here could be Karpenter's.
    #[default]
    Absent,
    /// It stands so.
    Known(LeaderLease),
    /// It could not be read, and why.
    Unreadable(String),
}

impl KarpenterLease {
    /// Whether nothing is to be said of it.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Whether a Karpenter lives, as far as that is known.
    pub fn may_be_live(&self, now: Timestamp) -> bool {
        match self {
            Self::Absent => false,
            Self::Known(lease) => lease.is_live(now),
            Self::Unreadable(_) => true,
        }
    }
}

/// A Lease of leader election.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderLease {
    /// Who holds it; empty once its holder has given it back.
    pub holder: String,
    /// When its holder said last that it lives.
    pub renewed_at: Option<Timestamp>,
    /// For how many seconds that counts.
    pub seconds: i64,
}

impl LeaderLease {
    /// Reads a Lease of `coordination.k8s.io/v1`.
    pub fn read(object: &Value) -> Result<Self, Invalid> {
        let renewed = object.pointer("/spec/renewTime").filter(|time| !time.is_null());
        let renewed_at = renewed.map(|time| {
            let read = time.as_str().and_then(|text| text.parse().ok());
            read.ok_or_else(|| {
                let label = format!("Lease/{NAMESPACE}/{NAME}");
                Invalid::new(label, "spec.renewTime", shown(time), "a time, as 2026-01-01T00:00:00Z")
            })
        });
        let seconds = object.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64);
        Ok(Self {
            holder: invalid::text_at(object, "/spec/holderIdentity"),
            renewed_at: renewed_at.transpose()?,
            seconds: seconds.unwrap_or(DEFAULT_SECONDS),
        })
    }

    /// Whether an object is this Lease, by its names.
    pub fn is_meant(object: &Value) -> bool {
        invalid::text_at(object, "/metadata/namespace") == NAMESPACE
            && invalid::name_of(object).is_some_and(|name| name == NAME)
    }

    /// Whether somebody holds it who was alive within its time.
    pub fn is_held(&self, now: Timestamp) -> bool {
        let age = self.renewed_at.map(|at| now.duration_since(at));
        !self.holder.is_empty() && age.is_some_and(|age| age <= SignedDuration::from_secs(self.seconds))
    }

    /// When Karpenter counts as gone, where nobody renews the Lease until then; `None` where nobody
    /// ever has. One that stops in order gives its Lease back, and may be about to start again.
    pub fn lives_until(&self) -> Option<Timestamp> {
        let silence = SignedDuration::from_secs(self.seconds.max(SILENCE));
        // Times end in the year 9999: a Lease that is renewed after that is held for ever.
        self.renewed_at.map(|at| at.checked_add(silence).unwrap_or(Timestamp::MAX))
    }

    /// Whether a Karpenter lives, or may only be restarting.
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.lives_until().is_some_and(|until| now <= until)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(spec: &Value) -> LeaderLease {
        LeaderLease::read(&json!({"spec": spec})).unwrap()
    }

    #[test]
    fn a_lease_is_held_while_its_holder_has_renewed_it_in_time() {
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let renewed = |at: &str, holder: &str| {
            lease(&json!({"holderIdentity": holder, "leaseDurationSeconds": 20, "renewTime": at}))
        };
        let table = [
            (renewed("2026-01-01T00:00:40.000000Z", "karpenter-1"), true),
            (renewed("2026-01-01T00:00:39.999999Z", "karpenter-1"), false),
            (renewed("2026-01-01T00:01:05.000000Z", "karpenter-1"), true),
            (renewed("2026-01-01T00:01:00.000000Z", ""), false),
            (lease(&json!({"holderIdentity": "karpenter-1"})), false),
            (lease(&json!({"holderIdentity": "k", "renewTime": "2026-01-01T00:00:45Z"})), true),
            (lease(&json!({"holderIdentity": "k", "renewTime": "2026-01-01T00:00:44Z"})), false),
        ];
        for (lease, held) in table {
            assert_eq!(lease.is_held(now), held, "{lease:?}");
        }
    }

    #[test]
    fn a_karpenter_that_is_down_for_ten_minutes_still_lives() {
        let now: Timestamp = "2026-01-01T00:20:00Z".parse().unwrap();
        let renewed = |at: &str, holder: &str, seconds: i64| {
            lease(&json!({"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": at}))
        };
        let table = [
            (renewed("2026-01-01T00:10:00Z", "karpenter-1", 15), true),
            (renewed("2026-01-01T00:09:59Z", "karpenter-1", 15), false),
            (renewed("2026-01-01T00:10:00Z", "", 1), true),
            (renewed("2026-01-01T00:09:59Z", "", 1), false),
            (renewed("2026-01-01T00:00:00Z", "karpenter-1", 3_600), true),
            (renewed("9999-12-30T21:59:59Z", "karpenter-1", 3_600), true),
            (lease(&json!({"holderIdentity": "karpenter-1"})), false),
        ];
        for (lease, live) in table {
            assert_eq!(lease.is_live(now), live, "{lease:?}");
        }
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        let error = LeaderLease::read(&json!({"spec": {"renewTime": "soon"}})).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Lease/kube-system/karpenter-leader-election: spec.renewTime: found \"soon\"; allowed: a time, as \
             2026-01-01T00:00:00Z"
        );
    }
}
