//! What the caller may choose about a decision.

use std::fmt;

use outrigger_model::Price;

/// What the caller may choose about a decision. The defaults are those that the functions run with.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// How much dearer than its cheapest type a node's further types may be, in percent; 50 by
    /// default. EC2 picks spot pools by depth as well as by price, so this bounds what a node may
    /// really cost.
    pub price_margin_percent: u64,
    /// How many types a spot node offers at least, whatever the margin, where the pool allows it.
    /// Default 15, below which Karpenter calls a spot node inflexible.
    pub spot_types_min: usize,
    /// What each node costs per hour beside its instance; the class's root volume when absent.
    pub node_price: Option<Price>,
    /// What becomes of soft rules (Karpenter's `PREFERENCE_POLICY`). Default: respected.
    pub preferences: Preferences,
    /// What becomes of pools' `minValues` that cannot be kept (Karpenter's `MIN_VALUES_POLICY`).
    /// Default: strict.
    pub min_values: MinValuesPolicy,
    /// How many processors a node is bought larger at most for pods that may come next, where the
    /// demand of its pool grows; a pool's annotation `outrigger.dev/headroom` goes before it.
    /// Default 16.
    pub headroom: u32,
    /// Answers whether the time for the decision is over. The plan then holds what was decided so
    /// far, and the pods that were not reached are reported as left out. The caller owns the clock;
    /// by default it never is.
    pub time_is_up: &'a dyn Fn() -> bool,
}

/// What becomes of preferences: preferred affinities and spreads with `ScheduleAnyway`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preferences {
    /// They count as hard rules first, and are given up one by one where they leave no place.
    #[default]
    Respect,
    /// They are not looked at.
    Ignore,
}

/// What becomes of `minValues` that cannot be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MinValuesPolicy {
    /// The node is not opened.
    #[default]
    Strict,
    /// The node is opened with as many values as there are, and its claim says so.
    BestEffort,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            price_margin_percent: 50,
            spot_types_min: 15,
            node_price: None,
            preferences: Preferences::default(),
            min_values: MinValuesPolicy::default(),
            headroom: 16,
            time_is_up: &never,
        }
    }
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("price_margin_percent", &self.price_margin_percent)
            .field("spot_types_min", &self.spot_types_min)
            .field("node_price", &self.node_price)
            .field("preferences", &self.preferences)
            .field("min_values", &self.min_values)
            .field("headroom", &self.headroom)
            .finish_non_exhaustive()
    }
}

const fn never() -> bool {
    false
}
