//! The API server's clock, as the `Date` of its answers tells it.

use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use http::header::DATE;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// How HTTP writes a date (RFC 9110, 5.6.7), which is always in GMT.
const FORMAT: &str = "%a, %d %b %Y %H:%M:%S GMT";
/// A date is cut off to the second, so that clocks which agree may seem to differ by this.
const RESOLUTION: SignedDuration = SignedDuration::from_secs(1);

/// By how much the API server's clock is ahead of ours; `None` before its first answer. The difference is kept, and
/// not the time, since a function that was frozen finds its own clock set right.
#[derive(Debug, Default)]
pub(super) struct ServerClock(Mutex<Option<SignedDuration>>);

impl ServerClock {
    /// What the clock shows.
    pub(super) fn time(&self) -> Option<Timestamp> {
        let ahead = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Timestamp::now().saturating_add(ahead?).ok()
    }

    /// Takes note of the time of an answer. One without a date tells nothing.
    pub(super) fn learn(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|value| value.to_str().ok()).and_then(parse);
        if let Some(date) = date {
            let mut ahead = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            *ahead = Some(difference(*ahead, date, Timestamp::now()));
        }
    }
}

/// By how much a clock that shows `date` is ahead of one that shows `now`. What was known is kept where the new date
/// agrees with it, so that time does not jump to and fro; at first the clocks are taken to agree.
fn difference(known: Option<SignedDuration>, date: Timestamp, now: Timestamp) -> SignedDuration {
    let known = known.unwrap_or(SignedDuration::ZERO);
    let seen = date.duration_since(now);
    let is_known = (seen - RESOLUTION..=seen + RESOLUTION).contains(&known);
    if is_known { known } else { seen }
}

fn parse(date: &str) -> Option<Timestamp> {
    let civil = strtime::parse(FORMAT, date).ok()?.to_datetime().ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_date_of_http_is_read() {
        let second = |text| parse(text).map(Timestamp::as_second);
        assert_eq!(second("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        for strange in
            ["", "1994-11-06T08:49:37Z", "Sun, 06 Nov 1994 08:49:37 CET", "Sun, 36 Nov 1994 08:49:37 GMT"]
        {
            assert_eq!(second(strange), None, "{strange}");
        }
    }

    #[test]
    fn a_difference_of_less_than_the_resolution_is_none() {
        let at = |millis: i64| Timestamp::from_millisecond(1_000_000 + millis).unwrap();
        let seen = |known: Option<i64>, date, now| {
            difference(known.map(SignedDuration::from_millis), at(date), at(now)).as_millis()
        };
        assert_eq!(seen(None, 0, 900), 0, "the date is cut off");
        assert_eq!(seen(None, 300_000, 900), 299_100);
        assert_eq!(seen(Some(299_100), 301_000, 1_300), 299_100);
        assert_eq!(seen(Some(299_100), 1_000, 1_300), -300, "our clock was set right");
        assert_eq!(seen(None, -40_000, 0), -40_000);
    }

    #[test]
    fn the_time_is_unknown_until_an_answer_tells_it() {
        let clock = ServerClock::default();
        assert_eq!(clock.time(), None);
        clock.learn(&HeaderMap::new());
        assert_eq!(clock.time(), None);
        let date = HeaderValue::from_static("Fri, 01 Jan 2100 00:00:00 GMT");
        clock.learn(&HeaderMap::from_iter([(DATE, date)]));
        assert!(clock.time().unwrap() >= parse("Fri, 01 Jan 2100 00:00:00 GMT").unwrap());
    }
}
