//! What annotations of a NodePool ask of the disruption of its nodes beside its spec.

use std::time::Duration;

use super::NodePool;
use super::window::{self, DisruptionWindow};
use crate::invalid::{Problems, shown};
use crate::{NillableDuration, Price, labels};

/// What annotations of a NodePool ask of the disruption of its nodes; `None` where they say nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DisruptionWishes {
    /// How much a command must save at least, in dollars per hour (`outrigger.dev/least-saving`).
    pub least_saving: Option<Price>,
    /// How much of what the ended nodes cost a command must save at least, in percent
    /// (`outrigger.dev/least-saving-percent`).
    pub least_saving_percent: Option<u64>,
    /// What one eviction counts, in dollars (`outrigger.dev/eviction-price`).
    pub eviction_price: Option<f64>,
    /// How old a node must be (`outrigger.dev/least-node-age`).
    pub least_node_age: Option<Duration>,
    /// How long a pod should run before it is moved (`outrigger.dev/pod-rest`).
    pub pod_rest: Option<Duration>,
    /// Whether nodes that expire are replaced first (`outrigger.dev/graceful-expiry`).
    pub graceful_expiry: Option<bool>,
    /// When nodes may be disrupted (`outrigger.dev/disruption-windows`).
    pub windows: Option<Vec<DisruptionWindow>>,
    /// How many drifted nodes are replaced at once (`outrigger.dev/drift-at-once`).
    pub drift_at_once: Option<usize>,
}

impl NodePool {
    /// What its annotations ask of the disruption of its nodes. One that means nothing asks for nothing.
    pub fn disruption_wishes(&self) -> DisruptionWishes {
        let text = |key: &str| self.annotations.get(key).map(String::as_str);
        DisruptionWishes {
            least_saving: text(labels::LEAST_SAVING).and_then(dollars).and_then(Price::from_dollars),
            least_saving_percent: text(labels::LEAST_SAVING_PERCENT).and_then(percent),
            eviction_price: text(labels::EVICTION_PRICE).and_then(dollars),
            least_node_age: text(labels::LEAST_NODE_AGE).and_then(duration),
            pod_rest: text(labels::POD_REST).and_then(duration),
            graceful_expiry: text(labels::GRACEFUL_EXPIRY).and_then(|text| text.parse().ok()),
            windows: text(labels::DISRUPTION_WINDOWS).and_then(window::all),
            drift_at_once: text(labels::DRIFT_AT_ONCE).and_then(count),
        }
    }
}

/// Complains about each annotation that means nothing.
pub(super) fn check(pool: &NodePool, problems: &mut Problems) {
    let wishes = pool.disruption_wishes();
    let dollars = "dollars from 0 to 1000, as 0.05";
    let rules = [
        (labels::LEAST_SAVING, wishes.least_saving.is_some(), dollars),
        (
            labels::LEAST_SAVING_PERCENT,
            wishes.least_saving_percent.is_some(),
            "a whole number from 0 to 100, as 5",
        ),
        (labels::EVICTION_PRICE, wishes.eviction_price.is_some(), dollars),
        (labels::LEAST_NODE_AGE, wishes.least_node_age.is_some(), "a duration such as 30m"),
        (labels::POD_REST, wishes.pod_rest.is_some(), "a duration such as 6h"),
        (labels::GRACEFUL_EXPIRY, wishes.graceful_expiry.is_some(), "true and false"),
        (labels::DISRUPTION_WINDOWS, wishes.windows.is_some(), window::ALLOWED),
        (labels::DRIFT_AT_ONCE, wishes.drift_at_once.is_some(), "a whole number from 1, as 2"),
    ];
    for (key, is_understood, allowed) in rules {
        if let Some(found) = pool.annotations.get(key).filter(|_| !is_understood) {
            problems.refuse(format!("metadata.annotations[{key}]"), shown(found), allowed);
        }
    }
}

fn dollars(text: &str) -> Option<f64> {
    text.parse().ok().filter(|dollars| (0.0..=1_000.0).contains(dollars))
}

fn percent(text: &str) -> Option<u64> {
    text.parse().ok().filter(|percent| *percent <= 100)
}

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| *count > 0)
}

fn duration(text: &str) -> Option<Duration> {
    text.parse().ok().and_then(NillableDuration::get)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::NodeClassRef;

    fn pool(annotations: &[(&str, &str)]) -> NodePool {
        let annotations: BTreeMap<_, _> =
            annotations.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        NodePool { annotations, ..NodePool::bare("web", NodeClassRef::instance_group("nodes")) }
    }

    #[test]
    fn annotations_ask_for_what_they_say() {
        assert_eq!(pool(&[]).disruption_wishes(), DisruptionWishes::default());
        let pool = pool(&[
            (labels::LEAST_SAVING, "0.05"),
            (labels::LEAST_SAVING_PERCENT, "5"),
            (labels::EVICTION_PRICE, "0.01"),
            (labels::LEAST_NODE_AGE, "1h30m"),
            (labels::POD_REST, "2h"),
            (labels::GRACEFUL_EXPIRY, "true"),
            (labels::DISRUPTION_WINDOWS, "@daily 8h"),
            (labels::DRIFT_AT_ONCE, "2"),
        ]);
        let expected = DisruptionWishes {
            least_saving: Some(Price::from_nanos(50_000_000)),
            least_saving_percent: Some(5),
            eviction_price: Some(0.01),
            least_node_age: Some(Duration::from_mins(90)),
            pod_rest: Some(Duration::from_hours(2)),
            graceful_expiry: Some(true),
            windows: window::all("0 0 * * * 8h"),
            drift_at_once: Some(2),
        };
        assert_eq!(pool.disruption_wishes(), expected);
    }

    #[test]
    fn what_means_nothing_is_refused_and_asks_for_nothing() {
        let table = [
            (labels::LEAST_SAVING, vec!["", "-0.1", "NaN", "inf", "1001", "5%"]),
            (labels::LEAST_SAVING_PERCENT, vec!["", "-1", "101", "5%", "2.5"]),
            (labels::EVICTION_PRICE, vec!["", "-0.1", "NaN", "cheap"]),
            (labels::LEAST_NODE_AGE, vec!["", "Never", "5", "1d"]),
            (labels::POD_REST, vec!["", "Never", "5", "1d"]),
            (labels::GRACEFUL_EXPIRY, vec!["", "yes", "True"]),
            (labels::DISRUPTION_WINDOWS, vec!["", "8h", "0 22 * * *", "@daily 8h;", "@daily 8h, @weekly 8h"]),
            (labels::DRIFT_AT_ONCE, vec!["", "0", "-1", "1.5", "10%"]),
        ];
        for (key, values) in table {
            for value in values {
                let pool = pool(&[(key, value)]);
                assert_eq!(pool.disruption_wishes(), DisruptionWishes::default(), "{key}: {value:?}");
                let mut problems = Problems::of("NodePool/web");
                check(&pool, &mut problems);
                let fields: Vec<_> = problems.into_vec().into_iter().map(|problem| problem.field).collect();
                assert_eq!(fields, [format!("metadata.annotations[{key}]")], "{value:?}");
            }
        }
    }
}
