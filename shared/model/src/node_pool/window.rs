//! The windows in which nodes may be disrupted: `CRON DURATION`, several with `;` between them.

use std::time::Duration;

use super::schedule::Schedule;
use crate::NillableDuration;

/// What the annotation may be, for messages.
pub(super) const ALLOWED: &str = "windows with ; between them, each a schedule (five cron fields in UTC, or @daily and \
     its like) and a duration, as \"0 22 * * * 8h; 0 0 * * 6 48h\"";

/// A time in which nodes may be disrupted, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisruptionWindow {
    /// When it begins, in UTC.
    pub schedule: Schedule,
    /// For how long it lasts; more than zero.
    pub duration: Duration,
}

/// The windows of an annotation; `None` where one of them means nothing.
pub(super) fn parse_all(text: &str) -> Option<Vec<DisruptionWindow>> {
    text.split(';').map(|window| one(window.trim())).collect()
}

fn one(text: &str) -> Option<DisruptionWindow> {
    let (schedule, duration) = text.rsplit_once(|c: char| c.is_ascii_whitespace())?;
    let duration: NillableDuration = duration.parse().ok()?;
    let duration = duration.get().filter(|duration| !duration.is_zero())?;
    Some(DisruptionWindow { schedule: schedule.parse().ok()?, duration })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_schedules_with_durations() {
        let window = |schedule: &str, hours| DisruptionWindow {
            schedule: schedule.parse().unwrap(),
            duration: Duration::from_hours(hours),
        };
        let table = [
            ("0 22 * * * 8h", Some(vec![window("0 22 * * *", 8)])),
            ("@daily 1h", Some(vec![window("0 0 * * *", 1)])),
            (" 0 22 * * *  8h ;@weekly\t48h", Some(vec![window("0 22 * * *", 8), window("0 0 * * 0", 48)])),
            ("0 22 * * * 0h", None),
            ("0 22 * * * Never", None),
            ("0 22 * * * 8", None),
            ("0 25 * * * 8h", None),
            ("0 22 * * 8h", None),
            ("0 22 * * * 8h; nonsense", None),
            (";", None),
        ];
        for (text, expected) in table {
            assert_eq!(parse_all(text), expected, "{text:?}");
        }
    }
}
