//! The catalogue that `refresh` stores, and what serves while it cannot be read: prices that are
//! hours old are better than no node.

use std::sync::Mutex;

use outrigger_catalog::{Catalog, CatalogError};
use outrigger_engine::chain;
use outrigger_engine::ports::CloudError;

use crate::lock::lock;
use crate::s3::S3Location;
use crate::{Aws, survey};

/// The name under which a version before formats had names stored the first format.
const UNVERSIONED: &str = "catalog";

/// Where the catalogue lies, with the last one that was read there.
#[derive(Debug)]
pub(crate) struct StoredCatalog {
    location: S3Location,
    last: Mutex<Option<Catalog>>,
}

impl StoredCatalog {
    pub(crate) const fn at(location: S3Location) -> Self {
        Self { location, last: Mutex::new(None) }
    }

    /// The stored one. Where it cannot be read, the last one that this process has read serves,
    /// else the one that is compiled in. Errs where that does not know the region either.
    pub(crate) async fn read(&self, aws: &Aws) -> Result<Catalog, CloudError> {
        let error = match self.stored(aws).await {
            Ok(Some(catalog)) => {
                *lock(&self.last) = Some(catalog.clone());
                return Ok(catalog);
            }
            Ok(None) => return survey::embedded(aws).await,
            Err(error) => error,
        };
        let (location, why) = (&self.location, chain(&error));
        if let Some(catalog) = lock(&self.last).clone() {
            tracing::error!(%location, why, "the catalogue cannot be read; the last one that was read serves");
            return Ok(catalog);
        }
        match survey::embedded(aws).await {
            Ok(catalog) => {
                tracing::error!(%location, why, "the catalogue cannot be read; the one that is compiled in serves");
                Ok(catalog)
            }
            Err(embedded) => {
                tracing::error!(why = chain(&embedded), "the catalogue that is compiled in does not serve");
                Err(error)
            }
        }
    }

    /// `None` where nothing was stored yet.
    async fn stored(&self, aws: &Aws) -> Result<Option<Catalog>, CloudError> {
        for name in [&object(Catalog::FORMAT), UNVERSIONED] {
            if let Some(bytes) = self.location.get(aws, name).await? {
                return Catalog::decode(&bytes).map(Some).map_err(|error| self.unusable(name, &error));
            }
        }
        Ok(None)
    }

    pub(crate) async fn write(&self, aws: &Aws, catalog: &Catalog) -> Result<(), CloudError> {
        let name = object(Catalog::FORMAT);
        let bytes = catalog.encode().map_err(|error| self.unusable(&name, &error))?;
        self.location.put(aws, &name, bytes).await
    }

    fn unusable(&self, name: &str, error: &CatalogError) -> CloudError {
        CloudError::Unusable { what: format!("{}{name}", self.location), why: chain(error) }
    }
}

/// The object's name holds its format: a version that was rolled back finds what it stored itself.
fn object(format: u32) -> String {
    format!("catalog-v{format}")
}
