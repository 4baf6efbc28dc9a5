//! Prices put together from the lists: what a newer list says goes first, and what neither says of
//! types that are newer than the older one is an estimate.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use outrigger_catalog::prices::{ListedPrice, YUAN_PER_DOLLAR};
use outrigger_model::{InterruptionFrequency, Price};

use crate::source::{Row, Rows};

type Region = BTreeMap<String, ListedPrice>;

/// The region that the newer list knows every type of.
const HOME: &str = "us-east-1";

/// The prices of every region and local zone, of types whose facts are known: others could not be
/// planned with.
pub(crate) fn collect(
    newer: &Rows,
    by_region: &Rows,
    types: &BTreeSet<&str>,
) -> Result<BTreeMap<String, Region>> {
    let mut regions: BTreeMap<String, Region> = BTreeMap::new();
    for row in by_region.iter() {
        let name = row.text("instance_type")?;
        let region = regions.entry(row.text("region")?.to_owned()).or_default();
        region.insert(name.to_owned(), of_advisor(row)?);
    }
    let listed: BTreeSet<String> = regions.values().flat_map(BTreeMap::keys).cloned().collect();
    let older = regions.get(HOME).context("no us-east-1")?.clone();
    let newest = newer_prices(newer)?;
    let home = renewed(&older, newest.get(HOME).context("no us-east-1")?, &older, false);
    for (region, prices) in &newest {
        // AWS lists China in yuan.
        let list = renewed(&regions.remove(region).unwrap_or_default(), prices, &home, is_in_yuan(region));
        regions.insert(region.clone(), list);
    }
    let regional = regions.iter_mut().filter(|(name, _)| !newest.contains_key(*name));
    for (name, region) in regional {
        follow_changes(region, &older, &home);
        // Local zones sell few types; nobody can say which newer ones.
        if name.matches('-').count() == 2 {
            add_newer(region, &home, &listed);
        }
    }
    for region in regions.values_mut() {
        region.retain(|name, _| types.contains(name.as_str()));
    }
    Ok(regions)
}

/// A region as the newer list has it, with what the older one says of spot. Of a type that the
/// older one lacks here spot is what it is at home, or what it is for its category.
fn renewed(older: &Region, prices: &BTreeMap<String, Price>, home: &Region, is_estimate: bool) -> Region {
    // The advisor knows nothing of GovCloud and China.
    let is_advised = older.values().any(|price| price.interruption.is_some());
    let listed = |(name, price): (&String, &Price)| {
        let spot = older.get(name).filter(|_| is_advised).or_else(|| home.get(name));
        let listed = ListedPrice {
            on_demand: *price,
            spot_percent: spot.map_or_else(|| spot_of_category(home, name), |spot| spot.spot_percent),
            interruption: older.get(name).and_then(|spot| spot.interruption),
            is_estimate,
        };
        (name.clone(), listed)
    };
    prices.iter().map(listed).collect()
}

fn of_advisor(row: &Row) -> Result<ListedPrice> {
    let saved = row.optional_number("spot_saving_percent")?;
    let spot_percent = saved.map(|saved| u8::try_from(100_u32.saturating_sub(saved))).transpose()?;
    let words = row.text("interruption_frequency")?;
    let interruption = InterruptionFrequency::CLASSES.into_iter().find(|class| class.words() == words);
    ensure!(words.is_empty() || interruption.is_some(), "{words:?} is no interruption frequency");
    let on_demand = price(row, 1.0)?;
    Ok(ListedPrice { on_demand, spot_percent, interruption, is_estimate: false })
}

fn newer_prices(rows: &Rows) -> Result<BTreeMap<String, BTreeMap<String, Price>>> {
    let mut regions: BTreeMap<String, BTreeMap<String, Price>> = BTreeMap::new();
    for row in rows.iter() {
        let region = row.text("region")?;
        let per_dollar = if is_in_yuan(region) { YUAN_PER_DOLLAR } else { 1.0 };
        let price = price(row, per_dollar)?;
        regions.entry(region.to_owned()).or_default().insert(row.text("instance_type")?.to_owned(), price);
    }
    Ok(regions)
}

fn is_in_yuan(region: &str) -> bool {
    region.starts_with("cn-")
}

fn price(row: &Row, per_dollar: f64) -> Result<Price> {
    Price::from_dollars(row.number::<f64>("usd_per_hour")? / per_dollar).context("not a price")
}

/// AWS changes a price in all regions alike: what changed at home since the older list has changed
/// here, too.
fn follow_changes(region: &mut Region, older: &Region, home: &Region) {
    for (name, listed) in region {
        let (Some(before), Some(now)) = (older.get(name), home.get(name)) else { continue };
        if before.on_demand != now.on_demand {
            listed.on_demand = times(listed.on_demand, ratio(*now, *before));
            listed.is_estimate = true;
        }
    }
}

/// Types that no region of the older list has are newer than it. They are taken to be sold where
/// others of their category are, for as much more than at home as these.
fn add_newer(region: &mut Region, home: &Region, listed: &BTreeSet<String>) {
    for (name, at_home) in home.iter().filter(|(name, _)| !listed.contains(*name)) {
        let like = region.iter().filter(|(other, _)| category(other) == category(name));
        let ratios: Vec<f64> = like
            .filter(|(_, price)| !price.is_estimate)
            .filter_map(|(other, price)| home.get(other).map(|at_home| ratio(*price, *at_home)))
            .collect();
        let Some(ratio) = median(ratios) else { continue };
        let estimate = ListedPrice {
            on_demand: times(at_home.on_demand, ratio),
            spot_percent: spot_of_category(region, name),
            interruption: None,
            is_estimate: true,
        };
        region.insert(name.clone(), estimate);
    }
}

/// What spot of a category costs, by the middle of what is listed; none where none of it is sold.
fn spot_of_category(region: &Region, name: &str) -> Option<u8> {
    let like = region.iter().filter(|(other, _)| category(other) == category(name));
    // Types whose spot itself was estimated have no frequency.
    let listed = like.map(|(_, price)| price).filter(|price| price.interruption.is_some());
    let mut percents: Vec<u8> = listed.filter_map(|price| price.spot_percent).collect();
    percents.sort_unstable();
    percents.get(percents.len() / 2).copied()
}

/// The letters before the generation: `m` of `m8i.large`, `hpc` of `hpc7a.12xlarge`.
fn category(name: &str) -> &str {
    name.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or(name)
}

fn ratio(one: ListedPrice, other: ListedPrice) -> f64 {
    one.on_demand.dollars() / other.on_demand.dollars()
}

fn times(price: Price, ratio: f64) -> Price {
    // To a hundredth of a cent: an estimate is not known better.
    let dollars = (price.dollars() * ratio * 1e4).round() / 1e4;
    Price::from_dollars(dollars).unwrap_or(price)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}
