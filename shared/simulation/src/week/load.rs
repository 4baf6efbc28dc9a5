//! How much the users of a workload ask for at each minute, in thousandths of its peak.

use crate::random::draw;

/// So many minutes a day has.
pub(super) const DAY_MINUTES: u64 = 24 * 60;
/// How much of its peak a working day asks for at each full hour, in percent.
const PERCENT_BY_HOUR: [u64; 24] =
    [38, 34, 31, 30, 30, 32, 38, 48, 60, 72, 82, 90, 95, 98, 100, 100, 98, 94, 88, 80, 70, 60, 50, 43];
/// How much of a working day a day of the weekend asks for, in percent.
const WEEKEND_PERCENT: u64 = 60;
/// By so many minutes a workload's day is earlier or later than others.
const SHIFT_MINUTES: u64 = 180;
/// How deep its night is, as percent of the depth of the hours above: at least, and how much more
/// at most.
const DEPTH_PERCENT: (u64, u64) = (70, 50);
/// What a bursty workload asks for between its bursts.
const BETWEEN_BURSTS: u64 = 300;
/// How many bursts a day has, and for how many minutes each lasts: at least, and how many more at
/// most.
const BURSTS: u64 = 5;
const BURST_MINUTES: (u64, u64) = (10, 80);
/// How much less the last minute of a shrinking cluster asks for than the first.
const SHRINKS_BY: u64 = 800;

/// Whether a day, counted from 0, is one of a weekend. Worlds begin on a Thursday.
pub(super) const fn is_weekend(day: u64) -> bool {
    matches!(day % 7, 2 | 3)
}

/// How much is asked for when.
pub(super) enum Load {
    /// Always as much.
    Flat(u64),
    /// It follows the hours.
    Daily { later_by: u64, depth_percent: u64 },
    /// The same, with less each minute.
    Shrinking { day: Box<Load>, minutes: u64 },
    /// The peak, from minute to minute.
    Bursty(Vec<(u64, u64)>),
}

impl Load {
    pub(super) fn daily(seed: u64, workload: &str) -> Self {
        let (least, more) = DEPTH_PERCENT;
        Self::Daily {
            later_by: draw(seed, &format!("week/shift/{workload}"), 2 * SHIFT_MINUTES + 1),
            depth_percent: least + draw(seed, &format!("week/depth/{workload}"), more + 1),
        }
    }

    pub(super) fn shrinking(seed: u64, workload: &str, days: u64) -> Self {
        Self::Shrinking { day: Box::new(Self::daily(seed, workload)), minutes: days * DAY_MINUTES }
    }

    pub(super) fn bursty(seed: u64, workload: &str, days: u64) -> Self {
        let (least, more) = BURST_MINUTES;
        let burst = |number: u64| {
            let drawn = |what: &str, bound| draw(seed, &format!("week/{what}/{workload}/{number}"), bound);
            let from = number / BURSTS * DAY_MINUTES + drawn("burst", DAY_MINUTES);
            (from, from + least + drawn("burst-lasts", more + 1))
        };
        Self::Bursty((0..days * BURSTS).map(burst).collect())
    }

    /// What is asked for at a minute, counted from the beginning.
    pub(super) fn at(&self, minute: u64) -> u64 {
        match self {
            Self::Flat(thousandths) => *thousandths,
            Self::Daily { later_by, depth_percent } => {
                let less = 1_000 - of_the_day(minute + DAY_MINUTES * 7 + SHIFT_MINUTES - later_by);
                1_000 - (less * depth_percent / 100).min(900)
            }
            Self::Shrinking { day, minutes } => {
                day.at(minute) * (1_000 - SHRINKS_BY * minute / minutes.max(&1)) / 1_000
            }
            Self::Bursty(bursts) => {
                let bursts_now = bursts.iter().any(|(from, until)| (*from..*until).contains(&minute));
                if bursts_now { 1_000 } else { BETWEEN_BURSTS }
            }
        }
    }
}

/// What the hours ask for.
fn of_the_day(minute: u64) -> u64 {
    let at = |hour: u64| usize::try_from(hour % 24).map_or(100, |hour| PERCENT_BY_HOUR[hour]);
    let (day, of_day) = (minute / DAY_MINUTES, minute % DAY_MINUTES);
    let (hour, past) = (of_day / 60, of_day % 60);
    let working = (at(hour) * (60 - past) + at(hour + 1) * past) / 6;
    if is_weekend(day) { working * WEEKEND_PERCENT / 100 } else { working }
}
