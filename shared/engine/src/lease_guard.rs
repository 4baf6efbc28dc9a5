//! Holding a lease for as long as a tick works.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use crate::TickError;
use crate::chain::chain;
use crate::ports::{Lease, LedgerError, Ports};
use crate::sweep::adoption::is_new_ledger;

/// How long a lease lasts without being renewed; a dead function's work waits no longer than this.
const TTL: Duration = Duration::from_secs(20);
/// How often it is renewed beside the work.
const RENEW_EVERY: Duration = Duration::from_secs(8);
/// How often a tick that waits for another one asks whether that has ended.
const ASK_AGAIN: Duration = Duration::from_secs(2);

/// A held lease. The ledger's epoch conditions fence writes; this only keeps two functions from
/// doing the same work.
pub(crate) struct LeaseGuard {
    lease: Lease,
    /// Held by the one renewal that is on its way, so that a shorter one never lands after a
    /// longer.
    renewing: Mutex<()>,
}

impl LeaseGuard {
    /// Makes sure that the ledger is this cluster's and has not forgotten everything, and takes the
    /// lease of `function`; `None` when somebody else holds it until `patience_ends`.
    pub(crate) async fn take(
        ports: Ports<'_>,
        function: &str,
        owner: &str,
        patience_ends: Instant,
    ) -> Result<Option<Self>, TickError> {
        is_new_ledger(ports).await?;
        ports.ledger.bind(&ports.cluster.uid().await?).await?;
        loop {
            if let Some(lease) = ports.ledger.acquire(function, owner, ports.now(), TTL).await? {
                return Ok(Some(Self { lease, renewing: Mutex::default() }));
            }
            if Instant::now() + ASK_AGAIN >= patience_ends {
                return Ok(None);
            }
            sleep(ASK_AGAIN).await;
        }
    }

    /// The lease.
    pub(crate) const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Does work and keeps the lease beside it. Work whose lease has gone is broken off, as if its
    /// function died.
    pub(crate) async fn beside<T>(
        &self,
        ports: Ports<'_>,
        work: impl Future<Output = Result<T, TickError>>,
    ) -> Result<T, TickError> {
        tokio::select! {
            biased;
            done = work => done,
            lost = self.renew_until_lost(ports) => Err(lost.into()),
        }
    }

    async fn renew_until_lost(&self, ports: Ports<'_>) -> LedgerError {
        loop {
            sleep(RENEW_EVERY).await;
            match self.renew(ports, TTL).await {
                Ok(()) => {}
                Err(lost @ LedgerError::LeaseLost { .. }) => return lost,
                Err(error) => {
                    let function = &self.lease.function;
                    tracing::warn!(error = chain(&error), function, "the lease was not renewed this time");
                }
            }
        }
    }

    /// Decides while the lease is kept until `deadline`, since a decision leaves no time to renew
    /// it. Afterwards it is kept no longer than usual, so that a function which dies then holds
    /// nobody up.
    pub(crate) async fn keep_for<T>(
        &self,
        ports: Ports<'_>,
        deadline: Instant,
        decision: impl Future<Output = T>,
    ) -> Result<T, LedgerError> {
        self.renew(ports, deadline.saturating_duration_since(Instant::now()).max(TTL)).await?;
        let decided = decision.await;
        self.renew(ports, TTL).await?;
        Ok(decided)
    }

    async fn renew(&self, ports: Ports<'_>, ttl: Duration) -> Result<(), LedgerError> {
        let _one_at_a_time = self.renewing.lock().await;
        ports.ledger.renew(&self.lease, ports.now(), ttl).await
    }

    /// Gives the lease back. A failure costs the next tick at most the lease's length.
    pub(crate) async fn give_back(self, ports: Ports<'_>) {
        if let Err(error) = ports.ledger.release(&self.lease).await {
            let function = self.lease.function;
            tracing::warn!(error = chain(&error), function, "the lease could not be given back");
        }
    }
}
