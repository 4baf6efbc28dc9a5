//! How long a function may take, and what it does: limits that fit into one another, so that a
//! server that hangs is told of by the function, and not by Lambda that ends it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use outrigger_aws::Aws;
use outrigger_kubernetes::KubernetesCluster;
use tokio::time::Instant;

/// What is not done this long before Lambda ends the process is given up, and the function says so.
const FOR_THE_ANSWER: Duration = Duration::from_secs(1);

/// How long the calls of a function may take. One that is begun at the last moment has ended when
/// the answer is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// An operation of AWS, all of its attempts.
    pub(crate) aws: Duration,
    /// A call of the API server, all of its repetitions.
    pub(crate) cluster: Duration,
    /// Nothing that changes the world is begun in the last seconds before Lambda ends the process.
    pub(crate) reserve: Duration,
}

impl Limits {
    /// Of functions that have a minute or more.
    pub(crate) const TICK: Self = Self {
        aws: Aws::CALL_LIMIT,
        cluster: KubernetesCluster::CALL_LIMIT,
        reserve: Duration::from_secs(21),
    };
    /// Of `interrupt`, which has ten seconds: a node is closed in the first five or so, or its
    /// message comes again.
    pub(crate) const INTERRUPT: Self = Self {
        aws: Duration::from_secs(2),
        cluster: Duration::from_secs(2),
        reserve: Duration::from_secs(5),
    };
}

/// When one invocation must be done with what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// Nothing that changes the world is begun from here on.
    pub(crate) last_change: Instant,
    /// What is not done by then is given up.
    pub(crate) answer: Instant,
}

impl Deadlines {
    /// What Lambda's own deadline comes to.
    ///
    /// Lambda gives it as milliseconds since 1970. cargo lambda's emulator gives the remaining
    /// milliseconds instead (600000), which read as a date lies in 1970; no real deadline does.
    pub(crate) fn new(limits: &Limits, deadline_ms: u64) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let remaining = remaining(Duration::from_millis(deadline_ms), since_epoch);
        let now = Instant::now();
        Self {
            last_change: now + remaining.saturating_sub(limits.reserve),
            answer: now + remaining.saturating_sub(FOR_THE_ANSWER),
        }
    }
}

fn remaining(deadline: Duration, since_epoch: Duration) -> Duration {
    const A_DAY: Duration = Duration::from_hours(24);
    if deadline < A_DAY { deadline } else { deadline.saturating_sub(since_epoch) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interrupt::{FOR_THE_BATCH, REDELIVERY_TIMEOUT};

    #[test]
    fn a_date_and_a_remaining_time_are_told_apart() {
        let now = Duration::from_secs(1_800_000_000);
        assert_eq!(remaining(now + Duration::from_secs(60), now), Duration::from_secs(60));
        assert_eq!(remaining(now.saturating_sub(Duration::from_secs(1)), now), Duration::ZERO);
        assert_eq!(remaining(Duration::from_millis(600_000), now), Duration::from_secs(600));
    }

    /// The timeout of a function in `template.yaml`.
    fn timeout_in_template(function: &str) -> Duration {
        let template = include_str!("../../../template.yaml");
        let (_, from_there) = template.split_once(&format!("\n  {function}:\n")).unwrap();
        let (_, timeout) = from_there.split_once("\n      Timeout: ").unwrap();
        Duration::from_secs(timeout.lines().next().unwrap().parse().unwrap())
    }

    #[test]
    fn limits_fit_into_one_another_and_into_lambdas() {
        for (function, limits) in [
            ("ProvisionFunction", Limits::TICK),
            ("LifecycleFunction", Limits::TICK),
            ("DisruptFunction", Limits::TICK),
            ("RefreshFunction", Limits::TICK),
            ("InterruptFunction", Limits::INTERRUPT),
        ] {
            let last_change = timeout_in_template(function).checked_sub(limits.reserve).unwrap();
            let one_call = limits.aws.max(limits.cluster);
            assert!(one_call + FOR_THE_ANSWER <= limits.reserve, "{function}: {limits:?}");
            // The ledger and the API server may hang one after the other before anything is
            // changed.
            assert!(limits.aws + limits.cluster <= last_change, "{function}: {limits:?}");
        }
        assert!(FOR_THE_BATCH + REDELIVERY_TIMEOUT + FOR_THE_ANSWER <= Limits::INTERRUPT.reserve);
    }
}
