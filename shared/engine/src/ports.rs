//! The three ports in the model's words, and the clock. Adapters and the simulator implement them.

pub mod cloud;
pub mod cluster;
pub mod ledger;

use jiff::Timestamp;

pub use cloud::{
    ClassSource, Cloud, CloudError, FleetAnswer, FleetError, InstanceProblem, InstanceState, InstanceStatus,
    Machine, ManagedPools, Notice, TemplateRef, WrittenTemplate,
};
pub use cluster::{
    Attachment, Binding, Cluster, ClusterChange, ClusterError, ClusterState, Configuration, Cursor, Event,
    Eviction, Mirror, NodeChange, PodOnNode, Scope, Subject, Volumes,
};
pub use ledger::{ClaimOutcome, Lease, Ledger, LedgerError, LedgerState, PreparedLaunch, Sweep};

/// Where "now" comes from. Waiting goes through tokio's timers, which the simulator runs in virtual time.
pub trait Clock: Send + Sync {
    /// The present time.
    fn now(&self) -> Timestamp;
}

/// The wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct WallClock;

impl Clock for WallClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// What a tick works with.
#[derive(Clone, Copy)]
pub struct Ports<'a> {
    /// The Kubernetes cluster.
    pub cluster: &'a dyn Cluster,
    /// EC2 and what belongs to it.
    pub cloud: &'a dyn Cloud,
    /// The ledger.
    pub ledger: &'a dyn Ledger,
    /// Our own clock.
    pub clock: &'a dyn Clock,
}

impl Ports<'_> {
    /// The present time on the one clock that all functions share, which is the API server's; on our own until it has
    /// answered. What one function writes down another compares, and objects bear the API server's times.
    pub fn now(&self) -> Timestamp {
        self.cluster.time().unwrap_or_else(|| self.clock.now())
    }
}
