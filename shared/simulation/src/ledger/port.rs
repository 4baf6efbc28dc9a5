//! The Ledger port in front of the table.

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use outrigger_engine::ports::{ClaimOutcome, Lease, Ledger, LedgerError, LedgerState, PreparedLaunch};
use outrigger_model::{NodeClaim, Report, UnavailableOffering};

use crate::door::{Call, Door, PortError};

#[async_trait]
impl Ledger for Door {
    async fn bind(&self, cluster_uid: &str) -> Result<(), LedgerError> {
        self.call(Call::Bind, |state, _| state.ledger.bind(cluster_uid)).await
    }

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

    async fn load(&self) -> Result<LedgerState, LedgerError> {
        self.call(Call::Load, |state, _| Ok(state.ledger.load())).await
    }

    async fn prepare(&self, lease: &Lease, launch: &PreparedLaunch) -> Result<u64, LedgerError> {
        self.call(Call::Prepare, |state, _| state.ledger.prepare(lease, launch)).await
    }

    async fn mark_sent(&self, lease: &Lease, intent: &str, at: Timestamp) -> Result<(), LedgerError> {
        self.call(Call::MarkSent, |state, _| state.ledger.mark_sent(lease, intent, at)).await
    }

    async fn resolve(
        &self,
        intent: &str,
        outcomes: &[ClaimOutcome],
        at: Timestamp,
    ) -> Result<(), LedgerError> {
        self.call(Call::Resolve, |state, _| state.ledger.resolve(intent, outcomes, at)).await
    }

    async fn abandon(&self, intent: &str, why: &str, at: Timestamp) -> Result<(), LedgerError> {
        self.call(Call::Abandon, |state, _| state.ledger.abandon(intent, why, at)).await
    }

    async fn update_claim(&self, claim: &NodeClaim) -> Result<NodeClaim, LedgerError> {
        self.call(Call::UpdateClaim, |state, _| state.ledger.update_claim(claim)).await
    }

    async fn put_unavailable(&self, offerings: &[UnavailableOffering]) -> Result<(), LedgerError> {
        self.call(Call::PutUnavailable, |state, _| {
            state.ledger.put_unavailable(offerings);
            Ok(())
        })
        .await
    }

    async fn put_report(&self, function: &str, at: Timestamp, report: &Report) -> Result<(), LedgerError> {
        self.call(Call::PutReport, |state, _| {
            state.ledger.reports.insert(function.to_owned(), (at, report.clone()));
            Ok(())
        })
        .await
    }

    async fn report(&self, function: &str) -> Result<Option<(Timestamp, Report)>, LedgerError> {
        self.call(Call::Report, |state, _| Ok(state.ledger.report(function).cloned())).await
    }
}

impl PortError for LedgerError {
    fn unknown(call: Call) -> Self {
        Self::Unreachable { attempted: call.words().into(), source: crate::door::no_answer() }
    }

    fn refused(call: Call) -> Self {
        Self::Refused {
            attempted: call.words().into(),
            code: "ProvisionedThroughputExceededException".into(),
            message: "the request rate is too high".into(),
        }
    }
}
