//! What annotations of a NodePool ask of the disruption of its nodes beside its spec.

use std::time::Duration;

use super::NodePool;
use super::window::{self, DisruptionWindow};
use crate::invalid::{Problems, shown};
use crate::{NillableDuration, labels};

/// What annotations of a NodePool ask of the disruption of its nodes; `None` where they say
/// nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DisruptionWishes {
    /// How patient disruption is with its nodes (`outrigger.dev/patience`).
    pub patience: Option<f64>,
    /// Whether nodes that expire are replaced first (`outrigger.dev/graceful-expiry`).
    pub graceful_expiry: Option<bool>,
    /// When nodes may be disrupted (`outrigger.dev/disruption-windows`).
    pub windows: Option<Vec<DisruptionWindow>>,
    /// How many drifted nodes are replaced at once (`outrigger.dev/drift-at-once`).
    pub drift_at_once: Option<usize>,
    /// For how long drifted nodes may empty by themselves (`outrigger.dev/drift-deadline`).
    pub drift_deadline: Option<Duration>,
}

impl NodePool {
    /// What its annotations ask of the disruption of its nodes. One that means nothing asks for
    /// nothing.
    pub fn disruption_wishes(&self) -> DisruptionWishes {
        let text = |key: &str| self.annotations.get(key).map(String::as_str);
        DisruptionWishes {
            patience: text(labels::PATIENCE).and_then(patience),
            graceful_expiry: text(labels::GRACEFUL_EXPIRY).and_then(|text| text.parse().ok()),
            windows: text(labels::DISRUPTION_WINDOWS).and_then(window::parse_all),
            drift_at_once: text(labels::DRIFT_AT_ONCE).and_then(count),
            drift_deadline: text(labels::DRIFT_DEADLINE).and_then(duration),
        }
    }
}

/// Complains about each annotation that means nothing.
pub(super) fn check(pool: &NodePool, problems: &mut Problems) {
    let wishes = pool.disruption_wishes();
    let rules = [
        (labels::PATIENCE, wishes.patience.is_some(), "a number from 0 to 1000, as 4"),
        (labels::GRACEFUL_EXPIRY, wishes.graceful_expiry.is_some(), "true and false"),
        (labels::DISRUPTION_WINDOWS, wishes.windows.is_some(), window::ALLOWED),
        (labels::DRIFT_AT_ONCE, wishes.drift_at_once.is_some(), "a whole number from 1, as 2"),
        (
            labels::DRIFT_DEADLINE,
            wishes.drift_deadline.is_some(),
            "hours, minutes and seconds, as 24h, and 0",
        ),
    ];
    for (key, is_understood, allowed) in rules {
        if let Some(wish) = pool.annotations.get(key).filter(|_| !is_understood) {
            problems.refuse(format!("metadata.annotations[{key}]"), shown(wish), allowed);
        }
    }
}

fn patience(text: &str) -> Option<f64> {
    text.parse().ok().filter(|patience| (0.0..=1_000.0).contains(patience))
}

fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| *count > 0)
}

fn duration(text: &str) -> Option<Duration> {
    if text == "0" { Some(Duration::ZERO) } else { text.parse().ok().and_then(NillableDuration::get) }
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
            (labels::PATIENCE, "2.5"),
            (labels::GRACEFUL_EXPIRY, "true"),
            (labels::DISRUPTION_WINDOWS, "@daily 8h"),
            (labels::DRIFT_AT_ONCE, "2"),
            (labels::DRIFT_DEADLINE, "0"),
        ]);
        let expected = DisruptionWishes {
            patience: Some(2.5),
            graceful_expiry: Some(true),
            windows: window::parse_all("0 0 * * * 8h"),
            drift_at_once: Some(2),
            drift_deadline: Some(Duration::ZERO),
        };
        assert_eq!(pool.disruption_wishes(), expected);
    }

    #[test]
    fn what_means_nothing_is_refused_and_asks_for_nothing() {
        let table = [
            (labels::PATIENCE, vec!["", "-0.1", "NaN", "inf", "1001", "5%"]),
            (labels::GRACEFUL_EXPIRY, vec!["", "yes", "True"]),
            (labels::DISRUPTION_WINDOWS, vec!["", "8h", "0 22 * * *", "@daily 8h;", "@daily 8h, @weekly 8h"]),
            (labels::DRIFT_AT_ONCE, vec!["", "0", "-1", "1.5", "10%"]),
            (labels::DRIFT_DEADLINE, vec!["", "24", "-1h", "Never", "1d"]),
        ];
        for (key, values) in table {
            for value in values {
                let pool = pool(&[(key, value)]);
                assert_eq!(pool.disruption_wishes(), DisruptionWishes::default(), "{key}: {value:?}");
                let mut problems = Problems::about("NodePool/web");
                check(&pool, &mut problems);
                let fields: Vec<_> = problems.into_vec().into_iter().map(|problem| problem.field).collect();
                assert_eq!(fields, [format!("metadata.annotations[{key}]")], "{value:?}");
            }
        }
    }
}
