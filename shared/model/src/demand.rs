//! What the pods of NodePools ask for, over time.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The processors that the pods on nodes of a NodePool asked for at a moment, pods of daemonsets
/// aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DemandSample {
    /// When.
    pub at: Timestamp,
    /// Thousandths of a processor.
    pub cpu_millis: u64,
}

impl DemandSample {
    /// How far apart samples are.
    pub const EVERY: Duration = Duration::from_mins(5);
    /// For how long they are kept.
    pub const KEPT: Duration = Duration::from_mins(65);
}

/// What the pods of each NodePool asked for in the week that has passed, by the pool's name.
pub type DemandHistory = BTreeMap<String, WeekOfDemand>;

/// What the pods of a NodePool asked for in each quarter-hour of a week: thousandths of a
/// processor, on the mean. A week begins on Thursday at midnight (UTC), as Unix time does. A
/// quarter-hour in which nobody looked has 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WeekOfDemand(Vec<u64>);

/// A quarter-hour, counted from the beginning of Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quarter(i64);

impl Quarter {
    /// So many a day has.
    pub const A_DAY: i64 = 96;
    /// So many a week has.
    pub const A_WEEK: i64 = 7 * Self::A_DAY;
    const SECONDS: i64 = 15 * 60;

    /// The one in which a moment lies.
    pub fn at(moment: Timestamp) -> Self {
        Self(moment.as_second().div_euclid(Self::SECONDS))
    }

    /// The one that is so many later.
    #[must_use]
    pub const fn later(self, quarters: i64) -> Self {
        Self(self.0.saturating_add(quarters))
    }

    /// When it begins; `None` beyond the end of time.
    pub fn begins(self) -> Option<Timestamp> {
        Timestamp::from_second(self.0.checked_mul(Self::SECONDS)?).ok()
    }

    /// Its place in a week.
    fn index(self) -> usize {
        usize::try_from(self.0.rem_euclid(Self::A_WEEK)).unwrap_or_default()
    }
}

impl WeekOfDemand {
    /// What was asked for when it was this quarter-hour of the week last; `None` where nobody
    /// looked.
    pub fn get(&self, quarter: Quarter) -> Option<u64> {
        self.0.get(quarter.index()).copied().filter(|cpu_millis| *cpu_millis > 0)
    }

    /// Keeps what is asked for in a quarter-hour in place of what was a week before.
    pub fn set(&mut self, quarter: Quarter, cpu_millis: u64) {
        let index = quarter.index();
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = cpu_millis;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_keeps_the_newest_of_each_quarter_hour() {
        let at = |seconds| Quarter::at(Timestamp::from_second(seconds).unwrap());
        let mut week = WeekOfDemand::default();
        assert_eq!(week.get(at(0)), None);
        week.set(at(899), 7);
        week.set(at(900), 8);
        week.set(at(604_800), 9);
        assert_eq!([0, 900, 1_800].map(|seconds| week.get(at(seconds))), [Some(9), Some(8), None]);
        assert_eq!(week.get(at(-604_800)), Some(9));
        assert_eq!(at(1_000).later(3).begins().unwrap().as_second(), 3_600);
        assert_eq!(serde_json::to_value(&week).unwrap(), serde_json::json!([9, 8]));
    }
}
