//! The schedule of a budget: five cron fields, or a name such as `@daily`, always in UTC.
//!
//! The syntax is that of the parser that Karpenter uses (`robfig/cron` 3, standard): lists, ranges,
//! steps, `*` and `?`, three-letter names of months and weekdays, weekdays from 0 (Sunday) to 6.

use std::str::FromStr;

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};

/// What a schedule may be, for messages.
pub(super) const ALLOWED: &str = "five cron fields in UTC (minute, hour, day of month, month, weekday), or @yearly, \
     @annually, @monthly, @weekly, @daily, @midnight or @hourly";

/// The minutes at which a budget begins to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// How many days are looked through for the last time: within so many every schedule that is ever
/// due is due once, that of 29 February too, which 1900 and 2100 do not have.
const DAYS_LOOKED_THROUGH: u32 = 8 * 366;

impl Schedule {
    /// Whether a budget begins to hold at this minute (UTC); seconds are not looked at.
    pub fn is_due(&self, at: DateTime) -> bool {
        self.is_on(at.date()) && self.minutes.has(at.minute()) && self.hours.has(at.hour())
    }

    /// The last minute (UTC) at which a budget began to hold, after the one time and not after the
    /// other.
    pub fn last_due(&self, after: DateTime, not_after: DateTime) -> Option<DateTime> {
        let (mut day, mut latest) = (not_after.date(), not_after.time());
        for _ in 0..DAYS_LOOKED_THROUGH {
            if day < after.date() {
                return None;
            }
            if let Some(time) = self.last_time(latest).filter(|_| self.is_on(day)) {
                return Some(day.to_datetime(time)).filter(|due| *due > after);
            }
            (day, latest) = (day.yesterday().ok()?, Time::MAX);
        }
        None
    }

    /// The first minute (UTC) at which it is due from a time on; `None` where it never is.
    pub fn next_due(&self, not_before: DateTime) -> Option<DateTime> {
        // It is due at whole minutes.
        let from = not_before.checked_add(SignedDuration::from_nanos(59_999_999_999)).ok()?;
        let (mut day, mut earliest) = (from.date(), from.time());
        for _ in 0..DAYS_LOOKED_THROUGH {
            if let Some(time) = self.first_time(earliest).filter(|_| self.is_on(day)) {
                return Some(day.to_datetime(time));
            }
            (day, earliest) = (day.tomorrow().ok()?, Time::MIN);
        }
        None
    }

    fn is_on(&self, date: Date) -> bool {
        let day = self.days.has(date.day());
        let weekday = self.weekdays.has(date.weekday().to_sunday_zero_offset());
        // Cron's old rule: where both days are restricted, either is enough.
        let on_day = if self.days.free || self.weekdays.free { day && weekday } else { day || weekday };
        on_day && self.months.has(date.month())
    }

    /// The last time of a day on which it is due, not after this one.
    fn last_time(&self, not_after: Time) -> Option<Time> {
        let in_this_hour = || {
            let hour = Some(not_after.hour()).filter(|hour| self.hours.has(*hour))?;
            Some((hour, self.minutes.last(not_after.minute())?))
        };
        let before = || Some((self.hours.last(not_after.hour() - 1)?, self.minutes.last(59)?));
        let (hour, minute) = in_this_hour().or_else(before)?;
        Time::new(hour, minute, 0, 0).ok()
    }

    /// The first time of a day on which it is due, not before this one.
    fn first_time(&self, not_before: Time) -> Option<Time> {
        let in_this_hour = || {
            let hour = Some(not_before.hour()).filter(|hour| self.hours.has(*hour))?;
            Some((hour, self.minutes.first(not_before.minute())?))
        };
        let later = || Some((self.hours.first(not_before.hour() + 1)?, self.minutes.first(0)?));
        let (hour, minute) = in_this_hour().or_else(later)?;
        Time::new(hour, minute, 0, 0).ok()
    }
}

impl FromStr for Schedule {
    type Err = String;

    /// Reads a schedule; the error says which part is wrong.
    fn from_str(text: &str) -> Result<Self, String> {
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            fields => fields,
        };
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(format!("it has {} fields", fields.len()));
        };
        Ok(Self {
            minutes: MINUTE.read(minute)?,
            hours: HOUR.read(hour)?,
            days: DAY.read(day)?,
            months: MONTH.read(month)?,
            weekdays: WEEKDAY.read(weekday)?,
        })
    }
}

/// The values that one field allows, as bits; `free` when it was `*` or `?`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Field {
    values: u64,
    free: bool,
}

impl Field {
    fn has(self, value: i8) -> bool {
        u32::try_from(value).is_ok_and(|value| self.values >> value & 1 == 1)
    }

    /// The greatest value that it allows up to this one.
    fn last(self, most: i8) -> Option<i8> {
        (0..=most).rev().find(|value| self.has(*value))
    }

    /// The least value that it allows from this one on, of minutes and hours.
    fn first(self, least: i8) -> Option<i8> {
        (least..60).find(|value| self.has(*value))
    }
}

/// What one field may hold.
struct Unit {
    name: &'static str,
    low: u32,
    high: u32,
    /// Names of the values, from `low` on.
    names: &'static [&'static str],
}

const MINUTE: Unit = Unit { name: "minute", low: 0, high: 59, names: &[] };
const HOUR: Unit = Unit { name: "hour", low: 0, high: 23, names: &[] };
const DAY: Unit = Unit { name: "day of month", low: 1, high: 31, names: &[] };
const MONTH: Unit = Unit {
    name: "month",
    low: 1,
    high: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAY: Unit =
    Unit { name: "weekday", low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl Unit {
    fn read(&self, text: &str) -> Result<Field, String> {
        let mut field = Field { values: 0, free: false };
        for part in text.split(',') {
            let (range, step) = match part.split_once('/') {
                Some((range, step)) => (range, Some(self.step(step)?)),
                None => (part, None),
            };
            let any = matches!(range, "*" | "?");
            let (first, last) = match range.split_once('-') {
                _ if any => (self.low, self.high),
                Some((first, last)) => (self.value(first)?, self.value(last)?),
                None if step.is_some() => (self.value(range)?, self.high),
                None => (self.value(range)?, self.value(range)?),
            };
            if first > last {
                return Err(format!("the {} range {range:?} ends before it begins", self.name));
            }
            let step = step.unwrap_or(1);
            field.free |= any && step == 1;
            field.values |= (first..=last).step_by(step).fold(0, |bits, value| bits | 1 << value);
        }
        Ok(field)
    }

    fn step(&self, text: &str) -> Result<usize, String> {
        let step = text.parse().ok().filter(|step| *step > 0);
        step.ok_or_else(|| format!("the {} step {text:?} is not a whole number above 0", self.name))
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|index| u32::try_from(index).ok()).map(|index| index + self.low);
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let value = named.or_else(|| if digits { text.parse().ok() } else { None });
        value.filter(|value| (self.low..=self.high).contains(value)).ok_or_else(|| {
            let Self { name, low, high, .. } = self;
            format!("the {name} {text:?} is not within {low} to {high}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_minutes() {
        let table = [
            ("0 9 * * mon-fri", "2026-11-20T09:00", true),
            ("0 9 * * mon-fri", "2026-11-21T09:00", false),
            ("0 9 * * MON-FRI", "2026-11-20T09:01", false),
            ("*/15 * * * *", "2026-11-20T09:45", true),
            ("5/15 * * * *", "2026-11-20T09:35", true),
            ("5/15 * * * *", "2026-11-20T09:00", false),
            ("0 0 1,15 * ?", "2026-11-15T00:00", true),
            ("0 0 13 * 5", "2026-11-20T00:00", true),
            ("0 0 13 * 5", "2026-11-19T00:00", false),
            ("0 0 */2 * 5", "2026-11-20T00:00", true),
            ("0 0 1 jan *", "2026-01-01T00:00", true),
            ("@weekly", "2026-11-22T00:00", true),
            ("@daily", "2026-11-22T01:00", false),
            ("@hourly", "2026-11-22T01:00", true),
        ];
        for (schedule, at, expected) in table {
            let schedule_read: Schedule = schedule.parse().unwrap();
            assert_eq!(schedule_read.is_due(at.parse().unwrap()), expected, "{schedule} at {at}");
        }
    }

    #[test]
    fn the_last_due_minute() {
        // The schedule, after and not after which time, and the last minute at which it was due.
        let table = [
            ("0 9 * * *", "2026-11-19T09:00", "2026-11-20T09:00", Some("2026-11-20T09:00")),
            ("0 9 * * *", "2026-11-19T09:00", "2026-11-20T08:59", None),
            ("0 9 * * *", "2026-11-19T08:59", "2026-11-20T08:59", Some("2026-11-19T09:00")),
            ("30 9 * * *", "2026-11-19T00:00", "2026-11-20T09:29:59", Some("2026-11-19T09:30")),
            ("*/20 * * * *", "2026-11-19T00:00", "2026-11-20T09:59", Some("2026-11-20T09:40")),
            ("45 * * * *", "2026-11-19T00:00", "2026-11-20T00:30", Some("2026-11-19T23:45")),
            ("0 22 * * 5", "2026-11-01T00:00", "2026-11-26T00:00", Some("2026-11-20T22:00")),
            ("0 0 1 1 *", "2020-01-01T00:00", "2026-11-20T09:00", Some("2026-01-01T00:00")),
            ("0 0 29 2 *", "1900-01-01T00:00", "2026-11-20T09:00", Some("2024-02-29T00:00")),
            ("0 0 30 2 *", "0001-01-01T00:00", "2026-11-20T09:00", None),
            ("0 9 * * *", "2026-11-20T09:00", "2026-11-19T09:00", None),
        ];
        for (schedule, after, not_after, expected) in table {
            let read: Schedule = schedule.parse().unwrap();
            let actual = read.last_due(after.parse().unwrap(), not_after.parse().unwrap());
            let expected = expected.map(|due| due.parse().unwrap());
            assert_eq!(actual, expected, "{schedule} after {after}, not after {not_after}");
            assert!(actual.is_none_or(|due| read.is_due(due)));
        }
    }

    #[test]
    fn the_next_due_minute() {
        // The schedule, from when on, and the first minute at which it is due.
        let table = [
            ("0 9 * * *", "2026-11-20T09:00", Some("2026-11-20T09:00")),
            ("0 9 * * *", "2026-11-20T09:00:00.000000001", Some("2026-11-21T09:00")),
            ("0 9 * * *", "2026-11-20T08:59:01", Some("2026-11-20T09:00")),
            ("30 9,17 * * *", "2026-11-20T09:31", Some("2026-11-20T17:30")),
            ("*/20 * * * *", "2026-11-20T23:41", Some("2026-11-21T00:00")),
            ("0 22 * * 5", "2026-11-20T22:01", Some("2026-11-27T22:00")),
            ("0 0 1 1 *", "2026-11-20T09:00", Some("2027-01-01T00:00")),
            ("0 0 29 2 *", "2026-11-20T09:00", Some("2028-02-29T00:00")),
            ("0 0 30 2 *", "2026-11-20T09:00", None),
            ("0 9 * * *", "9999-12-31T10:00", None),
        ];
        for (schedule, from, expected) in table {
            let read: Schedule = schedule.parse().unwrap();
            let actual = read.next_due(from.parse().unwrap());
            assert_eq!(actual, expected.map(|due| due.parse().unwrap()), "{schedule} from {from}");
            assert!(actual.is_none_or(|due| read.is_due(due)));
        }
    }

    #[test]
    fn what_is_not_a_schedule() {
        let table = [
            ("", "it has 0 fields"),
            ("* * * *", "it has 4 fields"),
            ("@every 5m", "it has 2 fields"),
            ("60 * * * *", "the minute \"60\" is not within 0 to 59"),
            ("* * 0 * *", "the day of month \"0\" is not within 1 to 31"),
            ("* * * * 7", "the weekday \"7\" is not within 0 to 6"),
            ("* * * * mo", "the weekday \"mo\" is not within 0 to 6"),
            ("*/0 * * * *", "the minute step \"0\" is not a whole number above 0"),
            ("5-1 * * * *", "the minute range \"5-1\" ends before it begins"),
            ("1,,2 * * * *", "the minute \"\" is not within 0 to 59"),
            ("+1 * * * *", "the minute \"+1\" is not within 0 to 59"),
        ];
        for (schedule, expected) in table {
            assert_eq!(schedule.parse::<Schedule>().unwrap_err(), expected, "{schedule:?}");
        }
    }
}
