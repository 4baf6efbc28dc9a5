//! What a cluster counts on the way, for whoever tallies a run.

use std::time::Duration;

/// What a cluster counts on the way.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The nodes that pods had to leave, once for each pod, until somebody has asked why.
    pub departures: Vec<String>,
    /// How long pods that have a node, or had one, waited for it.
    pub waits: Vec<Duration>,
    /// How long pods that are gone were on their nodes.
    pub pod_time: Duration,
}
