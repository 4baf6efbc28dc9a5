//! When a node that expires is replaced first: where its pool asked for it by
//! `outrigger.dev/graceful-expiry` when it was launched.
//!
//! Karpenter ends a node at `expireAfter` whatever is in its place. Here it becomes a candidate
//! some time before, and is ended by force only some time after.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{NillableDuration, NodeClaim, labels};

/// So long before it expires a node becomes a candidate, at most, and a tenth of its life.
const LEAD: Duration = Duration::from_hours(1);
/// So long after it has expired its replacement is still waited for.
const FORCED_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// When a node that expires gracefully is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GracefulExpiry {
    /// From when on it is a candidate.
    pub replaced_from: Timestamp,
    /// When it expires.
    pub at: Timestamp,
    /// When it is ended by force, if it is still there.
    pub forced_at: Timestamp,
}

impl GracefulExpiry {
    /// Whether the pool of a claim asked for it. The claim keeps that, as it keeps `expireAfter`.
    pub fn is_asked_for(claim: &NodeClaim) -> bool {
        claim.spec.annotations.get(labels::GRACEFUL_EXPIRY).is_some_and(|wish| wish == "true")
    }

    /// Of a node with this life; `None` where it lives for ever.
    pub fn for_lifetime(created_at: Timestamp, expire_after: NillableDuration) -> Option<Self> {
        let life = expire_after.get()?;
        let at = created_at.checked_add(SignedDuration::try_from(life).ok()?).ok()?;
        let lead = SignedDuration::try_from(LEAD.min(life / 10)).ok()?;
        let (replaced_from, forced_at) = (at.checked_sub(lead).ok()?, at.checked_add(FORCED_AFTER).ok()?);
        Some(Self { replaced_from, at, forced_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_replaced_some_time_before_they_expire() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let minutes = |count: u64| NillableDuration::seconds(count * 60);
        // The life, and the minutes of which each moment is.
        let table = [
            (minutes(1_000), Some([940, 1_000, 1_060])),
            (minutes(100), Some([90, 100, 160])),
            (NillableDuration::NEVER, None),
        ];
        for (life, expected) in table {
            let expiry = GracefulExpiry::for_lifetime(at(0), life);
            let expiry = expiry.map(|expiry| [expiry.replaced_from, expiry.at, expiry.forced_at]);
            assert_eq!(expiry, expected.map(|minutes| minutes.map(at)), "{life}");
        }
    }
}
