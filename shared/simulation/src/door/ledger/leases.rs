//! Leases.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{Lease, Leases, LedgerError};

use crate::calls::Call;
use crate::door::Door;

#[async_trait]
impl Leases for Door {
    async fn acquire(
        &self,
        function: &str,
        owner: &str,
        now: Timestamp,
        ttl: Duration,
    ) -> Result<Option<Lease>, LedgerError> {
        self.call(Call::Acquire, |state, _| Ok(state.ledger.acquire(function, owner, now, ttl))).await
    }

    async fn renew(&self, lease: &Lease, now: Timestamp, ttl: Duration) -> Result<(), LedgerError> {
        self.call(Call::Renew, |state, _| state.ledger.renew(lease, now, ttl)).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.call(Call::Release, |state, _| {
            state.ledger.release(lease);
            Ok(())
        })
        .await
    }
}
