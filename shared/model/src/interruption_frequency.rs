//! How often EC2 takes spot instances back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Price;

/// The hours of a month, as AWS counts them in its prices.
const HOURS_A_MONTH: u64 = 730;

/// The share of a type's spot instances in a region that EC2 took back within a month, in the five
/// classes of AWS' Spot Instance Advisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum InterruptionFrequency {
    /// Less than one in twenty.
    #[serde(rename = "<5%")]
    Below5,
    /// One in twenty to one in ten.
    #[serde(rename = "5-10%")]
    From5To10,
    /// One in ten to three in twenty.
    #[serde(rename = "10-15%")]
    From10To15,
    /// Three in twenty to one in five.
    #[serde(rename = "15-20%")]
    From15To20,
    /// More than one in five.
    #[serde(rename = ">20%")]
    Above20,
}

impl InterruptionFrequency {
    /// Every class, the rarest first: their places are the numbers of AWS' file.
    pub const CLASSES: [Self; 5] =
        [Self::Below5, Self::From5To10, Self::From10To15, Self::From15To20, Self::Above20];

    /// What counts where nobody says: the middle one.
    pub const UNKNOWN: Self = Self::From10To15;

    /// As AWS writes it.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Below5 => "<5%",
            Self::From5To10 => "5-10%",
            Self::From10To15 => "10-15%",
            Self::From15To20 => "15-20%",
            Self::Above20 => ">20%",
        }
    }

    /// Interruptions of a thousand instances in a month: the middle of the class, and a quarter for
    /// the last one, which has no end.
    pub const fn per_mille_a_month(self) -> u64 {
        match self {
            Self::Below5 => 25,
            Self::From5To10 => 75,
            Self::From10To15 => 125,
            Self::From15To20 => 175,
            Self::Above20 => 250,
        }
    }

    /// What the interruptions within an hour cost on average, at so many dollars each.
    pub fn cost_per_hour(self, each: Price) -> Price {
        Price::from_nanos(each.nanos().saturating_mul(self.per_mille_a_month()) / 1_000 / HOURS_A_MONTH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_written_as_aws_writes_them() {
        for class in InterruptionFrequency::CLASSES {
            assert_eq!(serde_json::to_value(class).unwrap(), class.words());
        }
        assert!(InterruptionFrequency::CLASSES.is_sorted_by_key(|class| class.per_mille_a_month()));
    }

    #[test]
    fn a_tenth_of_interruptions_a_month_costs_a_tenth_of_one() {
        let month = |class: InterruptionFrequency| {
            class.cost_per_hour(Price::from_dollars(10.0).unwrap()).dollars() * 730.0
        };
        assert!((month(InterruptionFrequency::Below5) - 0.25).abs() < 1e-6);
        assert!((month(InterruptionFrequency::Above20) - 2.5).abs() < 1e-6);
        assert_eq!(InterruptionFrequency::Above20.cost_per_hour(Price::ZERO), Price::ZERO);
    }
}
