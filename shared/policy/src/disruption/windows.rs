//! When nodes may be disrupted by choice: the windows of their pool
//! (`outrigger.dev/disruption-windows`).

use jiff::tz::Offset;
use jiff::{SignedDuration, Timestamp};
use outrigger_model::NodePool;
use outrigger_model::node_pool::window::DisruptionWindow;

use super::budgets::window::Window;
use super::kept::{Until, WhyKept};

/// Why the nodes of a pool are kept now; `None` within one of its windows, and where it has none.
pub(super) fn kept_outside(pool: &NodePool, now: Timestamp) -> Option<WhyKept> {
    let windows = pool.disruption_wishes().windows?;
    if windows.iter().any(|window| is_open(window, now)) {
        return None;
    }
    let next = windows.iter().filter_map(|window| begins(window, now)).min();
    Some(WhyKept::OutsideWindows { next: next.map(|at| Until { at, now }) })
}

fn is_open(window: &DisruptionWindow, now: Timestamp) -> bool {
    let length = SignedDuration::try_from(window.duration).unwrap_or(SignedDuration::MAX);
    matches!(Window::after(&window.schedule, length, now), Window::Open { .. })
}

fn begins(window: &DisruptionWindow, now: Timestamp) -> Option<Timestamp> {
    let due = window.schedule.next_due(Offset::UTC.to_datetime(now))?;
    Offset::UTC.to_timestamp(due).ok()
}

#[cfg(test)]
mod tests {
    use outrigger_model::{NodeClassRef, labels};

    use super::*;
    use crate::disruption::fixtures::now;

    #[test]
    fn a_pool_is_closed_outside_of_all_its_windows() {
        // It is noon on Friday, 20 November 2026.
        let shut = |text: &str| Some(format!("outside of its NodePool's disruption windows; {text}"));
        let table = [
            (None, None),
            (Some("0 10 * * * 2h"), shut("the next begins at 10:00 UTC")),
            (Some("0 10 * * * 2h1m"), None),
            (Some("0 12 * * * 1m"), None),
            (Some("1 12 * * * 1m"), shut("the next begins at 12:01 UTC")),
            (Some("0 22 * * * 8h; 0 0 * * 6 48h"), shut("the next begins at 22:00 UTC")),
            (Some("0 22 * * * 8h; 0 11 * * 5 2h"), None),
            (Some("0 0 30 2 * 8h"), shut("none begins again")),
        ];
        for (windows, expected) in table {
            let mut pool = NodePool::bare("web", NodeClassRef::instance_group("nodes"));
            let wish = windows.map(|value| (labels::DISRUPTION_WINDOWS.to_owned(), value.to_owned()));
            pool.annotations.extend(wish);
            let actual = kept_outside(&pool, now()).map(|kept| kept.to_string());
            assert_eq!(actual, expected, "{windows:?}");
        }
    }
}
