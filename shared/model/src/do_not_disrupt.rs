//! The annotation `karpenter.sh/do-not-disrupt` of a pod: `true`, or for how long after its start.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// Whether it counts now. Errors when its value means nothing; then it protects nothing, as with Karpenter.
    pub fn is_active(&self, now: Timestamp) -> Result<bool, String> {
        self.value.parse().map(|wish: DoNotDisrupt| wish.is_active(self.started_at, now))
    }
}

/// How long a pod asks to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoNotDisrupt {
    /// As long as it lives.
    Always,
    /// For so long after its start.
    For(Duration),
}

impl DoNotDisrupt {
    /// Whether it still counts. A pod whose start nobody knows is protected.
    pub fn is_active(self, started_at: Option<Timestamp>, now: Timestamp) -> bool {
        match (self, started_at) {
            (Self::Always, _) | (_, None) => true,
            (Self::For(length), Some(started)) => {
                started.saturating_add(length).is_ok_and(|until| now < until)
            }
        }
    }
}

impl FromStr for DoNotDisrupt {
    type Err = String;

    /// Reads `true` or a Go duration above zero, as `90m` or `1h30m`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "true" {
            return Ok(Self::Always);
        }
        let refused = || format!("{text:?} says nothing; allowed: true, or a duration as 90m or 1h30m");
        let length = go_duration(text).filter(|length| !length.is_zero());
        length.map(Self::For).ok_or_else(refused)
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
            ("false", None),
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
    }
}
