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
    /// The ledger is empty, and yet there is something of ours.
    #[error(
        "the ledger is empty, but {instances} instances and {nodes} nodes are Outrigger's: nothing is launched or terminated. \
         Name the right table, or set Adopt to true when its items were lost (OUTRIGGER_ADOPT of lifecycle)"
    )]
    LostLedger {
        /// Instances with our tags.
        instances: usize,
        /// Nodes that were registered by us.
        nodes: usize,
    },
}
