//! On-demand list prices from AWS' Pricing API.

use std::collections::BTreeMap;

use aws_config::Region;
use aws_sdk_pricing::types::{Filter, FilterType};
use outrigger_catalog::prices::YUAN_PER_DOLLAR;
use outrigger_engine::ports::CloudError;
use outrigger_model::Price;
use serde_json::Value;

use crate::{Aws, errors};

const SERVICE: &str = "Pricing";

/// Dollars per hour by instance type, for Linux on shared machines.
pub(crate) async fn on_demand(aws: &Aws) -> Result<BTreeMap<String, Price>, CloudError> {
    let config =
        aws_sdk_pricing::config::Builder::from(&aws.config).region(Region::new(endpoint_region(&aws.region)));
    let client = aws_sdk_pricing::Client::from_conf(config.build());
    let mut pages = client
        .get_products()
        .service_code("AmazonEC2")
        .set_filters(Some(filters(&aws.region)?))
        .into_paginator()
        .send();
    let mut prices = BTreeMap::new();
    while let Some(page) = pages.next().await {
        let page = page.map_err(|error| errors::cloud(SERVICE, "list prices", error))?;
        prices.extend(page.price_list().iter().filter_map(|product| read(product)));
    }
    Ok(prices)
}

/// The Pricing API answers in few regions; the nearest of the partition is asked.
fn endpoint_region(region: &str) -> &'static str {
    if region.starts_with("cn-") {
        "cn-northwest-1"
    } else if region.starts_with("ap-") {
        "ap-south-1"
    } else if region.starts_with("eu-") {
        "eu-central-1"
    } else {
        "us-east-1"
    }
}

fn filters(region: &str) -> Result<Vec<Filter>, CloudError> {
    let wanted = [
        ("regionCode", region),
        ("operatingSystem", "Linux"),
        ("preInstalledSw", "NA"),
        ("tenancy", "Shared"),
        ("capacitystatus", "Used"),
        ("marketoption", "OnDemand"),
        ("operation", "RunInstances"),
    ];
    wanted
        .into_iter()
        .map(|(field, value)| {
            let filter = Filter::builder().field(field).value(value).r#type(FilterType::TermMatch).build();
            filter.map_err(|error| CloudError::Unusable {
                what: "the price filter".into(),
                why: error.to_string(),
            })
        })
        .collect()
}

/// Instance type and price out of one product, which AWS sends as JSON text. In China it lists
/// yuan, of which some are taken for a dollar.
fn read(product: &str) -> Option<(String, Price)> {
    let product: Value = serde_json::from_str(product).ok()?;
    let instance_type = product.pointer("/product/attributes/instanceType")?.as_str()?;
    let terms = product.pointer("/terms/OnDemand")?.as_object()?;
    let dimension =
        terms.values().find_map(|term| term.get("priceDimensions")?.as_object()?.values().next())?;
    let per_unit = dimension.get("pricePerUnit")?;
    let amount = |currency: &str| per_unit.get(currency)?.as_str()?.parse::<f64>().ok();
    let dollars = amount("USD").or_else(|| Some(amount("CNY")? / YUAN_PER_DOLLAR))?;
    let price = Price::from_dollars(dollars).filter(|price| *price > Price::ZERO)?;
    Some((instance_type.to_owned(), price))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn product(amount: &str) -> String {
        serde_json::json!({
            "product": {"attributes": {"instanceType": "m5.large", "regionCode": "us-east-1"}},
            "terms": {"OnDemand": {"X.Y": {"priceDimensions": {"X.Y.Z": {
                "unit": "Hrs", "pricePerUnit": {"USD": amount}
            }}}}}
        })
        .to_string()
    }

    #[test]
    fn a_product_is_read() {
        assert_eq!(
            read(&product("0.0960000000")),
            Some(("m5.large".to_owned(), Price::from_nanos(96_000_000)))
        );
    }

    #[test]
    fn yuan_are_not_taken_for_dollars() {
        let listed = product("0.7200000000").replace("USD", "CNY");
        assert_eq!(read(&listed), Some(("m5.large".to_owned(), Price::from_nanos(100_000_000))));
    }

    #[test]
    fn what_is_no_price_is_left_out() {
        for amount in ["0.0000000000", "", "NaN", "-1", "inf", "much"] {
            assert_eq!(read(&product(amount)), None, "{amount:?}");
        }
        for text in ["", "{}", "[]", r#"{"product":{"attributes":{"instanceType":"m5.large"}}}"#] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_nearest_endpoint_is_asked() {
        let asked =
            ["us-west-2", "eu-west-1", "ap-southeast-2", "cn-north-1", "sa-east-1"].map(endpoint_region);
        assert_eq!(asked, ["us-east-1", "eu-central-1", "ap-south-1", "cn-northwest-1", "us-east-1"]);
    }
}
