//! Dollars per hour as an exact number, so that prices have a total order and sums do not drift.

use std::borrow::Cow;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A price per hour, in billionths of a US dollar. It is never negative and never not-a-number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Price(u64);

impl Price {
    /// Free.
    pub const ZERO: Self = Self(0);

    /// From billionths of a dollar per hour.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// From dollars per hour; `None` unless it is a finite number from 0 to a million.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked first"
        )]
        (dollars.is_finite() && (0.0..=1e6).contains(&dollars)).then(|| Self((dollars * 1e9).round() as u64))
    }

    /// Billionths of a dollar per hour.
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Dollars per hour, for printing.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The price times `percent` hundredths.
    #[must_use]
    pub const fn percent(self, percent: u64) -> Self {
        Self(self.0.saturating_mul(percent) / 100)
    }
}

impl Add for Price {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Price {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Price {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for Price {
    fn sum<I: Iterator<Item = Self>>(prices: I) -> Self {
        prices.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "${:.4}/h", self.dollars())
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl JsonSchema for Price {
    fn schema_name() -> Cow<'static, str> {
        "Price".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "description": "US dollars per hour"})
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "{dollars} is not a price; allowed: dollars per hour from 0 to 1000000"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_finite_prices_exist() {
        for bad in [f64::NAN, f64::INFINITY, -0.01, 2e6] {
            assert_eq!(Price::from_dollars(bad), None, "{bad}");
        }
        assert_eq!(Price::from_dollars(0.007_395).unwrap().nanos(), 7_395_000);
        assert_eq!(serde_json::to_string(&Price::from_nanos(46_080_000)).unwrap(), "0.04608");
    }
}
