//! Why a tick ended early.

use crate::ports::{CloudError, ClusterError, LedgerError};

/// Why a tick ended early. What it had written down is safe; the next tick goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum TickError {
    /// The cluster.
    #[error("the tick stopped at the cluster")]
    Cluster(#[from] ClusterError),
    /// The cloud.
    #[error("the tick stopped at the cloud")]
    Cloud(#[from] CloudError),
    /// The ledger.
    #[error("the tick stopped at the ledger")]
    Ledger(#[from] LedgerError),
}
