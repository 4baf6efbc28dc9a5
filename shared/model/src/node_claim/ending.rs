//! The beginning of a claim's end.

use jiff::Timestamp;

use crate::{ClaimState, NillableDuration, NodeClaim, Termination, TerminationReason};

/// Why a claim is to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminationCause {
    /// Why.
    pub reason: TerminationReason,
    /// Why, for people.
    pub message: String,
    /// When patience with its pods ends at the latest; the claim's own `terminationGracePeriod` may
    /// end it earlier.
    pub by: Option<Timestamp>,
    /// The claims whose nodes its pods move to, where these wait for them.
    pub replaced_by: Vec<String>,
}

impl TerminationCause {
    /// A cause that sets no time limit of its own.
    pub fn new(reason: TerminationReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), by: None, replaced_by: Vec::new() }
    }
}

impl NodeClaim {
    /// The claim once its end has begun, or has to come sooner; `None` when the cause changes
    /// nothing. Its end only ever moves forward, and doing it twice is doing it once.
    pub fn ending(&self, cause: &TerminationCause, now: Timestamp) -> Option<Self> {
        let state = match (self.status.state, cause.reason.is_past_draining()) {
            (ClaimState::Registered | ClaimState::Initialized | ClaimState::Draining, false) => {
                ClaimState::Draining
            }
            (ClaimState::Launched, _)
            | (ClaimState::Registered | ClaimState::Initialized | ClaimState::Draining, true) => {
                ClaimState::Terminating
            }
            (ClaimState::Intent | ClaimState::Terminating | ClaimState::Gone | ClaimState::Failed, _) => {
                return None;
            }
        };
        let mut end = self.status.termination.clone().unwrap_or_else(|| begun(self, cause, now));
        end.by = end.by.into_iter().chain(cause.by).min();
        if state == ClaimState::Terminating {
            end.terminating_at = end.terminating_at.or(Some(now));
        }
        let changed = state != self.status.state || self.status.termination.as_ref() != Some(&end);
        changed.then(|| {
            self.clone().with_status(|status| {
                status.state = state;
                status.termination = Some(end);
                status.command = None;
            })
        })
    }
}

fn begun(claim: &NodeClaim, cause: &TerminationCause, now: Timestamp) -> Termination {
    let grace = claim.spec.termination_grace_period.and_then(NillableDuration::get);
    let by = grace.map(|grace| now.saturating_add(grace).unwrap_or(Timestamp::MAX));
    let replaced_by = cause.replaced_by.clone();
    Termination { by, replaced_by, ..Termination::new(cause.reason, &cause.message, now) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{at, claim};

    const ALL: [ClaimState; 8] = [
        ClaimState::Intent,
        ClaimState::Launched,
        ClaimState::Registered,
        ClaimState::Initialized,
        ClaimState::Draining,
        ClaimState::Terminating,
        ClaimState::Gone,
        ClaimState::Failed,
    ];

    #[test]
    fn states_only_move_along_their_edges() {
        for reason in [TerminationReason::Deleted, TerminationReason::InstanceGone] {
            for state in ALL {
                let before = claim().with_status(|status| status.state = state);
                let after = before.ending(&TerminationCause::new(reason, "test"), at(0));
                let became = after.map(|claim| claim.status.state);
                let expected = match state {
                    ClaimState::Launched => Some(ClaimState::Terminating),
                    ClaimState::Registered | ClaimState::Initialized | ClaimState::Draining => {
                        let past = reason == TerminationReason::InstanceGone;
                        Some(if past { ClaimState::Terminating } else { ClaimState::Draining })
                    }
                    _ => None,
                };
                assert_eq!(became, expected, "{state:?} {reason}");
                assert!(became.is_none_or(|next| next == state || state.may_become(next)), "{state:?}");
            }
        }
    }

    #[test]
    fn patience_ends_at_the_earliest_time_that_anybody_named() {
        let draining = |by: Option<i64>, asked: Option<i64>, now: i64| {
            let grace = by.map(|seconds| NillableDuration::seconds(seconds.unsigned_abs()));
            let mut living = claim().with_status(|status| status.state = ClaimState::Initialized);
            living.spec.termination_grace_period = grace;
            let cause = TerminationCause {
                by: asked.map(at),
                ..TerminationCause::new(TerminationReason::Deleted, "test")
            };
            living.ending(&cause, at(now)).unwrap()
        };
        let by = |claim: &NodeClaim| claim.status.termination.as_ref().unwrap().by.map(Timestamp::as_second);
        assert_eq!(by(&draining(None, None, 10)), None);
        assert_eq!(by(&draining(Some(60), None, 10)), Some(70));
        assert_eq!(by(&draining(Some(60), Some(30), 10)), Some(30));
        assert_eq!(by(&draining(Some(60), Some(300), 10)), Some(70));
        let ends = draining(Some(60), None, 10);
        let again = |asked: Option<i64>| {
            let cause = TerminationCause {
                by: asked.map(at),
                ..TerminationCause::new(TerminationReason::Interrupted, "again")
            };
            ends.ending(&cause, at(20))
        };
        assert_eq!(again(None), None, "a second cause is no news");
        assert_eq!(again(Some(100)), None, "and never a reprieve");
        let sooner = again(Some(50)).unwrap();
        assert_eq!((by(&sooner), sooner.status.state), (Some(50), ClaimState::Draining));
        assert_eq!(sooner.status.termination.unwrap().reason, TerminationReason::Deleted);
    }
}
