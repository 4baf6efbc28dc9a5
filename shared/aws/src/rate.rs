//! Our side of EC2's token buckets: no process asks faster than a bucket that is its own would let it.
//!
//! EC2 counts all requests of an account and region together (EC2 API reference, "request throttling"); the numbers are those
//! with which Karpenter's stand-in for EC2 answers. What EC2 refuses all the same is waited out by whoever asked.

use std::num::NonZeroU32;
use std::sync::Arc;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};

/// A kind of request, each with a bucket of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
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
        const fn of(number: u32) -> NonZeroU32 {
            match NonZeroU32::new(number) {
                Some(number) => number,
                None => NonZeroU32::MIN,
            }
        }
        match self {
            Self::Describe => (of(20), of(100)),
            Self::Launch => (of(2), of(5)),
            Self::Terminate => (of(5), of(100)),
            Self::Mutate => (of(5), of(50)),
        }
    }
}

/// The buckets of one process.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    describe: Arc<DefaultDirectRateLimiter>,
    launch: Arc<DefaultDirectRateLimiter>,
    terminate: Arc<DefaultDirectRateLimiter>,
    mutate: Arc<DefaultDirectRateLimiter>,
}

impl Rates {
    pub(crate) fn new() -> Self {
        let full = |rate: Rate| {
            let (per_second, burst) = rate.bucket();
            Arc::new(RateLimiter::direct(Quota::per_second(per_second).allow_burst(burst)))
        };
        Self {
            describe: full(Rate::Describe),
            launch: full(Rate::Launch),
            terminate: full(Rate::Terminate),
            mutate: full(Rate::Mutate),
        }
    }

    /// Waits until one more request of this kind may be sent.
    pub(crate) async fn ready(&self, rate: Rate) {
        let bucket = match rate {
            Rate::Describe => &self.describe,
            Rate::Launch => &self.launch,
            Rate::Terminate => &self.terminate,
            Rate::Mutate => &self.mutate,
        };
        bucket.until_ready().await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_burst_goes_at_once_and_the_rest_at_its_pace() {
        let rates = Rates::new();
        let start = Instant::now();
        for _ in 0..5 {
            rates.ready(Rate::Launch).await;
        }
        assert!(start.elapsed().as_millis() < 400, "a burst of five: {:?}", start.elapsed());
        rates.ready(Rate::Launch).await;
        assert!(start.elapsed().as_millis() >= 400, "two a second from then on: {:?}", start.elapsed());
        for _ in 0..50 {
            rates.ready(Rate::Describe).await;
        }
        assert!(start.elapsed().as_secs() < 5, "each kind has a bucket of its own");
    }
}
