//! How launches have fared lately, and what is left alone for a while because of it: subnets
//! without addresses, pools whose launches or nodes come to nothing, pods that no node helps, and
//! EC2 itself when it asks for patience.
//!
//! Offerings that could not be had are [`crate::UnavailableOffering`]s. All of this is memory, not
//! truth: losing it costs some launches that fail again.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// After so long without a new failure the count of failures begins anew.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_hours(1);

/// How launches have fared lately.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaunchHealth {
    /// Raised by one with each write; a write names the version that it has seen.
    pub version: u64,
    /// Pools of which there is something to remember, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, PoolHealth>,
    /// Pods that nodes were launched for in vain, by uid.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pods: BTreeMap<String, PodHealth>,
    /// Subnets without free addresses, by id.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subnets: BTreeMap<String, Hold>,
    /// Set while EC2 refuses launches for their rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub launches: Option<Hold>,
    /// When each launch template of our own was last used, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub templates: BTreeMap<String, Timestamp>,
}

impl LaunchHealth {
    /// Whether there is nothing to remember, and nothing ever was.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How the launches and nodes of a pool have fared lately.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolHealth {
    /// What its last claims came to, at most [`PoolHealth::REMEMBERED`], oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<NodeOutcome>,
    /// Claims that are no younger have been judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged_until: Option<Timestamp>,
    /// Set once EC2 refuses its launches for a reason that waiting does not mend.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Hold>,
    /// Set once its nodes keep coming to nothing: the breaker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<Hold>,
}

impl PoolHealth {
    /// How many outcomes are remembered (Karpenter `nodepoolhealth`, 4 slots).
    pub const REMEMBERED: usize = 4;

    /// What keeps the pool from launching freely, the longest lasting first.
    pub fn holds(&self) -> impl Iterator<Item = &Hold> {
        let (first, second) = match (&self.refused, &self.breaker) {
            (Some(refused), Some(breaker)) if breaker.until > refused.until => (&self.breaker, &self.refused),
            _ => (&self.refused, &self.breaker),
        };
        first.iter().chain(second)
    }
}

/// What one claim came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOutcome {
    /// The claim, or the launch where it has none.
    pub claim: String,
    /// When it was decided on.
    pub created_at: Timestamp,
    /// Why it came to nothing; `None` when it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// A pod that nodes were launched for in vain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodHealth {
    /// Claims that were made for it and on which it does not run.
    pub claims: Vec<String>,
    /// When the last of them was counted.
    pub at: Timestamp,
    /// Set once there were too many: its quarantine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
}

/// Something that is left alone for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hold {
    /// Until when; whoever reads it compares.
    pub until: Timestamp,
    /// How many times in a row it was found wanting; each time it is left alone for longer.
    pub failures: u32,
    /// Why.
    pub reason: String,
}

impl Hold {
    /// The hold after one more failure: `first` long, doubled with each failure in a row, at most
    /// `longest`.
    pub fn after(before: Option<&Self>, backoff: Backoff, reason: impl Into<String>, now: Timestamp) -> Self {
        let (until, failures) = backoff.next(before.map(|hold| (hold.until, hold.failures)), now);
        Self { until, failures, reason: reason.into() }
    }

    /// Whether it still holds.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until > now
    }
}

/// How long something is left alone: doubling from `first` to `longest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure.
    pub first: Duration,
    /// At most.
    pub longest: Duration,
}

impl Backoff {
    /// Until when, and after how many failures in a row, `before` being the end and the count of
    /// the last one. A failure that is found again while it is still being left alone is the same
    /// failure.
    pub fn next(self, before: Option<(Timestamp, u32)>, now: Timestamp) -> (Timestamp, u32) {
        let recent = before.filter(|(until, _)| now.duration_since(*until) < FORGOTTEN_AFTER);
        let failures = match recent {
            Some((until, failures)) if until > now => failures.max(1),
            Some((_, failures)) => failures.saturating_add(1),
            None => 1,
        };
        let doublings = 2_u32.saturating_pow((failures - 1).min(16));
        let length = self.first.saturating_mul(doublings).min(self.longest);
        let until = now.saturating_add(length).unwrap_or(Timestamp::MAX);
        (recent.map_or(until, |(before, _)| before.max(until)), failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_in_a_row_lasts_longer() {
        let backoff = Backoff { first: Duration::from_mins(3), longest: Duration::from_mins(20) };
        let at = |second| Timestamp::from_second(second).unwrap();
        // The end and the count of the last failure, the time of this one, its end and its count.
        let table = [
            (None, 0, (180, 1)),
            (Some((180, 1)), 200, (200 + 360, 2)),
            (Some((560, 2)), 600, (600 + 720, 3)),
            (Some((560, 3)), 600, (600 + 1_200, 4)),
            (Some((560, u32::MAX)), 600, (600 + 1_200, u32::MAX)),
            // Found again before its time was over: no new failure, but the wait begins anew.
            (Some((180, 1)), 100, (280, 1)),
            (Some((1_000, 0)), 100, (1_000, 1)),
            // Long ago.
            (Some((180, 5)), 180 + 3_600, (180 + 3_600 + 180, 1)),
        ];
        for (before, now, (until, failures)) in table {
            let before = before.map(|(until, failures)| (at(until), failures));
            assert_eq!(backoff.next(before, at(now)), (at(until), failures), "{before:?} at {now}");
        }
    }

    #[test]
    fn the_longest_hold_speaks_first() {
        let hold = |until, reason: &str| Hold {
            until: Timestamp::from_second(until).unwrap(),
            failures: 1,
            reason: reason.into(),
        };
        let reasons = |refused, breaker| {
            let pool = PoolHealth { refused, breaker, ..PoolHealth::default() };
            pool.holds().map(|hold| hold.reason.clone()).collect::<Vec<_>>()
        };
        assert!(reasons(None, None).is_empty());
        assert_eq!(reasons(Some(hold(9, "r")), Some(hold(5, "b"))), ["r", "b"]);
        assert_eq!(reasons(Some(hold(5, "r")), Some(hold(9, "b"))), ["b", "r"]);
        assert_eq!(reasons(None, Some(hold(9, "b"))), ["b"]);
    }
}
