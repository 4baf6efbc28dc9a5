//! The refresh tick: EC2's instance types, offerings and prices -> the stored catalogue.

use outrigger_catalog::{Catalog, PriceSource, Source};
use serde::Serialize;

use crate::ports::{Cloud, CloudError};

/// The name of the function.
pub const FUNCTION: &str = "refresh";

/// What a tick did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// How many instance types the catalogue holds.
    pub instance_types: usize,
    /// How many offerings.
    pub offerings: usize,
    /// What AWS did not say, so that lists which are compiled in serve.
    pub missing: Vec<&'static str>,
}

/// One tick: surveys and stores. When the survey fails the stored catalogue stays as it is. It asks
/// neither the cluster nor the ledger, so that prices are fresh before anybody has let the
/// functions into the cluster.
pub async fn tick(cloud: &dyn Cloud) -> Result<Summary, CloudError> {
    let catalog = cloud.survey().await?;
    cloud.store_catalog(&catalog).await?;
    Ok(Summary {
        instance_types: catalog.types.len(),
        offerings: catalog.types.iter().map(|entry| entry.offerings.len()).sum(),
        missing: missing(&catalog),
    })
}

fn missing(catalog: &Catalog) -> Vec<&'static str> {
    // GovCloud has no price list to ask, so the embedded one is what there is.
    let is_listed = match catalog.on_demand {
        PriceSource::Aws => true,
        PriceSource::Embedded => catalog.region.starts_with("us-gov-"),
        PriceSource::Missing => false,
    };
    let parts = [
        (catalog.source == Source::Embedded, "instance types"),
        (!is_listed, "prices on demand"),
        (catalog.spot_is_estimate, "spot prices"),
    ];
    parts.into_iter().filter_map(|(is_missing, part)| is_missing.then_some(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_aws_did_not_say_is_named() {
        let embedded = |region: &str| Catalog::embedded(region, &[]).unwrap();
        assert_eq!(missing(&embedded("eu-west-1")), ["instance types", "prices on demand", "spot prices"]);
        let table = [
            ("us-east-1", PriceSource::Aws, &[][..]),
            ("us-east-1", PriceSource::Embedded, &["prices on demand"]),
            ("us-gov-west-1", PriceSource::Embedded, &[]),
            ("us-gov-west-1", PriceSource::Missing, &["prices on demand"]),
        ];
        for (region, on_demand, expected) in table {
            let surveyed =
                Catalog::refreshed(region, embedded(region).taken_at, false, on_demand, Vec::new());
            assert_eq!(missing(&surveyed), expected, "{region} {on_demand:?}");
        }
    }
}
