//! Our side of EC2's token buckets: no process asks faster than a bucket that is its own would let
//! it.
//!
//! EC2 counts all requests of an account and region together (EC2 API reference, "request
//! throttling"); the numbers are those with which Karpenter's stand-in for EC2 answers. What EC2
//! refuses all the same is waited out by whoever asked.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::time::{Instant, sleep};

/// A kind of request, each with a bucket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rate {
    /// Anything that only reads.
    Describe,
    /// `CreateFleet`, which counts as `RunInstances` does.
    Launch,
    /// `TerminateInstances`.
    Terminate,
    /// Anything else that changes something.
    Mutate,
}

impl Rate {
    /// Requests a second, and how many may come at once.
    const fn bucket(self) -> (NonZeroU32, NonZeroU32) {
        const fn nonzero(number: u32) -> NonZeroU32 {
            match NonZeroU32::new(number) {
                Some(number) => number,
                None => NonZeroU32::MIN,
            }
        }
        match self {
            Self::Describe => (nonzero(20), nonzero(100)),
            Self::Launch => (nonzero(2), nonzero(5)),
            Self::Terminate => (nonzero(5), nonzero(100)),
            Self::Mutate => (nonzero(5), nonzero(50)),
        }
    }
}

/// Time since the buckets were made, by the runtime's clock: where that clock is paused, as in the
/// simulation, so are they.
#[derive(Clone, Copy, Debug)]
struct RuntimeClock {
    began: Instant,
}

impl Clock for RuntimeClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

type Bucket = RateLimiter<NotKeyed, InMemoryState, RuntimeClock, NoOpMiddleware<Duration>>;

/// The buckets of one process.
#[derive(Clone, Debug)]
pub struct Rates {
    clock: RuntimeClock,
    describe: Arc<Bucket>,
    launch: Arc<Bucket>,
    terminate: Arc<Bucket>,
    mutate: Arc<Bucket>,
}

impl Rates {
    /// Full buckets.
    pub fn new() -> Self {
        let clock = RuntimeClock { began: Instant::now() };
        let full = |rate: Rate| {
            let (per_second, burst) = rate.bucket();
            let quota = Quota::per_second(per_second).allow_burst(burst);
            Arc::new(RateLimiter::direct_with_clock(quota, clock))
        };
        Self {
            clock,
            describe: full(Rate::Describe),
            launch: full(Rate::Launch),
            terminate: full(Rate::Terminate),
            mutate: full(Rate::Mutate),
        }
    }

    /// Waits until one more request of this kind may be sent.
    pub async fn ready(&self, rate: Rate) {
        let bucket = match rate {
            Rate::Describe => &self.describe,
            Rate::Launch => &self.launch,
            Rate::Terminate => &self.terminate,
            Rate::Mutate => &self.mutate,
        };
        while let Err(early) = bucket.check() {
            sleep(early.wait_time_from(self.clock.now())).await;
        }
    }
}

impl Default for Rates {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_the_rest_at_its_pace() {
        let rates = Rates::new();
        let start = Instant::now();
        for _ in 0..5 {
            rates.ready(Rate::Launch).await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO, "a burst of five");
        for _ in 0..3 {
            rates.ready(Rate::Launch).await;
        }
        assert_eq!(start.elapsed().as_millis() / 10, 150, "two a second from then on");
        for _ in 0..100 {
            rates.ready(Rate::Describe).await;
        }
        assert_eq!(start.elapsed().as_millis() / 10, 150, "each kind has a bucket of its own");
    }
}
