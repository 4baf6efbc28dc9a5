//! How busy people are at which hour.

/// How much of its peak a working day asks for at each full hour, in percent.
const PERCENT_BY_HOUR: [u64; 24] =
    [38, 34, 31, 30, 30, 32, 38, 48, 60, 72, 82, 90, 95, 98, 100, 100, 98, 94, 88, 80, 70, 60, 50, 43];
/// How much of a working day a day of the weekend asks for, in percent.
const WEEKEND_PERCENT: u64 = 60;

/// Whether a day, counted from 0, is one of a weekend. Worlds begin on a Thursday.
pub(super) const fn is_weekend(day: u64) -> bool {
    matches!(day % 7, 2 | 3)
}

/// How much is asked for so many minutes after a day's beginning, in percent of the peak.
pub(super) fn percent_of_peak(day: u64, minute: u64) -> u64 {
    let at = |hour: u64| usize::try_from(hour % 24).map_or(100, |hour| PERCENT_BY_HOUR[hour]);
    let (hour, past) = (minute / 60, minute % 60);
    let working = (at(hour) * (60 - past) + at(hour + 1) * past) / 60;
    if is_weekend(day) { working * WEEKEND_PERCENT / 100 } else { working }
}
