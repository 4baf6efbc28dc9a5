//! Holding a lease for as long as a tick works.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use crate::TickError;
use crate::ports::{Lease, LedgerError, Ports};
use crate::sweep::adoption::check_new_ledger;

/// How long a lease lasts without being renewed; a dead function's work waits no longer than this.
const TTL: Duration = Duration::from_secs(20);
/// A lease this close to its end is renewed before anything else is done.
const RENEW_WITHIN: Duration = Duration::from_secs(12);
/// How often a tick that waits for another one asks whether that has ended.
const ASK_AGAIN: Duration = Duration::from_secs(2);
/// The longest that a tick may wait without coming back to [`LeaseGuard::keep`].
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A held lease. The ledger's epoch conditions fence writes; this only keeps two functions from doing the same work.
pub(crate) struct LeaseGuard {
    lease: Lease,
    expires_at: Timestamp,
}

impl LeaseGuard {
    /// Makes sure that the ledger is this cluster's and has not forgotten everything, and takes the lease of
    /// `function`; `None` when somebody else holds it until `patience_ends`.
    pub(crate) async fn take(
        ports: Ports<'_>,
        function: &str,
        owner: &str,
        patience_ends: Instant,
    ) -> Result<Option<Self>, TickError> {
        check_new_ledger(ports).await?;
        ports.ledger.bind(&ports.cluster.uid().await?).await?;
        loop {
            let now = ports.now();
            if let Some(lease) = ports.ledger.acquire(function, owner, now, TTL).await? {
                return Ok(Some(Self { lease, expires_at: after(now, TTL) }));
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

    /// Renews the lease when its end is near.
    pub(crate) async fn keep(&mut self, ports: Ports<'_>) -> Result<(), LedgerError> {
        let now = ports.now();
        if after(now, RENEW_WITHIN) >= self.expires_at {
            ports.ledger.renew(&self.lease, now, TTL).await?;
            self.expires_at = after(now, TTL);
        }
        Ok(())
    }

    /// Gives the lease back. A failure costs the next tick at most the lease's length.
    pub(crate) async fn give_back(self, ports: Ports<'_>) {
        if let Err(error) = ports.ledger.release(&self.lease).await {
            tracing::warn!(%error, function = self.lease.function, "the lease could not be given back");
        }
    }
}

fn after(now: Timestamp, duration: Duration) -> Timestamp {
    now.saturating_add(duration).unwrap_or(Timestamp::MAX)
}
