//! What a mutation does to some decisions, in figures.

use serde::{Deserialize, Serialize};

/// What one decision comes to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    /// Dollars per hour, with what nodes cost beside their instances and what evictions count.
    pub(super) dollars: f64,
    /// The same if EC2 chooses among what each node offers.
    pub(super) flexible_dollars: f64,
    pub(super) unplaced: u32,
    /// What the referee objects to.
    pub(super) violations: u32,
    /// Of all that was decided.
    digest: String,
    /// Of one processor.
    pub(super) seconds: f64,
}

impl Figures {
    /// The same decision once more: the shorter time counts.
    pub(super) fn keep_faster(&mut self, again: &Self) {
        self.seconds = self.seconds.min(again.seconds);
    }
}

/// What a mutation does to all decisions; shares are of the figures with nothing missing.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Effect {
    /// How much dearer the decisions become that place as many pods, on average.
    pub(super) cost_mean: f64,
    /// The same of the decision that becomes dearest, and which that is.
    pub(super) cost_worst: f64,
    pub(super) worst: String,
    /// How much dearer they become on average if EC2 chooses.
    pub(super) flexible_mean: f64,
    /// How many more pods have no node.
    pub(super) unplaced: i64,
    /// How many more objections the referee has.
    pub(super) violations: i64,
    /// How much longer a decision takes: the geometric mean.
    pub(super) time: f64,
    /// How many decisions differ.
    pub(super) changed: usize,
}

impl Effect {
    /// From each decision's name and its figures with and without what the mutation takes away.
    pub(super) fn new(rows: &[(String, Figures, Figures)]) -> Self {
        let alike = || rows.iter().filter(|(_, before, after)| before.unplaced == after.unplaced);
        let costs: Vec<(f64, &str)> = alike()
            .filter(|(_, before, _)| before.dollars > 0.0)
            .map(|(name, before, after)| (after.dollars / before.dollars - 1.0, name.as_str()))
            .collect();
        let flexible: Vec<f64> = alike()
            .filter(|(_, before, _)| before.flexible_dollars > 0.0)
            .map(|(_, before, after)| after.flexible_dollars / before.flexible_dollars - 1.0)
            .collect();
        let worst = costs.iter().copied().max_by(|(a, _), (b, _)| a.total_cmp(b)).unwrap_or((0.0, ""));
        let sum = |of: fn(&Figures) -> u32| -> i64 {
            rows.iter().map(|(_, before, after)| i64::from(of(after)) - i64::from(of(before))).sum()
        };
        let times: Vec<f64> =
            rows.iter().map(|(_, before, after)| (after.seconds / before.seconds).ln()).collect();
        Self {
            cost_mean: mean(&costs.iter().map(|(cost, _)| *cost).collect::<Vec<_>>()),
            cost_worst: worst.0,
            worst: worst.1.to_owned(),
            flexible_mean: mean(&flexible),
            unplaced: sum(|figures| figures.unplaced),
            violations: sum(|figures| figures.violations),
            time: mean(&times).exp() - 1.0,
            changed: rows.iter().filter(|(_, before, after)| before.digest != after.digest).count(),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}
