//! The API server's clock beside ours, as the `Date` of its answers tells it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use http::HeaderMap;
use http::header::DATE;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// How HTTP writes a date (RFC 9110, 5.6.7), which is always in GMT.
const FORMAT: &str = "%a, %d %b %Y %H:%M:%S GMT";
/// How long a difference is remembered. Behind one address may stand several servers, and only one
/// of them be wrong.
const REMEMBERED_FOR: Duration = Duration::from_mins(10);

/// By how much the API server's clock was ahead of ours at most, and when that was seen; `None`
/// before the first answer.
#[derive(Debug, Default)]
pub(super) struct ServerClock(Mutex<Option<(SignedDuration, Instant)>>);

impl ServerClock {
    /// By how much the clock is ahead; of the differences of late, the largest either way.
    pub(super) fn difference(&self) -> Option<SignedDuration> {
        let seen = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.map(|(ahead, _)| ahead)
    }

    /// Takes note of the time of an answer. One without a date tells nothing.
    pub(super) fn learn(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|value| value.to_str().ok()).and_then(parse);
        if let Some(date) = date {
            let ahead = date.duration_since(Timestamp::now());
            let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_less = |(largest, at): &(SignedDuration, Instant)| {
                ahead.abs() < largest.abs() && at.elapsed() < REMEMBERED_FOR
            };
            if !seen.as_ref().is_some_and(is_less) {
                *seen = Some((ahead, Instant::now()));
            }
        }
    }
}

fn parse(date: &str) -> Option<Timestamp> {
    let civil = strtime::parse(FORMAT, date).ok()?.to_datetime().ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn answer(date: Option<String>) -> HeaderMap {
        date.map(|date| (DATE, HeaderValue::from_str(&date).unwrap())).into_iter().collect()
    }

    fn in_hours(hours: i64) -> HeaderMap {
        let date = Timestamp::now().saturating_add(SignedDuration::from_hours(hours)).unwrap();
        answer(Some(date.strftime(FORMAT).to_string()))
    }

    #[test]
    fn a_date_of_http_is_read() {
        let second = |text| parse(text).map(Timestamp::as_second);
        assert_eq!(second("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        for not_a_date in
            ["", "Sun, 06 Nov 1994 08:49:37", "1994-11-06T08:49:37Z", "Sun, 99 Nov 1994 08:49:37 GMT"]
        {
            assert_eq!(second(not_a_date), None, "{not_a_date}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_several_clocks_the_one_that_differs_most_counts_for_a_while() {
        let clock = ServerClock::default();
        clock.learn(&answer(None));
        clock.learn(&answer(Some("soon".into())));
        assert_eq!(clock.difference(), None);
        let hours = |clock: &ServerClock| clock.difference().unwrap().as_secs_f64() / 3_600.0;
        for (learnt, expected) in [(0, 0.0), (-3, -3.0), (0, -3.0), (2, -3.0), (5, 5.0)] {
            clock.learn(&in_hours(learnt));
            assert!((hours(&clock) - expected).abs() < 0.001, "{learnt}: {} {expected}", hours(&clock));
        }
        tokio::time::advance(REMEMBERED_FOR).await;
        clock.learn(&in_hours(0));
        assert!(hours(&clock).abs() < 0.001, "{}", hours(&clock));
    }
}
