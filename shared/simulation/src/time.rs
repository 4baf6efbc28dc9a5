//! Virtual time: tokio's paused clock, told as timestamps.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use outrigger_engine::Clock;
use tokio::time::Instant;

/// When every simulated world begins: 2026-01-01T00:00:00Z.
const BEGINNING_SECONDS: i64 = 1_767_225_600;

/// How wrong the clock of a function may be.
pub(crate) const WORST_SKEW: Duration = Duration::from_mins(5);
/// How wrong the clock of the API server that a run talks to may be then: so many times less. Functions tell time by
/// it, and take a pod for stuck a minute after it should have ended, so that a minute would cost pods their grace.
const SERVERS_AGREE: i32 = 7;
/// How far two API servers may be from the right time.
pub(crate) const WORST_SERVER_SKEW: Duration = Duration::from_secs(43);

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

/// The clock of one run, which may be wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunClock {
    clock: VirtualClock,
    skew: SignedDuration,
}

impl RunClock {
    /// A clock that is ahead of the world's by `skew`.
    pub(crate) const fn new(clock: VirtualClock, skew: SignedDuration) -> Self {
        Self { clock, skew }
    }

    /// What the clock of the API server shows that the run talks to.
    pub(crate) fn server_time(&self) -> Timestamp {
        self.clock.now().saturating_add(self.skew / SERVERS_AGREE).unwrap_or(Timestamp::MAX)
    }
}

impl Clock for RunClock {
    fn now(&self) -> Timestamp {
        self.clock.now().saturating_add(self.skew).unwrap_or(Timestamp::MAX)
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
