//! What goes wrong in a test's world, and when.

use std::time::Duration;

use outrigger_model::CapacityType;
use outrigger_simulation::{Call, Event, EventKind};

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn minutes(minutes: u64) -> Duration {
    Duration::from_mins(minutes)
}

/// Something that goes wrong at a time.
pub(crate) const fn at(at: Duration, kind: EventKind) -> Event {
    Event { at, kind }
}

/// A call is refused for its rate.
pub(crate) const fn throttle(call: Call, length: Duration) -> EventKind {
    EventKind::Throttle { call: Some(call), length }
}

/// EC2 has nothing left of a capacity type, or of any.
pub(crate) const fn drought(capacity_type: Option<CapacityType>, length: Duration) -> EventKind {
    EventKind::InsufficientCapacity { instance_types: Vec::new(), zones: Vec::new(), capacity_type, length }
}
