//! EC2's token buckets: what is asked too fast is refused. The numbers are those of Karpenter's
//! stand-in for EC2.

use std::collections::BTreeMap;
use std::time::Duration;

use outrigger_engine::Rate;

use super::Ec2;
use crate::time::Moment;

/// A token in the unit of a bucket's level: at one token a second, what comes in a nanosecond.
const TOKEN: u128 = 1_000_000_000;

/// A bucket for each kind of request, full at first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    levels: BTreeMap<Rate, (u128, Duration)>,
}

impl Buckets {
    /// Takes a token; `false` when there is none.
    pub(crate) fn take(&mut self, rate: Rate, now: Duration) -> bool {
        let (per_second, burst): (u128, u128) = match rate {
            Rate::Describe => (20, 100),
            Rate::Launch => (2, 5),
            Rate::Terminate => (5, 100),
            Rate::Mutate => (5, 50),
        };
        let full = burst * TOKEN;
        let (level, since) = self.levels.entry(rate).or_insert((full, now));
        let come = now.saturating_sub(*since).as_nanos() * per_second;
        (*level, *since) = ((*level + come).min(full), now);
        let is_there = *level >= TOKEN;
        *level -= if is_there { TOKEN } else { 0 };
        is_there
    }
}

impl Ec2 {
    /// Whether a request is not one too many; all processes and all others in the account take of
    /// the same buckets.
    pub(crate) fn admits(&mut self, rate: Rate, moment: Moment) -> bool {
        self.buckets.take(rate, moment.elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_a_burst_and_then_what_comes() {
        let mut buckets = Buckets::default();
        let mut at = |millis| buckets.take(Rate::Launch, Duration::from_millis(millis));
        let taken: Vec<_> = [0, 0, 0, 0, 0, 0, 499, 500, 500, 1_000, 60_000].map(&mut at).to_vec();
        assert_eq!(
            taken,
            [true, true, true, true, true, false, false, true, false, true, true],
            "five at once, then two a second"
        );
        let rest = [60_000; 5].map(&mut at);
        assert_eq!(rest, [true, true, true, true, false], "a bucket holds no more than a burst");
    }
}
