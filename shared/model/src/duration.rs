//! Durations as Karpenter writes them: `720h`, `1h30m`, `Never`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NillableDuration(Option<Duration>);

impl NillableDuration {
    /// Never.
    pub const NEVER: Self = Self(None);

    /// So many seconds.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Some(Duration::from_secs(seconds)))
    }

    /// At once.
    pub const fn zero() -> Self {
        Self::seconds(0)
    }

    /// Karpenter's default lifetime of a node, 720 hours.
    pub const fn thirty_days() -> Self {
        Self::seconds(720 * 3_600)
    }

    /// The duration; `None` for never.
    pub const fn get(self) -> Option<Duration> {
        self.0
    }
}

impl FromStr for NillableDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "Never" {
            return Ok(Self::NEVER);
        }
        let refused = || {
            format!("{text:?} is not a duration; allowed: hours, minutes and seconds as 1h30m10s, or Never")
        };
        let (mut total, mut number) = (0_u64, String::new());
        for c in text.chars() {
            let unit = match c {
                'h' => 3_600,
                'm' => 60,
                's' => 1,
                digit if digit.is_ascii_digit() => {
                    number.push(digit);
                    continue;
                }
                _ => return Err(refused()),
            };
            let count: u64 = number.parse().map_err(|_| refused())?;
            total = count.checked_mul(unit).and_then(|s| total.checked_add(s)).ok_or_else(refused)?;
            number.clear();
        }
        if text.is_empty() || !number.is_empty() { Err(refused()) } else { Ok(Self::seconds(total)) }
    }
}

impl fmt::Display for NillableDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(duration) = self.0 else { return f.write_str("Never") };
        let seconds = duration.as_secs();
        let parts = [(seconds / 3_600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
        if seconds == 0 {
            return f.write_str("0s");
        }
        parts.iter().filter(|(count, _)| *count > 0).try_for_each(|(count, unit)| write!(f, "{count}{unit}"))
    }
}

impl Serialize for NillableDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for NillableDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for NillableDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": r"^(([0-9]+(s|m|h))+|Never)$"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print() {
        for (text, seconds) in [("720h", 2_592_000), ("1h30m", 5_400), ("0s", 0), ("90s", 90)] {
            let duration: NillableDuration = text.parse().unwrap();
            assert_eq!(duration.get(), Some(Duration::from_secs(seconds)));
            assert_eq!(duration.to_string().parse(), Ok(duration));
        }
        assert_eq!("Never".parse(), Ok(NillableDuration::NEVER));
        for text in ["", "h", "5", "never", "1d", "99999999999999999999h"] {
            assert!(text.parse::<NillableDuration>().is_err(), "{text:?}");
        }
    }
}
