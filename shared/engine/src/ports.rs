//! The three ports in the model's words, and the clock. Adapters and the simulator implement them.

pub mod cloud;
pub mod cluster;
pub mod event;
pub mod ledger;

use jiff::{SignedDuration, Timestamp};

pub use cloud::{
    ClassSource, Cloud, CloudError, FleetAnswer, FleetError, InstanceProblem, InstanceState, InstanceStatus,
    Machine, ManagedPools, Notice, TemplateRef, WrittenTemplate,
};
pub use cluster::{
    Attachment, Binding, Cluster, ClusterChange, ClusterError, ClusterState, Configuration, Cursor, Eviction,
    Glance, GoingDefinitions, Mirror, NodeChange, PodOnNode, Scope, Volumes,
};
pub use event::{Event, EventReason, Subject};
pub use ledger::{
    Claims, Commands, DisruptMemory, Interruption, Interruptions, LaunchMemory, Launches, Lease, Leases,
    Ledger, LedgerError, LedgerState, LifecycleMemory, OperatorPause, PreparedLaunch, Reports, Sweep,
};

use crate::chain::chain;

/// Where "now" comes from. Waiting goes through tokio's timers, which the simulator runs in virtual
/// time.
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

/// How far the API server's clock may be from ours. Beyond that the times which objects bear tell
/// no age.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(1);

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
    /// The present time, on our own clock. AWS keeps the clocks of all functions right, and what
    /// one writes down another compares; the API server's clock is whoever's who runs it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Tells people. Losing an event costs nothing but the news.
    pub async fn publish(&self, event: &Event) {
        if let Err(error) = self.cluster.publish_event(event).await {
            tracing::warn!(about = %event.about, error = chain(&error), "the event was not published");
        }
    }

    /// By how much the API server's clock is ahead of ours, where that is more than a minute either
    /// way. Nothing may be ended for its age then.
    pub fn clock_difference(&self) -> Option<SignedDuration> {
        self.cluster.clock_difference().filter(|difference| difference.abs() > CLOCK_TOLERANCE)
    }
}
