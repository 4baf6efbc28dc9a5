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
    /// How often its schedule fires. The first event comes at once.
    pub every: Duration,
    /// The `detail-type`s of our own events that wake it.
    pub doorbells: &'static [&'static str],
}

/// Every function of the stack.
pub const FUNCTIONS: [Function; 3] = [
    Function {
        name: "provision",
        logical_id: "ProvisionFunction",
        every: Duration::from_mins(1),
        doorbells: &[],
    },
    Function {
        name: "lifecycle",
        logical_id: "LifecycleFunction",
        every: Duration::from_mins(1),
        doorbells: &["NodeClaims Launched"],
    },
    Function {
        name: "refresh",
        logical_id: "RefreshFunction",
        every: Duration::from_hours(12),
        doorbells: &[],
    },
];

/// The queue that carries a function's doorbells.
pub fn doorbell_queue(function: &str) -> String {
    format!("doorbell-{function}")
}
