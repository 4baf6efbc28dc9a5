//! The schedule of a budget: five cron fields, or a name such as `@daily`, always in UTC.
//!
//! The syntax is that of the parser that Karpenter uses (`robfig/cron` 3, standard): lists, ranges, steps, `*` and `?`,
//! three-letter names of months and weekdays, weekdays from 0 (Sunday) to 6.

use std::str::FromStr;

use jiff::civil::DateTime;

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

impl Schedule {
    /// Whether a budget begins to hold at this minute (UTC); seconds are not looked at.
    pub fn is_due(&self, at: DateTime) -> bool {
        let day = self.days.has(at.day());
        let weekday = self.weekdays.has(at.weekday().to_sunday_zero_offset());
        // Cron's old rule: where both days are restricted, either is enough.
        let on_day = if self.days.free || self.weekdays.free { day && weekday } else { day || weekday };
        on_day && self.minutes.has(at.minute()) && self.hours.has(at.hour()) && self.months.has(at.month())
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
