//! How long a function may still work.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Nothing that changes the world is begun in the last seconds, so that no call is cut off half way.
const RESERVE: Duration = Duration::from_secs(5);

/// The point after which nothing that changes the world is begun.
///
/// Lambda gives the deadline as milliseconds since 1970. cargo lambda's emulator gives the remaining milliseconds
/// instead (600000), which read as a date lies in 1970; no real deadline does.
pub(crate) fn from_context(deadline_ms: u64) -> Instant {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::now() + remaining(Duration::from_millis(deadline_ms), since_epoch).saturating_sub(RESERVE)
}

fn remaining(deadline: Duration, since_epoch: Duration) -> Duration {
    const A_DAY: Duration = Duration::from_hours(24);
    if deadline < A_DAY { deadline } else { deadline.saturating_sub(since_epoch) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_and_a_remaining_time_are_told_apart() {
        let now = Duration::from_secs(1_800_000_000);
        assert_eq!(remaining(now + Duration::from_secs(60), now), Duration::from_secs(60));
        assert_eq!(remaining(now.saturating_sub(Duration::from_secs(1)), now), Duration::ZERO);
        assert_eq!(remaining(Duration::from_millis(600_000), now), Duration::from_secs(600));
    }
}
