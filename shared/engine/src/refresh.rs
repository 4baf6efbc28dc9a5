//! The refresh tick: EC2's instance types, offerings and prices -> the stored catalogue.

use serde::Serialize;

use crate::ports::{CloudError, Ports};

/// What a tick did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// How many instance types the catalogue holds.
    pub instance_types: usize,
    /// How many offerings.
    pub offerings: usize,
}

/// One tick: surveys and stores. When the survey fails the stored catalogue stays as it is.
pub async fn tick(ports: Ports<'_>) -> Result<Summary, CloudError> {
    let catalog = ports.cloud.survey().await?;
    ports.cloud.store_catalog(&catalog).await?;
    Ok(Summary {
        instance_types: catalog.types.len(),
        offerings: catalog.types.iter().map(|entry| entry.offerings.len()).sum(),
    })
}
