//! The facts and list prices that are compiled in: what there is where no AWS answers.
//!
//! `data/README.md` says where they come from. They are decompressed and read when first asked for.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use jiff::Timestamp;
use outrigger_model::Price;
use serde::de::DeserializeOwned;

use crate::error::CatalogError;
use crate::facts::InstanceTypeFacts;

/// The time that the embedded data stands for: 2026-11-01T00:00:00Z.
pub const TAKEN_AT: Timestamp = Timestamp::constant(1_793_491_200, 0);

static FACTS: &[u8] = include_bytes!("../data/instance-types.json.gz");
static PRICES: &[u8] = include_bytes!("../data/on-demand-prices.json.gz");

type PriceList = BTreeMap<String, BTreeMap<String, Price>>;

/// The facts of every embedded type, in order of name.
pub fn facts() -> Result<&'static [InstanceTypeFacts], CatalogError> {
    static READ: OnceLock<Result<Vec<InstanceTypeFacts>, String>> = OnceLock::new();
    READ.get_or_init(|| read(FACTS)).as_deref().map_err(|why| damaged(why))
}

/// The facts of one type.
pub fn facts_of(name: &str) -> Option<&'static InstanceTypeFacts> {
    let facts = facts().ok()?;
    facts.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok().and_then(|index| facts.get(index))
}

/// The on-demand prices of a region by instance type. Regions of China are listed in yuan, as AWS
/// does: their prices compare with one another, not with dollars.
pub fn on_demand_prices(region: &str) -> Result<&'static BTreeMap<String, Price>, CatalogError> {
    let list = price_list()?;
    list.get(region).ok_or_else(|| CatalogError::Region {
        region: region.to_owned(),
        allowed: list.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
    })
}

/// The regions whose prices are embedded, in order.
pub fn regions() -> Result<Vec<&'static str>, CatalogError> {
    Ok(price_list()?.keys().map(String::as_str).collect())
}

fn price_list() -> Result<&'static PriceList, CatalogError> {
    static READ: OnceLock<Result<PriceList, String>> = OnceLock::new();
    READ.get_or_init(|| read(PRICES)).as_ref().map_err(|why| damaged(why))
}

fn read<T: DeserializeOwned>(compressed: &[u8]) -> Result<T, String> {
    let mut json = Vec::new();
    GzDecoder::new(compressed).read_to_end(&mut json).map_err(|error| error.to_string())?;
    serde_json::from_slice(&json).map_err(|error| error.to_string())
}

fn damaged(why: &str) -> CatalogError {
    CatalogError::Embedded { why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_are_all_there_and_in_order() {
        let facts = facts().unwrap();
        assert_eq!(facts.len(), 1_345);
        assert!(facts.is_sorted_by(|a, b| a.name < b.name));
        assert_eq!(facts_of("m5.large").map(|facts| facts.vcpus), Some(2));
        assert_eq!(facts_of("m5.enormous"), None);
    }

    #[test]
    fn an_unknown_region_is_told_which_are_known() {
        let message = on_demand_prices("eu-west-9").unwrap_err().to_string();
        assert!(
            message.contains("\"eu-west-9\"") && message.contains("us-east-1, us-gov-east-1"),
            "{message}"
        );
        assert_eq!(regions().unwrap(), ["cn-north-1", "us-east-1", "us-gov-east-1", "us-gov-west-1"]);
    }

    #[test]
    fn the_date_is_the_first_of_november() {
        assert_eq!(TAKEN_AT.to_string(), "2026-11-01T00:00:00Z");
    }

    #[test]
    fn what_ec2_leaves_out_is_completed() {
        let mut facts = facts_of("m5.large").unwrap().clone();
        let whole = facts.clone();
        (facts.branch_interfaces, facts.network_mbps) = (0, None);
        assert_eq!(facts.clone().completed(), whole);
        facts.name = "m99.large".into();
        assert_eq!(facts.clone().completed(), facts);
    }
}
