//! A cluster's state kept current: one list, then a watch.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use tokio::time::timeout;

use crate::ports::{ClusterChange, ClusterError, ClusterState, Ports};

/// The state of a cluster and the stream that keeps it current.
pub(crate) struct Watched {
    pub(crate) state: ClusterState,
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
    pub(crate) async fn open(ports: Ports<'_>) -> Result<Self, ClusterError> {
        let (state, cursor) = ports.cluster.list().await?;
        let changes = ports.cluster.watch(cursor).await?;
        Ok(Self { state, changes })
    }

    /// Takes in the next change and all that have arrived behind it; waits for it up to `longest`. A watch that cannot
    /// go on is opened anew, which counts as a change.
    pub(crate) async fn wait(&mut self, ports: Ports<'_>, longest: Duration) -> Result<Waited, ClusterError> {
        let Ok(first) = timeout(longest, self.changes.next()).await else { return Ok(Waited::Quiet) };
        let mut next = first;
        loop {
            match next {
                Some(Ok(change)) => self.state.apply(change),
                Some(Err(error)) => {
                    tracing::info!(%error, "the watch broke off; listing again");
                    *self = Self::open(ports).await?;
                    return Ok(Waited::Changed);
                }
                None => {
                    *self = Self::open(ports).await?;
                    return Ok(Waited::Changed);
                }
            }
            match timeout(Duration::ZERO, self.changes.next()).await {
                Ok(further) => next = further,
                Err(_) => return Ok(Waited::Changed),
            }
        }
    }
}
