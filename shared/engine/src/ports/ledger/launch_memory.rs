//! What launches came to.

use async_trait::async_trait;
use outrigger_model::{LaunchHealth, UnavailableOffering};

use super::LedgerError;

/// How launches have fared, beside the claims. `provision` remembers what its launches met, and
/// `lifecycle` counts what its nodes came to.
#[async_trait]
pub trait LaunchMemory: Send + Sync {
    /// Remembers that offerings could not be had.
    async fn put_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError>;

    /// Forgets offerings that could be had again; one that somebody has remembered anew stays.
    async fn clear_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError>;

    /// How launches have fared lately; an empty one before anything was remembered.
    async fn health(&self) -> Result<LaunchHealth, LedgerError>;

    /// Writes what was read at `health.version`. Errors with [`LedgerError::Conflict`] when
    /// somebody else wrote it meanwhile.
    async fn put_health(&self, health: &LaunchHealth) -> Result<(), LedgerError>;
}
