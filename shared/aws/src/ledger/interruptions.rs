//! What the function `interrupt` states and keeps.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Interruption, Interruptions, LedgerError};
use outrigger_model::UnavailableOffering;

use super::expression::Expression;
use super::item::{names, number};
use super::partition::Partition;
use super::single_write::{ConditionalWrite, delete_if, put_if};
use super::{DynamoLedger, handled_events, unavailable};

/// What the sort keys of interruptions begin with.
pub(super) const PREFIX: &str = "interruption#";
/// One that nobody forgets is about no claim any more, in seconds.
const KEPT_SECONDS: i64 = 30 * 24 * 3_600;

/// The sort key of what was stated of a claim.
pub(super) fn key(claim: &str) -> String {
    format!("{PREFIX}{claim}")
}

#[async_trait]
impl Interruptions for DynamoLedger {
    /// An answer that was lost counts as somebody else's statement.
    async fn interrupt(&self, stated: &Interruption) -> Result<bool, LedgerError> {
        let key = key(&stated.claim);
        let item = self
            .item(Partition::Interrupt, &key)
            .with_body(stated)?
            .with(names::TTL, number(stated.at.as_second().saturating_add(KEPT_SECONDS)));
        let stated = put_if(self, item, &Expression::is_new(), format!("write {key}")).await?;
        Ok(stated == ConditionalWrite::Written)
    }

    /// Doing it twice is fine.
    async fn forget_interruption(&self, stated: &Interruption) -> Result<(), LedgerError> {
        let key = key(&stated.claim);
        let item = self.item(Partition::Interrupt, &key);
        let is_it = Expression::body_holds(&format!("\"at\":\"{}\"", stated.at));
        delete_if(self, item, &is_it, format!("delete {key}")).await.map(drop)
    }

    async fn handled(&self, events: &[String], now: Timestamp) -> Result<BTreeSet<String>, LedgerError> {
        handled_events::read(self, events, now).await
    }

    async fn put_handled(&self, events: &[String], until: Timestamp) -> Result<(), LedgerError> {
        handled_events::put(self, events, until).await
    }

    async fn put_taken_back(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        unavailable::put(self, Partition::Interrupt, offerings).await
    }
}
