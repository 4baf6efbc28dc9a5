//! What instance types cost in each region, as far as published lists say: on demand, as spot, and
//! how often EC2 takes spot back.
//!
//! `data/README.md` says where the lists come from and what is an estimate.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::Timestamp;
use outrigger_model::{InterruptionFrequency, Price};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::embedded::{damaged, read};
use crate::error::CatalogError;

/// How many yuan a dollar is taken for. AWS lists the regions of China in yuan, and every other
/// amount in Outrigger is in dollars: what nodes and evictions cost, and what is saved.
pub const YUAN_PER_DOLLAR: f64 = 7.2;

/// When the newer of the lists was taken: 2026-11-01T00:00:00Z.
pub const TAKEN_AT: Timestamp = Timestamp::constant(1_793_491_200, 0);

/// When the older one was, which has spot and all regions but a few: 2025-05-28T00:00:00Z.
pub const SPOT_TAKEN_AT: Timestamp = Timestamp::constant(1_748_390_400, 0);

/// The regions of the newer list.
const LISTED_LATER: [&str; 4] = ["cn-north-1", "us-east-1", "us-gov-east-1", "us-gov-west-1"];

static PRICES: &[u8] = include_bytes!("../data/prices.json.gz");

/// The prices of a region by instance type. They are read once in the life of a process.
#[derive(Clone, Copy, Debug)]
pub struct RegionPrices(&'static Prices);

type Prices = BTreeMap<String, ListedPrice>;

/// What an instance type costs in a region or local zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedPrice {
    /// Dollars per hour on demand, in billionths.
    #[serde(rename = "d")]
    pub on_demand: Price,
    /// What spot costs in percent of on demand; `None` where the type is not sold as spot.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub spot_percent: Option<u8>,
    /// How often EC2 takes spot instances back; `None` where nobody says.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub interruption: Option<InterruptionFrequency>,
    /// Whether the price on demand follows from other types or regions, since no list has it.
    #[serde(rename = "e", default, skip_serializing_if = "std::ops::Not::not")]
    pub is_estimate: bool,
}

impl ListedPrice {
    /// Dollars per hour as spot.
    pub fn spot(self) -> Option<Price> {
        self.spot_percent.map(|percent| self.on_demand.percent(u64::from(percent)))
    }
}

impl RegionPrices {
    /// The prices of a region or local zone, as `us-east-1` or `us-east-1-dfw-1`. Errs with all
    /// regions that are listed for one that is not.
    pub fn embedded(region: &str) -> Result<Self, CatalogError> {
        let Some(list) = lists()?.get(region) else {
            return Err(CatalogError::Region { region: region.to_owned(), allowed: regions()?.join(", ") });
        };
        let read = || serde_json::from_str(list.text.get()).map_err(|error| error.to_string());
        list.prices.get_or_init(read).as_ref().map(Self).map_err(|why| damaged(why))
    }

    /// The prices of a region that no list has.
    pub fn none() -> Self {
        static NONE: Prices = Prices::new();
        Self(&NONE)
    }

    /// The prices of a zone in the region. Local and Wavelength Zones have their own, and are named
    /// after what they are listed under: `us-east-1-dfw-1a`, `us-east-1-wl1-bos-wlz-1`.
    pub fn of_zone(region: &str, zone: &str) -> Result<Self, CatalogError> {
        let local = format!("{region}-");
        let is_its = |name: &&str| name.starts_with(&local) && zone.starts_with(name);
        let group = lists()?.keys().map(String::as_str).filter(is_its).max_by_key(|name| name.len());
        Self::embedded(group.unwrap_or(region))
    }

    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What a type costs; `None` where it is not sold, as far as is listed.
    pub fn get(&self, instance_type: &str) -> Option<ListedPrice> {
        self.0.get(instance_type).copied()
    }

    /// The prices on demand by instance type, for `refresh` where AWS' price list cannot be had.
    pub fn on_demand(&self) -> BTreeMap<String, Price> {
        self.0.iter().map(|(name, listed)| (name.clone(), listed.on_demand)).collect()
    }
}

/// How old the prices of a region are and what about them is an estimate, for people.
pub fn described(region: &str) -> String {
    let is_newer = LISTED_LATER.contains(&region);
    let on_demand = if is_newer { TAKEN_AT } else { SPOT_TAKEN_AT };
    let day = |taken_at: Timestamp| taken_at.strftime("%Y-%m-%d").to_string();
    let estimates = match region {
        "cn-north-1" => format!("; {YUAN_PER_DOLLAR} yuan are taken for a dollar"),
        _ if is_newer => String::new(),
        _ => "; those of newer types are estimates".to_owned(),
    };
    format!(
        "prices of {region} are those compiled in: on demand of {}, spot as its mean of {}{estimates}",
        day(on_demand),
        day(SPOT_TAKEN_AT)
    )
}

/// The regions that are listed, in order, without local zones.
pub fn regions() -> Result<Vec<&'static str>, CatalogError> {
    let is_region = |name: &&str| name.matches('-').count() == 2 || name.starts_with("us-gov-");
    Ok(lists()?.keys().map(String::as_str).filter(is_region).collect())
}

type Lists = BTreeMap<String, List>;

/// A region's prices as text until somebody wants them: most programs want those of one.
#[derive(Deserialize)]
#[serde(transparent)]
struct List {
    text: Box<RawValue>,
    #[serde(skip)]
    prices: OnceLock<Result<Prices, String>>,
}

fn lists() -> Result<&'static Lists, CatalogError> {
    static READ: OnceLock<Result<Lists, String>> = OnceLock::new();
    READ.get_or_init(|| read(PRICES)).as_ref().map_err(|why| damaged(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_region_is_listed() {
        let regions = regions().unwrap();
        assert_eq!(regions.len(), 35, "{regions:?}");
        for region in regions {
            let prices = RegionPrices::embedded(region).unwrap();
            let large = prices.get("m6g.large").unwrap_or_else(|| panic!("{region} sells m6g.large"));
            let dollars = large.on_demand.dollars();
            assert!((0.05..0.16).contains(&dollars), "{region}: {dollars}");
            assert!(large.spot().is_some_and(|spot| spot < large.on_demand), "{region}");
        }
    }

    #[test]
    fn an_unknown_region_is_told_which_are_known() {
        let message = RegionPrices::embedded("eu-west-9").unwrap_err().to_string();
        assert!(
            message.contains("\"eu-west-9\"") && message.contains("us-east-1, us-east-2, us-gov-east-1"),
            "{message}"
        );
        assert!(!message.contains("dfw"), "local zones are no regions: {message}");
    }

    #[test]
    fn a_local_zone_has_prices_of_its_own() {
        let price = |zone: &str| {
            let prices = RegionPrices::of_zone("us-east-1", zone).unwrap();
            prices.get("c6i.xlarge").map(|listed| listed.on_demand.nanos())
        };
        assert_eq!(price("us-east-1a"), Some(170_000_000));
        assert!(price("us-east-1-dfw-1a").is_some_and(|local| local > 170_000_000));
        assert_eq!(price("us-east-1-wl1-bos-wlz-1"), None, "Wavelength sells few types");
        assert_eq!(
            price("us-east-1-xyz-1a"),
            price("us-east-1a"),
            "one that is not listed is like its region"
        );
    }

    #[test]
    fn what_is_not_sold_as_spot_has_no_spot_price() {
        let prices = RegionPrices::embedded("us-east-2").unwrap();
        for name in ["hpc6a.48xlarge", "hpc7g.16xlarge", "u-6tb1.metal"] {
            assert_eq!(prices.get(name).and_then(|listed| listed.spot_percent), None, "{name}");
        }
    }

    #[test]
    fn types_that_are_newer_than_a_list_are_estimated() {
        let price = |region: &str, name: &str| {
            let prices = RegionPrices::embedded(region).unwrap();
            prices.get(name).unwrap_or_else(|| panic!("{region} sells {name}"))
        };
        let (home, abroad) = (price("us-east-1", "m8i.large"), price("eu-west-1", "m8i.large"));
        assert!(!home.is_estimate && abroad.is_estimate);
        let (home_before, before) = (price("us-east-1", "m7i.large"), price("eu-west-1", "m7i.large"));
        let ratio =
            |abroad: ListedPrice, home: ListedPrice| abroad.on_demand.dollars() / home.on_demand.dollars();
        assert!((ratio(abroad, home) - ratio(before, home_before)).abs() < 0.02);
        assert!(abroad.spot_percent.is_some_and(|percent| (20..80).contains(&percent)));
        assert_eq!(abroad.interruption, None, "nobody has said how often it is taken back");
    }

    #[test]
    fn yuan_are_not_taken_for_dollars() {
        let prices = RegionPrices::embedded("cn-north-1").unwrap();
        let large = prices.get("m5.large").unwrap();
        assert!(large.is_estimate && large.on_demand.dollars() < 0.15, "{large:?}");
    }

    #[test]
    fn the_dates_are_those_of_the_lists() {
        assert_eq!(TAKEN_AT.to_string(), "2026-11-01T00:00:00Z");
        assert_eq!(SPOT_TAKEN_AT.to_string(), "2025-05-28T00:00:00Z");
    }
}
