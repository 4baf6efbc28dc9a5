//! What the pods of NodePools ask for, over time.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The processors that the pods on nodes of a NodePool asked for at a moment, pods of daemonsets aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DemandSample {
    /// When.
    pub at: Timestamp,
    /// Thousandths of a processor.
    pub cpu_millis: u64,
}

impl DemandSample {
    /// How far apart samples are.
    pub const EVERY: Duration = Duration::from_mins(5);
    /// For how long they are kept.
    pub const KEPT: Duration = Duration::from_mins(65);
}
