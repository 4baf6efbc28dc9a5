//! What functions have decided last, for people.

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_model::Report;

use super::LedgerError;

/// The last report of each function, which the function writes itself.
#[async_trait]
pub trait Reports: Send + Sync {
    /// Keeps the last report of a function, for `explain`.
    async fn put_report(&self, function: &str, at: Timestamp, report: &Report) -> Result<(), LedgerError>;

    /// The last report of a function.
    async fn report(&self, function: &str) -> Result<Option<(Timestamp, Report)>, LedgerError>;
}
