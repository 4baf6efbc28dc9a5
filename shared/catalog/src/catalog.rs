//! The catalogue of one region at one time.

use std::sync::Arc;

use jiff::Timestamp;
use outrigger_model::{CapacityType, Offering, Price};
use serde::{Deserialize, Serialize};

use crate::error::CatalogError;
use crate::facts::InstanceTypeFacts;
use crate::prices::RegionPrices;
use crate::{embedded, offerings, prices};

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
    /// Whether spot prices are those of the embedded list, for want of EC2's.
    pub spot_is_estimate: bool,
    /// Where prices on demand come from; AWS' in a catalogue that an earlier version has stored.
    #[serde(default)]
    pub on_demand: PriceSource,
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

/// Where prices come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PriceSource {
    /// AWS' price list, today.
    #[default]
    Aws,
    /// The list that is compiled in.
    Embedded,
    /// Neither has the region: what has no price is left out.
    Missing,
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
    /// The catalogue that is compiled in: what the embedded list says of the region, in each of
    /// `zones`, or in [`offerings::default_zones`] when there are none. Types without a list price
    /// in a zone are left out there, since they are not sold.
    pub fn embedded(region: &str, zones: &[String]) -> Result<Self, CatalogError> {
        let default_zones = offerings::default_zones(region);
        let zones = if zones.is_empty() { &default_zones } else { zones };
        let listed: Vec<(&String, RegionPrices)> = zones
            .iter()
            .map(|zone| Ok((zone, RegionPrices::of_zone(region, zone)?)))
            .collect::<Result<_, CatalogError>>()?;
        let entry = |facts: &InstanceTypeFacts| {
            let sold = listed.iter().filter_map(|(zone, prices)| Some((zone, prices.get(&facts.name)?)));
            let offerings: Vec<Offering> =
                sold.flat_map(|(zone, price)| offerings::in_zone(zone, price)).collect();
            (!offerings.is_empty()).then(|| TypeEntry { facts: facts.clone(), offerings })
        };
        Ok(Self {
            region: region.to_owned(),
            taken_at: prices::TAKEN_AT,
            source: Source::Embedded,
            spot_is_estimate: true,
            on_demand: PriceSource::Embedded,
            types: Arc::new(embedded::facts()?.iter().filter_map(entry).collect()),
        })
    }

    /// A catalogue of what EC2 said. The types may come in any order; of several entries for one
    /// type the first stands.
    pub fn refreshed(
        region: impl Into<String>,
        taken_at: Timestamp,
        spot_is_estimate: bool,
        on_demand: PriceSource,
        mut types: Vec<TypeEntry>,
    ) -> Self {
        types.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
        types.dedup_by(|next, first| next.facts.name == first.facts.name);
        Self {
            region: region.into(),
            taken_at,
            source: Source::Refreshed,
            spot_is_estimate,
            on_demand,
            types: Arc::new(types),
        }
    }

    /// The same with each type sold as spot wherever it is sold, for the same share of its price on
    /// demand. Played worlds and benchmarks go by it: they stay the same whatever spot costs by
    /// now.
    #[must_use]
    pub fn with_flat_spot(&self) -> Self {
        let types = self.types.iter().map(|entry| TypeEntry {
            facts: entry.facts.clone(),
            offerings: offerings::with_flat_spot(&entry.offerings),
        });
        Self { types: Arc::new(types.collect()), ..self.clone() }
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
        assert_eq!(price("us-east-1c", CapacityType::Spot), Some(31_680_000));
        assert_eq!(price("us-east-1d", CapacityType::Spot), None);
        assert_eq!(catalog.price("m5.enormous", "us-east-1a", CapacityType::Spot), None);
        let government = Catalog::embedded("us-gov-east-1", &["us-gov-east-1b".to_owned()]).unwrap();
        assert!(government.entry("a1.medium").is_none() && government.entry("m5.large").is_some());
        assert!(
            government.types.iter().all(|entry| entry.offerings.iter().all(|o| o.zone == "us-gov-east-1b"))
        );
    }

    #[test]
    fn refreshed_types_are_put_in_order() {
        let mut types = Catalog::embedded("us-east-1", &[]).unwrap().types.to_vec();
        let expected = types.clone();
        types.reverse();
        types.push(TypeEntry { offerings: Vec::new(), ..expected[0].clone() });
        let catalog = Catalog::refreshed("us-east-1", prices::TAKEN_AT, false, PriceSource::Aws, types);
        assert_eq!(*catalog.types, expected);
        let large = catalog.only(|facts| facts.name == "m5.large");
        assert_eq!((large.types.len(), large.entry("m5.large")), (1, catalog.entry("m5.large")));
    }
}
