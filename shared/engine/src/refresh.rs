//! The refresh tick: EC2's instance types, offerings and prices -> the stored catalogue.

use serde::Serialize;

use crate::ports::{Cloud, CloudError};

/// What a tick did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// How many instance types the catalogue holds.
    pub instance_types: usize,
    /// How many offerings.
    pub offerings: usize,
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
    })
}
