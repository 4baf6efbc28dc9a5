//! The functions and what rings them; the same as template.yaml says, for a place that has no template.

use std::time::Duration;

/// Source of the project's own events.
pub const EVENT_SOURCE: &str = "outrigger";

/// A function as the stack runs it.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// Its name, and its binary's.
    pub name: &'static str,
    /// Its logical id in template.yaml, and its folder in what SAM builds.
    pub logical_id: &'static str,
    /// How often its schedule fires, if it has one. The first event comes at once.
    pub every: Option<Duration>,
    /// The `detail-type`s of our own events that wake it.
    pub doorbells: &'static [&'static str],
    /// The queue whose messages it is given.
    pub queue: Option<&'static str>,
}

/// What EC2 tells of its instances.
pub const INTERRUPTIONS: &str = "interruptions";
/// What of it nobody could read or handle.
pub const DEAD_INTERRUPTIONS: &str = "dead-interruptions";
/// How long a message stays unseen once it was received, in seconds, and how often it is received.
pub(crate) const VISIBILITY_SECONDS: u32 = 60;
pub(crate) const MOST_DELIVERIES: u32 = 7;
/// How many messages the function is given at once, and how long they are gathered.
pub(crate) const BATCH: usize = 100;
pub(crate) const WINDOW: Duration = Duration::from_secs(1);

/// Every function of the stack.
pub const FUNCTIONS: [Function; 5] = [
    Function {
        name: "provision",
        logical_id: "ProvisionFunction",
        every: Some(Duration::from_mins(1)),
        doorbells: &["NodeClaims Interrupted", "Command Committed"],
        queue: None,
    },
    Function {
        name: "lifecycle",
        logical_id: "LifecycleFunction",
        every: Some(Duration::from_mins(1)),
        doorbells: &["NodeClaims Launched", "NodeClaims Interrupted", "Command Committed"],
        queue: None,
    },
    Function {
        name: "disrupt",
        logical_id: "DisruptFunction",
        every: Some(Duration::from_mins(1)),
        doorbells: &[],
        queue: None,
    },
    Function {
        name: "refresh",
        logical_id: "RefreshFunction",
        every: Some(Duration::from_hours(12)),
        doorbells: &[],
        queue: None,
    },
    Function {
        name: "interrupt",
        logical_id: "InterruptFunction",
        every: None,
        doorbells: &[],
        queue: Some(INTERRUPTIONS),
    },
];

/// The queue that carries a function's doorbells.
pub fn doorbell_queue(function: &str) -> String {
    format!("doorbell-{function}")
}
