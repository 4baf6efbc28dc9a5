//! When a node that expires is replaced first: the pools that ask for it by `outrigger.dev/graceful-expiry`.
//!
//! Karpenter ends a node at `expireAfter` whatever is in its place. Here it becomes a candidate some time before, and
//! is ended by force only some time after.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{NillableDuration, NodePool};

/// So long before it expires a node becomes a candidate, at most, and a tenth of its life.
const LEAD: Duration = Duration::from_hours(1);
/// So long after it has expired its replacement is still waited for.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

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
    /// Of a node of a pool; `None` where the pool does not ask for it, or the node lives for ever.
    pub fn of(pool: &NodePool, created_at: Timestamp, expire_after: NillableDuration) -> Option<Self> {
        pool.disruption_wishes().graceful_expiry.filter(|is_graceful| *is_graceful)?;
        let life = expire_after.get()?;
        let at = created_at.checked_add(SignedDuration::try_from(life).ok()?).ok()?;
        let lead = SignedDuration::try_from(LEAD.min(life / 10)).ok()?;
        let (replaced_from, forced_at) = (at.checked_sub(lead).ok()?, at.checked_add(PATIENCE).ok()?);
        Some(Self { replaced_from, at, forced_at })
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::{NodeClassRef, labels};

    use super::*;

    #[test]
    fn only_pools_that_ask_for_it_replace_nodes_before_they_expire() {
        let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
        let minutes = |count: u64| NillableDuration::seconds(count * 60);
        // The annotation, the life, and the minutes of which each moment is.
        let table = [
            (Some("true"), minutes(1_000), Some([940, 1_000, 1_060])),
            (Some("true"), minutes(100), Some([90, 100, 160])),
            (Some("true"), NillableDuration::NEVER, None),
            (Some("false"), minutes(1_000), None),
            (None, minutes(1_000), None),
        ];
        for (annotation, life, expected) in table {
            let mut pool = NodePool::bare("web", NodeClassRef::instance_group("nodes"));
            let wish = annotation.map(|value| (labels::GRACEFUL_EXPIRY.to_owned(), value.to_owned()));
            pool.annotations.extend(wish);
            let found = GracefulExpiry::of(&pool, at(0), life);
            let found = found.map(|it| [it.replaced_from, it.at, it.forced_at]);
            assert_eq!(found, expected.map(|minutes| minutes.map(at)), "{annotation:?} {life}");
        }
    }
}
