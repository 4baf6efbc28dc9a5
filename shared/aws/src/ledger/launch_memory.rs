//! How launches have fared lately: one item, written over the version that was read, and the
//! offerings that could not be had.

use async_trait::async_trait;
use outrigger_engine::ports::{LaunchMemory, LedgerError};
use outrigger_model::{LaunchHealth, UnavailableOffering};

use super::expression::Expression;
use super::item::{Item, names, number};
use super::partition::Partition;
use super::queries::get;
use super::single_write::{ConditionalWrite, put_if};
use super::{DynamoLedger, unavailable};

const HEALTH: &str = "health";

#[async_trait]
impl LaunchMemory for DynamoLedger {
    async fn put_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        unavailable::put(self, Partition::Cluster, offerings).await
    }

    async fn clear_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        unavailable::clear(self, offerings).await
    }

    async fn health(&self) -> Result<LaunchHealth, LedgerError> {
        let Some(item) = get(self, Partition::Cluster, HEALTH).await? else {
            return Ok(LaunchHealth::default());
        };
        // What cannot be read is forgotten: that costs some launches which fail again.
        let health: LaunchHealth = item.packed_body_if_readable().unwrap_or_default();
        Ok(LaunchHealth { version: item.number(names::VERSION)?, ..health })
    }

    async fn put_health(&self, health: &LaunchHealth) -> Result<(), LedgerError> {
        let next = LaunchHealth { version: health.version.saturating_add(1), ..health.clone() };
        let item: Item = self
            .item(Partition::Cluster, HEALTH)
            .with_packed_body(&next)?
            .with(names::VERSION, number(next.version));
        let condition = Expression::is_at_version_or_new(health.version);
        let error = match put_if(self, item, &condition, "write how launches have fared").await {
            Ok(ConditionalWrite::Written) => return Ok(()),
            Ok(ConditionalWrite::Refused) => LedgerError::Conflict { what: "how launches have fared".into() },
            Err(error) => error,
        };
        // An answer that was lost makes the SDK send the same again, which then meets its own first
        // attempt.
        match self.health().await {
            Ok(stored) if stored == next => Ok(()),
            _ => Err(error),
        }
    }
}
