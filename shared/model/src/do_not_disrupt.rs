//! The annotation `karpenter.sh/do-not-disrupt`. On a pod it is `true`, `false`, or for how long
//! after its start; on a Node or a NodeClaim it is `true` or `false`.
//!
//! A value that cannot be read counts as `true`: whoever wrote it wanted something to be left
//! alone. Karpenter passes over such a value.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::labels;

/// The annotation as a pod has it, with what it takes to judge it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protection {
    /// Its value.
    pub value: String,
    /// When the kubelet took the pod on; `None` before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
}

impl Protection {
    /// Whether it counts now.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.value.parse().map_or(true, |wish: DoNotDisrupt| wish.is_active(self.started_at, now))
    }

    /// What is wrong with its value; `None` where it can be read.
    pub fn unreadable(&self) -> Option<UnreadableWish> {
        self.value.parse::<DoNotDisrupt>().err()
    }
}

/// A value of the annotation that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableWish {
    /// The value.
    pub value: String,
    /// What is allowed.
    pub allowed: &'static str,
}

impl fmt::Display for UnreadableWish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (labels::DO_NOT_DISRUPT, &self.value);
        write!(f, "{key}: {value:?} counts as true; allowed: {}", self.allowed)
    }
}

/// How long a pod asks to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoNotDisrupt {
    /// Not at all.
    Never,
    /// As long as it lives.
    Always,
    /// For so long after its start.
    For(Duration),
}

impl DoNotDisrupt {
    /// Whether it still counts. A pod whose start nobody knows is protected.
    pub fn is_active(self, started_at: Option<Timestamp>, now: Timestamp) -> bool {
        match (self, started_at) {
            (Self::Never, _) => false,
            (Self::Always, _) | (_, None) => true,
            (Self::For(length), Some(started)) => {
                started.saturating_add(length).is_ok_and(|until| now < until)
            }
        }
    }
}

impl FromStr for DoNotDisrupt {
    type Err = UnreadableWish;

    /// Reads `true`, `false`, or a Go duration above zero, as `90m` or `1h30m`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "true" => return Ok(Self::Always),
            "false" => return Ok(Self::Never),
            _ => {}
        }
        let allowed = "true, false, or a duration as 90m or 1h30m";
        let refused = || UnreadableWish { value: text.to_owned(), allowed };
        let length = go_duration(text).filter(|length| !length.is_zero());
        length.map(Self::For).ok_or_else(refused)
    }
}

/// The annotation of a Node, or of its NodeClaim object, that keeps the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProtection {
    /// Which of them has it.
    pub object: ProtectedObject,
    /// What is wrong with its value; `None` where it is `true`.
    pub unreadable: Option<UnreadableWish>,
}

/// What a node is kept by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtectedObject {
    /// Its Node object.
    Node,
    /// Its NodeClaim object.
    NodeClaim,
}

impl NodeProtection {
    /// The protection that a value of the annotation gives; `None` where it gives none.
    pub fn from_annotation(object: ProtectedObject, value: &str) -> Option<Self> {
        let allowed = "true or false";
        match value {
            "false" => None,
            "true" => Some(Self { object, unreadable: None }),
            _ => {
                let unreadable = Some(UnreadableWish { value: value.to_owned(), allowed });
                Some(Self { object, unreadable })
            }
        }
    }
}

/// A duration as Go writes it: numbers, which may have a fraction, each with its unit.
fn go_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(letters);
        let seconds = match unit {
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let length = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(length)?;
        rest = next;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_mean_what_karpenter_takes_them_for() {
        let minutes = |count| Some(DoNotDisrupt::For(Duration::from_mins(count)));
        let table = [
            ("true", Some(DoNotDisrupt::Always)),
            ("90m", minutes(90)),
            ("1h30m", minutes(90)),
            ("1.5h", minutes(90)),
            ("60000ms", minutes(1)),
            ("false", Some(DoNotDisrupt::Never)),
            ("False", None),
            (" True", None),
            ("yes", None),
            ("", None),
            ("5", None),
            ("0s", None),
            ("-5m", None),
            ("1d", None),
            ("h", None),
            ("1e3s", None),
            ("99999999999999999999999h", None),
        ];
        for (text, expected) in table {
            assert_eq!(text.parse::<DoNotDisrupt>().ok(), expected, "{text:?}");
        }
    }

    #[test]
    fn protection_ends_with_its_time_and_only_where_the_start_is_known() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let minute = DoNotDisrupt::For(Duration::from_mins(1));
        assert!(minute.is_active(Some(at(0)), at(59)));
        assert!(!minute.is_active(Some(at(0)), at(60)));
        assert!(minute.is_active(None, at(1_000)));
        assert!(DoNotDisrupt::Always.is_active(Some(at(0)), at(1_000_000)));
        assert!(!DoNotDisrupt::Never.is_active(None, at(0)));
    }

    #[test]
    fn a_value_that_cannot_be_read_protects_and_says_what_is_allowed() {
        let now = Timestamp::UNIX_EPOCH;
        for value in ["yes", "1d", " True", "", "0s"] {
            let wish = Protection { value: value.into(), started_at: Some(now) };
            assert!(wish.is_active(now), "{value:?}");
            let actual = wish.unreadable().unwrap().to_string();
            assert!(
                actual.contains(&format!("{value:?}")) && actual.contains("allowed: true, false, or"),
                "{actual}"
            );
        }
        let no = Protection { value: "false".into(), started_at: None };
        assert_eq!((no.is_active(now), no.unreadable()), (false, None));
    }

    #[test]
    fn a_node_takes_no_duration() {
        let unreadable = |value| {
            NodeProtection::from_annotation(ProtectedObject::Node, value)
                .map(|protection| protection.unreadable)
        };
        assert_eq!((unreadable("true"), unreadable("false")), (Some(None), None));
        let actual = unreadable("30m").flatten().unwrap().to_string();
        assert_eq!(actual, "karpenter.sh/do-not-disrupt: \"30m\" counts as true; allowed: true or false");
    }
}
