//! `NodeOverlay` of `karpenter.sh/v1alpha1`: other prices, and more resources, for some instance
//! types.

mod amount;
mod validate;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::invalid::{self, Invalid};
use crate::schema_rules as rules;
use crate::{Operator, Price, Requirement, Requirements, Resources};

/// A NodeOverlay that has passed validation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeOverlay {
    /// Its name.
    pub name: String,
    /// Where several say something of the same offering, the heaviest counts; between equals the
    /// first by name.
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

/// The spec of a NodeOverlay as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::overlay()))]
pub(crate) struct NodeOverlaySpec {
    /// Which offerings it is about: labels of instance types, of zones and capacity types, and of
    /// pools.
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic",
        "x-kubernetes-validations" = rules::overlay_requirements()))]
    requirements: Vec<OverlayRequirement>,
    /// What they cost instead, in dollars per hour, as `0.25`.
    #[serde(default)]
    #[schemars(regex(pattern = r"^\d+(\.\d+)?$"))]
    price: Option<String>,
    /// How much more or less they cost: dollars per hour as `+0.5`, or a share of the price as
    /// `-10%`.
    #[serde(default)]
    #[schemars(regex(
        pattern = r"^(([+-]{1}(\d*\.?\d+))|(\+{1}\d*\.?\d+%)|(^(-\d{1,2}(\.\d+)?%)$)|(-100%))$"
    ))]
    price_adjustment: Option<String>,
    /// Extended resources that the machines have beside what is known of them.
    #[serde(default)]
    #[schemars(with = "Option<Resources>", extend("x-kubernetes-validations" = rules::overlay_capacity()))]
    capacity: Resources,
    /// Where several overlays say something of the same offering, the heaviest counts; absent
    /// counts as 0.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    weight: Option<u32>,
}

/// A requirement of an overlay.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct OverlayRequirement {
    /// The label key.
    #[schemars(length(max = 316), regex(pattern = rules::KEY_PATTERN))]
    key: String,
    /// How the values are compared.
    operator: Operator,
    /// The values; none for Exists and DoesNotExist, one integer for the comparisons.
    #[serde(default)]
    #[schemars(with = "Option<Vec<String>>")]
    values: Vec<String>,
}

impl NodeOverlay {
    /// Reads and checks one NodeOverlay object; every complaint is returned, not only the first.
    pub fn read(object: &Value) -> Result<Self, Vec<Invalid>> {
        let name = invalid::name_of(object).unwrap_or_default();
        let label = format!("NodeOverlay/{name}");
        if let Some(problem) = invalid::wrong_version(&label, object, "karpenter.sh/v1alpha1") {
            return Err(vec![problem]);
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let (spec, mut problems) = invalid::read_noting::<NodeOverlaySpec>(&label, "spec", spec)?;
        let (price, more) = validate::check(&label, &name, &spec);
        problems.extend(more);
        if !problems.is_empty() {
            return Err(problems);
        }
        let mut requirements = Requirements::new();
        for wanted in &spec.requirements {
            requirements.add(&wanted.key, Requirement::new(wanted.operator, wanted.values.iter().cloned()));
        }
        let (weight, capacity) = (spec.weight.unwrap_or(0), spec.capacity);
        Ok(Self { name, weight, requirements, price, capacity })
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
