//! What the caller may choose about a decision.

use std::fmt;

use outrigger_model::Price;

/// What the caller may choose about a decision. The defaults are those that the functions run with.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How much dearer than its cheapest type a node's further types may be, in percent. EC2 picks spot pools by depth
    /// as well as by price, so this bounds what a node may really cost. Default 50.
    pub price_margin_percent: u64,
    /// How many types a spot node offers at least, whatever the margin, where the pool allows it. Default 15, below
    /// which Karpenter calls a spot node inflexible.
    pub spot_types_min: usize,
    /// What each node costs per hour beside its instance; the class's root volume when absent.
    pub node_price: Option<Price>,
    /// Answers whether the time for the decision is over. The plan then holds what was decided so far, and the pods
    /// that were not reached are reported as left out. The caller owns the clock; by default it never is.
    pub time_is_up: &'a dyn Fn() -> bool,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { price_margin_percent: 50, spot_types_min: 15, node_price: None, time_is_up: &never }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("price_margin_percent", &self.price_margin_percent)
            .field("spot_types_min", &self.spot_types_min)
            .field("node_price", &self.node_price)
            .finish_non_exhaustive()
    }
}

const fn never() -> bool {
    false
}
