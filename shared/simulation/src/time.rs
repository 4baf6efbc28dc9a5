//! Virtual time: tokio's paused clock, told as timestamps.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_engine::Clock;
use tokio::time::Instant;

/// When every simulated world begins: 2026-01-01T00:00:00Z.
const BEGINNING_SECONDS: i64 = 1_767_225_600;

/// Tokio's clock as a wall clock that began at a fixed time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VirtualClock {
    began: Instant,
    start: Timestamp,
}

impl VirtualClock {
    /// A clock that begins now.
    pub(crate) fn start() -> Self {
        let start = Timestamp::from_second(BEGINNING_SECONDS).unwrap_or(Timestamp::UNIX_EPOCH);
        Self { began: Instant::now(), start }
    }

    /// How long the world has run.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The moment at which the world will have run for so long.
    pub(crate) fn instant(&self, elapsed: Duration) -> Instant {
        self.began + elapsed
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        after(self.start, self.elapsed())
    }
}

/// A time after another, bounded by the last that can be told.
pub(crate) fn after(time: Timestamp, duration: Duration) -> Timestamp {
    time.saturating_add(duration).unwrap_or(Timestamp::MAX)
}

/// From one time to a later one.
pub(crate) fn between(from: Timestamp, until: Timestamp) -> Duration {
    Duration::try_from(until.duration_since(from)).unwrap_or_default()
}

/// A moment of a world, in both of its tellings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// How long the world had run.
    pub elapsed: Duration,
    /// What its clocks said.
    pub at: Timestamp,
}

impl VirtualClock {
    /// The present moment.
    pub(crate) fn moment(&self) -> Moment {
        Moment { elapsed: self.elapsed(), at: self.now() }
    }
}
