//! The catalogue of one region at one time.

use std::sync::Arc;

use jiff::Timestamp;
use outrigger_model::{CapacityType, Offering, Price};
use serde::{Deserialize, Serialize};

use crate::error::CatalogError;
use crate::facts::InstanceTypeFacts;
use crate::{embedded, offerings};

/// Instance types of a region, where they are sold and for how much.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Catalog {
    /// The region.
    pub region: String,
    /// When it was true.
    pub taken_at: Timestamp,
    /// Where it comes from.
    pub source: Source,
    /// Whether spot prices are [`offerings::SPOT_ESTIMATE_PERCENT`] of on-demand for want of real
    /// ones.
    pub spot_is_estimate: bool,
    /// The types, in order of name, each once. They are many, and never change once they are known:
    /// clones share them.
    pub types: Arc<Vec<TypeEntry>>,
}

/// Where a catalogue comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Compiled in.
    Embedded,
    /// From EC2's describe calls.
    Refreshed,
}

/// An instance type and its offerings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TypeEntry {
    /// What EC2 says about it.
    pub facts: InstanceTypeFacts,
    /// Where and for how much it is sold.
    pub offerings: Vec<Offering>,
}

impl Catalog {
    /// The catalogue that is compiled in: on-demand at the region's list price in each of `zones`
    /// (or in [`offerings::default_zones`] when there are none), spot at an estimate. Types without
    /// a list price in the region are left out, since they are not sold there.
    pub fn embedded(region: &str, zones: &[String]) -> Result<Self, CatalogError> {
        let prices = embedded::on_demand_prices(region)?;
        let default_zones = offerings::default_zones(region);
        let zones = if zones.is_empty() { &default_zones } else { zones };
        let entry = |facts: &InstanceTypeFacts| {
            let price = *prices.get(&facts.name)?;
            let offerings = offerings::in_zones(zones, price, offerings::estimated_spot(price));
            Some(TypeEntry { facts: facts.clone(), offerings })
        };
        Ok(Self {
            region: region.to_owned(),
            taken_at: embedded::TAKEN_AT,
            source: Source::Embedded,
            spot_is_estimate: true,
            types: Arc::new(embedded::facts()?.iter().filter_map(entry).collect()),
        })
    }

    /// A catalogue of what EC2 said. The types may come in any order; of several entries for one
    /// type the first stands.
    pub fn refreshed(
        region: impl Into<String>,
        taken_at: Timestamp,
        spot_is_estimate: bool,
        mut types: Vec<TypeEntry>,
    ) -> Self {
        types.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
        types.dedup_by(|next, first| next.facts.name == first.facts.name);
        Self {
            region: region.into(),
            taken_at,
            source: Source::Refreshed,
            spot_is_estimate,
            types: Arc::new(types),
        }
    }

    /// The same with those types alone whose facts are wanted.
    #[must_use]
    pub fn only(&self, wanted: impl Fn(&InstanceTypeFacts) -> bool) -> Self {
        let types = self.types.iter().filter(|entry| wanted(&entry.facts)).cloned().collect();
        Self { types: Arc::new(types), ..self.clone() }
    }

    /// The entry of a type.
    pub fn entry(&self, instance_type: &str) -> Option<&TypeEntry> {
        let index = self.types.binary_search_by(|entry| entry.facts.name.as_str().cmp(instance_type));
        index.ok().and_then(|index| self.types.get(index))
    }

    /// What an instance costs per hour, whether or not it can be had now.
    pub fn price(&self, instance_type: &str, zone: &str, capacity_type: CapacityType) -> Option<Price> {
        let sold = |o: &&Offering| o.zone == zone && o.capacity_type == capacity_type;
        self.entry(instance_type)?.offerings.iter().find(sold).map(|offering| offering.price)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_catalogue_sells_what_has_a_list_price() {
        let catalog = Catalog::embedded("us-east-1", &[]).unwrap();
        assert_eq!((catalog.types.len(), catalog.spot_is_estimate), (1_345, true));
        let price = |zone: &str, kind| catalog.price("m5.large", zone, kind).map(Price::nanos);
        assert_eq!(price("us-east-1a", CapacityType::OnDemand), Some(96_000_000));
        assert_eq!(price("us-east-1c", CapacityType::Spot), Some(38_400_000));
        assert_eq!(price("us-east-1d", CapacityType::Spot), None);
        assert_eq!(catalog.price("m5.enormous", "us-east-1a", CapacityType::Spot), None);
        let government = Catalog::embedded("us-gov-east-1", &["us-gov-east-1b".to_owned()]).unwrap();
        assert!(government.entry("a1.medium").is_none() && government.entry("m5.large").is_some());
        assert!(government.types.iter().all(|entry| entry.offerings.len() == 2));
    }

    #[test]
    fn refreshed_types_are_put_in_order() {
        let mut types = Catalog::embedded("us-east-1", &[]).unwrap().types.to_vec();
        let expected = types.clone();
        types.reverse();
        types.push(TypeEntry { offerings: Vec::new(), ..expected[0].clone() });
        let catalog = Catalog::refreshed("us-east-1", embedded::TAKEN_AT, false, types);
        assert_eq!(*catalog.types, expected);
        let large = catalog.only(|facts| facts.name == "m5.large");
        assert_eq!((large.types.len(), large.entry("m5.large")), (1, catalog.entry("m5.large")));
    }
}
