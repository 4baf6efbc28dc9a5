//! `NodeOverlay` of `karpenter.sh/v1alpha1`: other prices, and more resources, for some instance types.

use serde::{Deserialize, Serialize};

use crate::{Price, Requirements, Resources};

/// A NodeOverlay that has passed validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlay {
    /// Its name.
    pub name: String,
    /// Where several say something of the same offering, the heaviest counts; between equals the first by name.
    pub weight: u32,
    /// Which offerings it is about, by the labels of pool, type, zone and capacity type.
    pub requirements: Requirements,
    /// What they cost instead; absent when the price stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceOverlay>,
    /// Extended resources that the machines have beside what the catalogue knows.
    #[serde(default, skip_serializing_if = "Resources::is_empty")]
    pub capacity: Resources,
}

/// How an overlay changes a price. The result is never below nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PriceOverlay {
    /// This price instead.
    Absolute(Price),
    /// So many nano-dollars per hour more, or less when negative.
    Add(i64),
    /// So many millionths of the price more, or less when negative: `-10%` is -100,000.
    Scale(i64),
}

impl PriceOverlay {
    /// The price that results.
    pub fn apply(self, price: Price) -> Price {
        let nanos = i128::from(price.nanos());
        let changed = match self {
            Self::Absolute(price) => i128::from(price.nanos()),
            Self::Add(nanos_more) => nanos + i128::from(nanos_more),
            Self::Scale(millionths) => nanos + nanos * i128::from(millionths) / 1_000_000,
        };
        Price::from_nanos(u64::try_from(changed.max(0)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_is_replaced_moved_or_scaled_and_never_negative() {
        let price = Price::from_nanos(1_000);
        let table = [
            (PriceOverlay::Absolute(Price::from_nanos(5)), 5),
            (PriceOverlay::Add(-400), 600),
            (PriceOverlay::Add(-4_000), 0),
            (PriceOverlay::Scale(-100_000), 900),
            (PriceOverlay::Scale(500_000), 1_500),
        ];
        for (overlay, expected) in table {
            assert_eq!(overlay.apply(price).nanos(), expected, "{overlay:?}");
        }
    }
}
