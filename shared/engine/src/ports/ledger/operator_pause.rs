//! An operator's pause.

use async_trait::async_trait;
use outrigger_model::Pause;

use super::LedgerError;

/// The pause, which people alone write and functions heed.
#[async_trait]
pub trait OperatorPause: Send + Sync {
    /// An operator's pause, over or not; `None` where there is none.
    async fn pause(&self) -> Result<Option<Pause>, LedgerError>;

    /// Writes a pause over the one that is there, or removes it: the last word of an operator's
    /// counts.
    async fn put_pause(&self, pause: Option<&Pause>) -> Result<(), LedgerError>;
}
