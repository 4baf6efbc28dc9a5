//! When a budget holds: always, or for its duration after each time of its schedule, in UTC.

use jiff::civil::DateTime;
use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use outrigger_model::NillableDuration;
use outrigger_model::node_pool::Budget;
use outrigger_model::node_pool::schedule::Schedule;

/// How many windows in a row are looked through for the end of the last; beyond, a budget counts as
/// holding without end.
const WINDOWS_LOOKED_THROUGH: usize = 1_000;

/// Whether a budget holds at some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// It holds.
    Open {
        /// Until when; `None` where it holds without end.
        until: Option<Timestamp>,
    },
    /// It does not hold.
    Shut,
    /// Nobody can say.
    Unreadable,
}

impl Window {
    /// Whether a budget holds now (Karpenter's `IsActive`: its schedule was due within its duration
    /// before now).
    pub fn of_budget(budget: &Budget, now: Timestamp) -> Self {
        let (Some(schedule), duration) = (&budget.schedule, &budget.duration) else {
            return Self::Open { until: None };
        };
        let length = duration.as_deref().and_then(length);
        let (Ok(schedule), Some(length)) = (schedule.parse::<Schedule>(), length) else {
            return Self::Unreadable;
        };
        Self::after(&schedule, length, now)
    }

    /// Whether the time is within so long after a time of a schedule.
    pub(in crate::disruption) fn after(schedule: &Schedule, length: SignedDuration, now: Timestamp) -> Self {
        let now = Offset::UTC.to_datetime(now);
        let after = now.checked_sub(length).unwrap_or(DateTime::MIN);
        match schedule.last_due(after, now) {
            Some(due) => Self::Open { until: end(schedule, length, due) },
            None => Self::Shut,
        }
    }
}

fn length(text: &str) -> Option<SignedDuration> {
    let length = text.parse().ok().and_then(NillableDuration::get)?;
    SignedDuration::try_from(length).ok()
}

/// When the windows end of which one began at this time: the schedule may be due again before it is
/// over.
fn end(schedule: &Schedule, length: SignedDuration, mut due: DateTime) -> Option<Timestamp> {
    for _ in 0..WINDOWS_LOOKED_THROUGH {
        let until = due.checked_add(length).ok()?;
        match schedule.last_due(due, until) {
            Some(next) => due = next,
            None => return Offset::UTC.to_timestamp(until).ok(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        format!("{text}Z").parse().unwrap()
    }

    #[test]
    fn a_budget_holds_for_its_duration_after_each_time_of_its_schedule() {
        let open = |until: &str| Window::Open { until: Some(at(until)) };
        let always = Window::Open { until: None };
        // 20 November 2026 is a Friday.
        let table = [
            (None, None, "2026-11-20T09:00:00", always),
            (Some("0 22 * * *"), Some("8h"), "2026-11-20T21:59:59", Window::Shut),
            (Some("0 22 * * *"), Some("8h"), "2026-11-20T22:00:00", open("2026-11-21T06:00:00")),
            (Some("0 22 * * *"), Some("8h"), "2026-11-21T05:59:59", open("2026-11-21T06:00:00")),
            (Some("0 22 * * *"), Some("8h"), "2026-11-21T06:00:00", Window::Shut),
            (Some("0 9 * * mon-fri"), Some("1h30m0s"), "2026-11-20T10:29:00", open("2026-11-20T10:30:00")),
            (Some("0 9 * * mon-fri"), Some("1h30m0s"), "2026-11-21T10:29:00", Window::Shut),
            (Some("0 18 * * fri"), Some("62h"), "2026-11-22T12:00:00", open("2026-11-23T08:00:00")),
            // One window begins before the other is over.
            (Some("0 9,10 * * *"), Some("2h"), "2026-11-20T09:30:00", open("2026-11-20T12:00:00")),
            (Some("0 9,11 * * *"), Some("2h"), "2026-11-20T09:30:00", open("2026-11-20T13:00:00")),
            (Some("@hourly"), Some("2h"), "2026-11-20T09:30:00", always),
            (Some("0 9 * * *"), Some("0h"), "2026-11-20T09:00:00", Window::Shut),
            (Some("0 0 30 2 *"), Some("10000h"), "2026-11-20T09:00:00", Window::Shut),
            (Some("0 9 * *"), Some("8h"), "2026-11-20T09:00:00", Window::Unreadable),
            (Some("0 9 * * *"), Some("8 hours"), "2026-11-20T09:00:00", Window::Unreadable),
            (Some("0 9 * * *"), None, "2026-11-20T09:00:00", Window::Unreadable),
            (Some("0 9 * * *"), Some("99999999999999h"), "2026-11-20T09:00:00", always),
        ];
        for (schedule, duration, now, expected) in table {
            let budget = Budget {
                nodes: "0".into(),
                schedule: schedule.map(str::to_owned),
                duration: duration.map(str::to_owned),
                reasons: None,
            };
            assert_eq!(Window::of_budget(&budget, at(now)), expected, "{schedule:?} {duration:?} at {now}");
        }
    }
}
