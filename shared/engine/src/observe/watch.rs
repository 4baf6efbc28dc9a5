//! A part of the cluster's state kept current: one list, then a watch.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::time::{Instant, timeout};

use crate::ports::{ClusterChange, ClusterError, ClusterState, Ports, Scope};

/// What arrives so soon behind a change is taken in with it: a connection hands over piece by piece
/// what it has received.
const NEXT_WITHIN: Duration = Duration::from_millis(2);
/// Changes that come without end hold nobody up for longer.
const LONGEST_FLOOD: Duration = Duration::from_millis(200);

/// The state of a cluster, as far as its scope holds it, and the stream that keeps it current.
pub(crate) struct Watched {
    pub(crate) state: ClusterState,
    scope: Scope,
    changes: BoxStream<'static, Result<ClusterChange, ClusterError>>,
}

/// What waiting for changes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waited {
    /// Something changed.
    Changed,
    /// Nothing changed in the given time.
    Quiet,
}

impl Watched {
    /// Lists, then watches from there.
    pub(crate) async fn open(ports: Ports<'_>, scope: Scope) -> Result<Self, ClusterError> {
        let (state, cursor) = ports.cluster.list(scope).await?;
        let changes = ports.cluster.watch(cursor).await?;
        Ok(Self { state, scope, changes })
    }

    /// Whether it is the whole cluster's state.
    pub(crate) fn sees_everything(&self) -> bool {
        self.scope == Scope::Everything
    }

    /// Brings the whole cluster's state up to date. It is read once; from then on all of it is
    /// watched, which costs less than to read it again.
    pub(crate) async fn see_everything(&mut self, ports: Ports<'_>) -> Result<(), ClusterError> {
        if self.sees_everything() {
            self.wait(ports, Duration::ZERO).await?;
        } else {
            *self = Self::open(ports, Scope::Everything).await?;
        }
        Ok(())
    }

    /// Takes in the next change and all that have arrived behind it; waits for it up to `longest`.
    /// A watch that cannot go on is opened anew, which counts as a change.
    pub(crate) async fn wait(&mut self, ports: Ports<'_>, longest: Duration) -> Result<Waited, ClusterError> {
        let Ok(first) = timeout(longest.max(NEXT_WITHIN), self.changes.next()).await else {
            return Ok(Waited::Quiet);
        };
        let began = Instant::now();
        let mut next = first;
        loop {
            match next {
                Some(Ok(change)) => self.state.apply(change),
                Some(Err(error)) => {
                    tracing::info!(%error, "the watch broke off; listing again");
                    *self = Self::open(ports, self.scope).await?;
                    return Ok(Waited::Changed);
                }
                None => {
                    *self = Self::open(ports, self.scope).await?;
                    return Ok(Waited::Changed);
                }
            }
            if began.elapsed() >= LONGEST_FLOOD {
                return Ok(Waited::Changed);
            }
            match timeout(NEXT_WITHIN, self.changes.next()).await {
                Ok(further) => next = further,
                Err(_) => return Ok(Waited::Changed),
            }
        }
    }
}
