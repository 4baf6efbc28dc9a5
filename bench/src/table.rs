//! The table that `planner` prints: one row for each scenario and size, ours before Karpenter's.

use outrigger_bench::columns::{print, print_head};
use outrigger_bench::{Bound, Figures, Scenario};
use outrigger_model::Price;

const COLUMNS: [(&str, usize); 10] = [
    ("scenario", 11),
    ("pods", 7),
    ("pods/s", 16),
    ("times", 6),
    ("peak MiB", 11),
    ("nodes", 13),
    ("bound $/h", 10),
    ("cost $/h (x bound)", 33),
    ("flexible $/h (x bound)", 33),
    ("unplaced", 11),
];

/// What was measured of one scenario.
pub(crate) struct Row {
    pub(crate) scenario: Scenario,
    pub(crate) pods: usize,
    pub(crate) ours: Figures,
    pub(crate) karpenter: Option<Figures>,
    pub(crate) bound: Bound,
}

/// Prints rows as they come.
pub(crate) struct Table {
    node_price: Price,
}

impl Table {
    pub(crate) const fn new(node_price: Price) -> Self {
        Self { node_price }
    }

    /// Says what is compared, and prints the headings.
    pub(crate) fn head(&self, types: usize) {
        anstream::println!(
            "{types} instance types, {} for each node beside its instance; ours / Karpenter's; < where \
             Karpenter was cut short",
            self.node_price
        );
        print_head(&COLUMNS);
    }

    pub(crate) fn row(&self, row: &Row) {
        let Row { scenario, pods, ours, karpenter, bound } = row;
        let karpenter = karpenter.as_ref();
        let pair = |shown: &dyn Fn(&Figures) -> String| {
            let theirs = karpenter.map_or_else(|| "-".to_owned(), shown);
            format!("{} / {theirs}", shown(ours))
        };
        let cut = |figures: &Figures| if figures.complete { "" } else { "<" };
        let money = |dollars: f64| format!("{dollars:.2} ({:.3})", dollars / bound.cost_per_hour);
        let ratio = karpenter.map_or_else(
            || "-".to_owned(),
            |theirs| format!("{:.0}", ours.pods_per_second() / theirs.pods_per_second()),
        );
        let cells = [
            scenario.to_string(),
            pods.to_string(),
            pair(&|figures| format!("{}{:.0}", cut(figures), figures.pods_per_second())),
            ratio,
            pair(&|figures| (figures.peak_memory_bytes >> 20).to_string()),
            pair(&|figures| figures.nodes.to_string()),
            format!("{:.4}", bound.cost_per_hour),
            pair(&|figures| money(figures.total_cost(self.node_price))),
            pair(&|figures| money(figures.total_flexible_cost(self.node_price))),
            pair(&|figures| figures.unplaced.to_string()),
        ];
        print(&COLUMNS, &cells);
    }
}
