//! How many nodes people may delete at once before somebody is asked whether that is meant: a pure rule.
//!
//! A chart that is removed, a pool that is deleted or a loop in a shell marks every object within seconds. Whoever does
//! it, so many nodes end only once it is said to be meant.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::{NodeClaim, TerminationReason};

/// Deletions this close together count together.
const TOGETHER: SignedDuration = SignedDuration::from_mins(10);
/// So many nodes may always be deleted.
const ALWAYS_ALLOWED: usize = 3;
/// Beyond that one in so many.
const ALLOWED_SHARE: usize = 10;

/// The claims whose end began of late since they were deleted, and when that was: those that are not over, and those of
/// `before`. `meant` says which of them are known to be meant.
pub(crate) fn of_late(
    claims: &[NodeClaim],
    before: &BTreeMap<String, Timestamp>,
    meant: impl Fn(&NodeClaim) -> bool,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    let since = |claim: &NodeClaim| {
        let end = claim.status.termination.as_ref();
        end.filter(|end| end.reason == TerminationReason::Deleted).map(|end| end.since)
    };
    let mut ended: BTreeMap<String, Timestamp> = before.clone();
    for claim in claims {
        match since(claim).filter(|_| !meant(claim)) {
            Some(since) => drop(ended.insert(claim.name.clone(), since)),
            None => drop(ended.remove(&claim.name)),
        }
    }
    ended.retain(|_, since| now.duration_since(*since) < TOGETHER);
    ended
}

/// Whether so many are deleted at once that none of the `deleted`, whose end nobody has said to be meant, may end now.
/// `ended` is how many of them have ended of late, of `all` that are not over.
pub(crate) fn are_too_many(deleted: usize, ended: usize, all: usize) -> bool {
    deleted > 0 && deleted + ended > ALWAYS_ALLOWED.max(all / ALLOWED_SHARE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::fixtures::{at, claim};
    use outrigger_model::{ClaimState, Termination};

    #[test]
    fn three_and_a_tenth_may_be_deleted_together() {
        // Deleted now, ended of late, all, and whether that is too much.
        let table = [
            (0, 0, 0, false),
            (3, 0, 3, false),
            (3, 0, 10, false),
            (4, 0, 10, true),
            (1, 2, 10, false),
            (2, 2, 10, true),
            (10, 0, 100, false),
            (11, 0, 100, true),
            (1, 10, 100, true),
            (0, 20, 100, false),
        ];
        for (deleted, ended, all, expected) in table {
            assert_eq!(are_too_many(deleted, ended, all), expected, "{deleted} {ended} {all}");
        }
    }

    #[test]
    fn what_ended_within_ten_minutes_is_remembered_unless_it_was_meant() {
        let ending = |name: &str, reason, since| {
            let claim = claim().with_status(|status| {
                status.state = ClaimState::Draining;
                status.termination = Some(Termination::new(reason, "test", at(since)));
            });
            NodeClaim { name: name.into(), ..claim }
        };
        let deleted = TerminationReason::Deleted;
        let claims = [
            ending("lately", deleted, 900),
            ending("long-ago", deleted, 400),
            ending("meant", deleted, 900),
            ending("expired", TerminationReason::Expired, 900),
            NodeClaim { name: "lives".into(), ..claim() },
        ];
        let before = [("gone", 800), ("gone-long", 400), ("meant", 900)];
        let before = before.map(|(name, since)| (name.to_owned(), at(since))).into();
        let found = of_late(&claims, &before, |claim| claim.name == "meant", at(1_000));
        assert_eq!(found, [("gone".to_owned(), at(800)), ("lately".to_owned(), at(900))].into());
    }
}
