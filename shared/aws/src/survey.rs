//! What EC2 sells: instance types, where they are offered, and prices. Each part that cannot be had
//! is taken from the embedded catalogue, with a line in the log.

mod facts;

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_ec2::primitives::DateTime;
use aws_sdk_ec2::types::{InstanceType, InstanceTypeInfo, LocationType, UsageClassType};
use jiff::Timestamp;
use outrigger_catalog::prices::{ListedPrice, RegionPrices, YUAN_PER_DOLLAR};
use outrigger_catalog::{Catalog, CatalogError, PriceSource, TypeEntry};
use outrigger_engine::Rate;
use outrigger_engine::ports::CloudError;
use outrigger_model::{CapacityType, Offering, Price};

use crate::ec2::{SERVICE, filter};
use crate::{Aws, errors, pricing};

const TYPES_PER_PAGE: i32 = 100;
const OFFERINGS_PER_PAGE: i32 = 1_000;

type ZonesByType = BTreeMap<String, BTreeSet<String>>;
type SpotPrices = BTreeMap<(String, String), Price>;

/// Asks for everything.
pub(crate) async fn survey(aws: &Aws) -> Result<Catalog, CloudError> {
    let (types, zones, spot, on_demand) = futures::future::join4(
        instance_types(aws),
        zones_by_type(aws),
        spot_prices(aws),
        pricing::on_demand(aws),
    )
    .await;
    let (Some(types), Some(zones)) = (or_embedded("instance types", types), or_embedded("offerings", zones))
    else {
        return embedded(aws).await;
    };
    let on_demand = or_embedded("on-demand prices", on_demand).filter(|prices| !prices.is_empty());
    let embedded = RegionPrices::embedded(&aws.region)
        .inspect_err(|error| tracing::warn!(%error, "no prices of the region are compiled in"))
        .unwrap_or_else(|_| RegionPrices::none());
    let (list, source) = match on_demand {
        Some(prices) => (prices, PriceSource::Aws),
        None if embedded.is_empty() => (BTreeMap::new(), PriceSource::Missing),
        None => (embedded.on_demand(), PriceSource::Embedded),
    };
    let spot = or_embedded("spot prices", spot);
    let sold = Sold { zones, list, spot: spot.as_ref(), embedded };
    let entries = types.iter().filter_map(|info| entry(info, &sold)).collect();
    Ok(Catalog::refreshed(&aws.region, Timestamp::now(), spot.is_none(), source, entries))
}

/// Where types are sold, and for how much.
struct Sold<'a> {
    zones: ZonesByType,
    /// Prices on demand.
    list: BTreeMap<String, Price>,
    spot: Option<&'a SpotPrices>,
    /// What serves for spot where EC2 has not answered, and how often spot is interrupted.
    embedded: RegionPrices,
}

/// The catalogue that is compiled in, for the zones of the region.
pub(crate) async fn embedded(aws: &Aws) -> Result<Catalog, CloudError> {
    let zones = or_embedded("availability zones", availability_zones(aws).await).unwrap_or_default();
    Catalog::embedded(&aws.region, &zones).map_err(|error| unusable(&error))
}

/// An error of the catalogue as the port has it.
pub(crate) fn unusable(error: &CatalogError) -> CloudError {
    CloudError::Unusable { what: "the catalogue".into(), why: error.to_string() }
}

fn or_embedded<T>(what: &str, answer: Result<T, CloudError>) -> Option<T> {
    answer
        .inspect_err(|error| {
            let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(%error, cause, "no {what} from AWS: the embedded ones are used");
        })
        .ok()
}

/// A type with its offerings: on demand at the list price where it is offered, spot where there is
/// a price.
fn entry(info: &InstanceTypeInfo, sold: &Sold<'_>) -> Option<TypeEntry> {
    let facts = facts::read(info)?;
    let list_price = sold.list.get(&facts.name).copied();
    let listed = sold.embedded.get(&facts.name);
    let sold_as_spot = info.supported_usage_classes().contains(&UsageClassType::Spot);
    let mut offered = Vec::new();
    for zone in sold.zones.get(&facts.name).into_iter().flatten() {
        let spot_price = match sold.spot {
            Some(prices) => prices.get(&(facts.name.clone(), zone.clone())).copied(),
            None => listed.and_then(ListedPrice::spot),
        };
        let prices =
            [(CapacityType::Spot, spot_price.filter(|_| sold_as_spot)), (CapacityType::OnDemand, list_price)];
        offered.extend(prices.into_iter().filter_map(|(capacity_type, price)| {
            let is_spot = capacity_type == CapacityType::Spot;
            price.map(|price| Offering {
                zone: zone.clone(),
                capacity_type,
                price,
                available: true,
                reservation: None,
                interruption: listed.filter(|_| is_spot).and_then(|listed| listed.interruption),
            })
        }));
    }
    (!offered.is_empty()).then(|| TypeEntry { facts: facts.completed(), offerings: offered })
}

async fn instance_types(aws: &Aws) -> Result<Vec<InstanceTypeInfo>, CloudError> {
    let mut pages = aws
        .ec2(Rate::Describe)
        .await
        .describe_instance_types()
        .filters(filter("supported-virtualization-type", ["hvm"]))
        .filters(filter("processor-info.supported-architecture", ["x86_64", "arm64"]))
        .into_paginator()
        .page_size(TYPES_PER_PAGE)
        .send();
    let mut types = Vec::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| errors::cloud(SERVICE, "list instance types", error))?;
        aws.next_page().await;
        types.extend(page.instance_types.unwrap_or_default());
    }
    Ok(types)
}

async fn zones_by_type(aws: &Aws) -> Result<ZonesByType, CloudError> {
    let mut pages = aws
        .ec2(Rate::Describe)
        .await
        .describe_instance_type_offerings()
        .location_type(LocationType::AvailabilityZone)
        .into_paginator()
        .page_size(OFFERINGS_PER_PAGE)
        .send();
    let mut zones = ZonesByType::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| errors::cloud(SERVICE, "list offerings", error))?;
        aws.next_page().await;
        for offering in page.instance_type_offerings() {
            if let (Some(kind), Some(zone)) =
                (offering.instance_type().map(InstanceType::as_str), offering.location())
            {
                zones.entry(kind.to_owned()).or_default().insert(zone.to_owned());
            }
        }
    }
    Ok(zones)
}

/// The present spot price of each type in each zone. EC2 has those of China in yuan.
async fn spot_prices(aws: &Aws) -> Result<SpotPrices, CloudError> {
    let now = std::time::SystemTime::now();
    let per_dollar = if aws.region.starts_with("cn-") { YUAN_PER_DOLLAR } else { 1.0 };
    let mut pages = aws
        .ec2(Rate::Describe)
        .await
        .describe_spot_price_history()
        .product_descriptions("Linux/UNIX")
        .product_descriptions("Linux/UNIX (Amazon VPC)")
        .start_time(now.into())
        .into_paginator()
        .page_size(OFFERINGS_PER_PAGE)
        .send();
    let mut latest: BTreeMap<(String, String), (i64, Price)> = BTreeMap::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| errors::cloud(SERVICE, "list spot prices", error))?;
        aws.next_page().await;
        for entry in page.spot_price_history() {
            let price = entry.spot_price().and_then(|text| text.parse::<f64>().ok());
            let price = price.and_then(|amount| Price::from_dollars(amount / per_dollar));
            let (Some(kind), Some(zone), Some(price)) =
                (entry.instance_type(), entry.availability_zone(), price)
            else {
                continue;
            };
            let at = entry.timestamp().map_or(0, DateTime::secs);
            let newest =
                latest.entry((kind.as_str().to_owned(), zone.to_owned())).or_insert((i64::MIN, price));
            if at >= newest.0 && price > Price::ZERO {
                *newest = (at, price);
            }
        }
    }
    Ok(latest
        .into_iter()
        .filter(|(_, (at, _))| *at > i64::MIN)
        .map(|(key, (_, price))| (key, price))
        .collect())
}

async fn availability_zones(aws: &Aws) -> Result<Vec<String>, CloudError> {
    let describe = aws
        .ec2(Rate::Describe)
        .await
        .describe_availability_zones()
        .filters(filter("zone-type", ["availability-zone"]));
    let answer =
        describe.send().await.map_err(|error| errors::cloud(SERVICE, "list availability zones", error))?;
    let mut zones: Vec<String> =
        answer.availability_zones().iter().filter_map(|zone| zone.zone_name().map(str::to_owned)).collect();
    zones.sort();
    Ok(zones)
}
