//! A pause: an operator's word that the functions begin nothing for a while.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::TerminationReason;

/// An operator's word that the functions begin nothing. It lies in the ledger until it is resumed;
/// one whose time is past is over, whether it still lies there or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Who said it: the AWS caller, as `assumed-role/admin/alice`, or `USER@HOST`.
    pub by: String,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Until when; without it, until it is resumed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// What is paused.
    pub what: PauseScope,
}

/// What a pause stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PauseScope {
    /// Launches, and every end of a node that EC2 has not begun.
    Everything,
    /// Voluntary disruption alone: commands, and nodes that expire.
    Disruption,
}

impl fmt::Display for PauseScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Everything => "everything",
            Self::Disruption => "disruption",
        })
    }
}

impl Pause {
    /// Whether it still counts.
    pub fn is_in_force(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Whether no node may be given up that could live on.
    pub fn stops_disruption(&self, now: Timestamp) -> bool {
        self.is_in_force(now)
    }

    /// Whether no node may be launched.
    pub fn stops_launches(&self, now: Timestamp) -> bool {
        self.is_in_force(now) && self.what == PauseScope::Everything
    }

    /// Whether nothing may be ended because we find it broken, or because nobody accounts for it.
    pub fn stops_cleanup(&self, now: Timestamp) -> bool {
        self.is_in_force(now) && self.what == PauseScope::Everything
    }

    /// Whether no claim's end may begin for this reason. What EC2 has done is not ours to stop;
    /// what people have deleted waits while everything is paused.
    pub fn stops_end(&self, reason: TerminationReason, now: Timestamp) -> bool {
        use TerminationReason::{
            Deleted, Drifted, Empty, Expired, InstanceGone, Interrupted, Lost, NotInitialized, NotRegistered,
            Rebalanced, Underutilized, Unhealthy,
        };
        match reason {
            Interrupted | InstanceGone | Lost => false,
            Expired | Rebalanced | Empty | Underutilized | Drifted => self.stops_disruption(now),
            Deleted | NotRegistered | NotInitialized | Unhealthy => self.stops_cleanup(now),
        }
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is paused by {} since {}", self.what, self.by, self.since)?;
        match self.until {
            Some(until) => write!(f, " until {until}")?,
            None => f.write_str(" until it is resumed")?,
        }
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, " ({reason})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    fn pause(what: PauseScope, until: Option<i64>) -> Pause {
        Pause { by: "alice@desk".into(), reason: None, since: at(10), until: until.map(at), what }
    }

    #[test]
    fn a_pause_counts_until_its_time_is_past() {
        for (until, now, expected) in
            [(None, 1_000_000, true), (Some(20), 19, true), (Some(20), 20, false), (Some(20), 21, false)]
        {
            let pause = pause(PauseScope::Everything, until);
            assert_eq!(pause.is_in_force(at(now)), expected, "{until:?} at {now}");
            assert_eq!(pause.stops_launches(at(now)), expected, "{until:?} at {now}");
            assert_eq!(pause.stops_cleanup(at(now)), expected, "{until:?} at {now}");
            assert_eq!(pause.stops_disruption(at(now)), expected, "{until:?} at {now}");
            assert_eq!(pause.stops_end(TerminationReason::Expired, at(now)), expected, "{until:?} at {now}");
        }
    }

    #[test]
    fn each_scope_stops_what_it_says() {
        use TerminationReason::{
            Deleted, Drifted, Empty, Expired, InstanceGone, Interrupted, Lost, NotInitialized, NotRegistered,
            Rebalanced, Underutilized, Unhealthy,
        };
        let (everything, disruption) =
            (pause(PauseScope::Everything, None), pause(PauseScope::Disruption, None));
        assert!(everything.stops_disruption(at(11)) && disruption.stops_disruption(at(11)));
        assert!(everything.stops_launches(at(11)) && !disruption.stops_launches(at(11)));
        assert!(everything.stops_cleanup(at(11)) && !disruption.stops_cleanup(at(11)));
        for reason in [Interrupted, InstanceGone, Lost] {
            assert!(
                !everything.stops_end(reason, at(11)) && !disruption.stops_end(reason, at(11)),
                "{reason}"
            );
        }
        for reason in [Expired, Rebalanced, Empty, Underutilized, Drifted] {
            assert!(everything.stops_end(reason, at(11)) && disruption.stops_end(reason, at(11)), "{reason}");
        }
        for reason in [Deleted, NotRegistered, NotInitialized, Unhealthy] {
            assert!(
                everything.stops_end(reason, at(11)) && !disruption.stops_end(reason, at(11)),
                "{reason}"
            );
        }
    }

    #[test]
    fn it_says_who_until_when_and_why() {
        let actual = pause(PauseScope::Everything, None).to_string();
        assert_eq!(
            actual,
            "everything is paused by alice@desk since 1970-01-01T00:00:10Z until it is resumed"
        );
        let why = Pause { reason: Some("upgrade".into()), ..pause(PauseScope::Disruption, Some(20)) };
        assert_eq!(
            why.to_string(),
            "disruption is paused by alice@desk since 1970-01-01T00:00:10Z until 1970-01-01T00:00:20Z (upgrade)"
        );
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let least = pause(PauseScope::Disruption, None);
        let text = serde_json::to_string(&least).unwrap();
        assert_eq!(text, r#"{"by":"alice@desk","since":"1970-01-01T00:00:10Z","what":"disruption"}"#);
        for pause in [Pause { reason: Some("upgrade".into()), until: Some(at(20)), ..least.clone() }, least] {
            let text = serde_json::to_string(&pause).unwrap();
            assert_eq!(serde_json::from_str::<Pause>(&text).unwrap(), pause);
        }
    }
}
