//! Patience with EC2: when it refuses one launch for its rate, all launches of the tick wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_secs(1);
/// After so long launches are left to a later tick: the lease must outlast the wait.
const LONGEST_WAIT: Duration = Duration::from_secs(7);

/// The pace of one tick's launches.
#[derive(Debug)]
pub(crate) struct Pace {
    deadline: Instant,
    slowed: Mutex<Slowed>,
}

#[derive(Debug, Default)]
struct Slowed {
    times: u32,
    until: Option<Instant>,
    gives_up_at: Option<Instant>,
}

impl Pace {
    /// Nothing is sent after `deadline`.
    pub(crate) const fn new(deadline: Instant) -> Self {
        Self { deadline, slowed: Mutex::new(Slowed { times: 0, until: None, gives_up_at: None }) }
    }

    /// EC2 has refused a launch for its rate. Launches that were refused at the same time make one
    /// wait.
    pub(crate) fn slow_down(&self) {
        let now = Instant::now();
        let mut slowed = self.lock();
        if slowed.until.is_none_or(|until| until <= now) {
            slowed.until = Some(now + FIRST * 2_u32.saturating_pow(slowed.times));
            slowed.times += 1;
            slowed.gives_up_at.get_or_insert(now + LONGEST_WAIT);
        }
    }

    /// Waits until the next launch may be sent; `false` when that is not in this tick.
    pub(crate) async fn wait(&self) -> bool {
        loop {
            let (until, gives_up_at) = {
                let slowed = self.lock();
                (slowed.until, slowed.gives_up_at)
            };
            let now = Instant::now();
            let last = gives_up_at.map_or(self.deadline, |at| at.min(self.deadline));
            match until.filter(|until| *until > now) {
                _ if now >= self.deadline => return false,
                Some(until) if until >= last => return false,
                Some(until) => sleep_until(until).await,
                None => return true,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slowed> {
        self.slowed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_until_patience_ends() {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let start = Instant::now();
            let pace = Pace::new(start + Duration::from_mins(1));
            assert!(pace.wait().await);
            let mut waited = Vec::new();
            loop {
                pace.slow_down();
                pace.slow_down();
                if !pace.wait().await {
                    break;
                }
                waited.push(start.elapsed().as_secs());
            }
            assert_eq!(waited, [1, 3]);
            let late = Pace::new(Instant::now());
            assert!(!late.wait().await, "after the deadline nothing is sent");
        });
    }
}
