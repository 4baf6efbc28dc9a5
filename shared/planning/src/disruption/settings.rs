//! The numbers that decide whether a disruption is worth it.

use std::time::Duration;

use jiff::SignedDuration;
use outrigger_model::{NodePool, Price};

use super::balance::Balance;

/// What may be chosen about disruption. The least saving is none of Karpenter's, which disrupts for any saving at all:
/// without one, nodes are exchanged for cents whenever a spot price moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DisruptionSettings {
    /// How much a command must save at least, in dollars per hour. Default $0.02/h.
    pub least_saving: Price,
    /// How much of what the ended nodes cost a command must save at least, in percent. Default 3.
    pub least_saving_percent: u64,
    /// What one eviction counts, in dollars. Default $0.006.
    pub eviction_price: f64,
    /// Within this time a command must save what its evictions count. Default 1 h.
    pub pay_back_time: Duration,
    /// How long a pod should run before it is moved: one that has run for a third of that counts as three evictions, up
    /// to [`DisruptionSettings::MOST_EVICTIONS_A_POD`]. Where pods land elsewhere than planned, the same ones would be
    /// moved again and again. Default 1 h.
    pub pod_rest: Duration,
    /// How old a node must be before it is disrupted by choice, counted from the creation of its Node. Default 5 min.
    pub least_node_age: Duration,
    /// How many instance types, all cheaper, a spot node needs to replace a single spot node (Karpenter's
    /// `MinInstanceTypesForSpotToSpotConsolidation`): with fewer, EC2 would soon take the new one back. Default 15.
    pub spot_to_spot_types: usize,
    /// What else a command must save in a pool of the policy Balanced, which follows from its nodes.
    pub balance: Option<Balance>,
}

impl Default for DisruptionSettings {
    fn default() -> Self {
        Self {
            least_saving: Price::from_nanos(20_000_000),
            least_saving_percent: 3,
            eviction_price: 0.006,
            pay_back_time: Duration::from_hours(1),
            pod_rest: Duration::from_hours(1),
            least_node_age: Duration::from_mins(5),
            spot_to_spot_types: 15,
            balance: None,
        }
    }
}

/// What a command evicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evictions {
    /// How many pods.
    pub pods: usize,
    /// How many evictions they count as, by how long they have run.
    pub counted: usize,
}

impl DisruptionSettings {
    /// As how many evictions a pod counts at most that has only just started.
    pub const MOST_EVICTIONS_A_POD: u64 = 20;

    /// As how many evictions a pod counts that has run for so long.
    pub fn counted(&self, has_run: SignedDuration) -> usize {
        let rest = self.pod_rest.as_secs();
        let has_run = u64::try_from(has_run.as_secs()).unwrap_or(0).max(1);
        usize::try_from(rest.div_ceil(has_run).clamp(1, Self::MOST_EVICTIONS_A_POD)).unwrap_or(1)
    }

    /// The same with what the annotations of a pool say instead.
    #[must_use]
    pub fn for_pool(&self, pool: &NodePool) -> Self {
        let wishes = pool.disruption_wishes();
        Self {
            least_saving: wishes.least_saving.unwrap_or(self.least_saving),
            least_saving_percent: wishes.least_saving_percent.unwrap_or(self.least_saving_percent),
            eviction_price: wishes.eviction_price.unwrap_or(self.eviction_price),
            pod_rest: wishes.pod_rest.unwrap_or(self.pod_rest),
            least_node_age: wishes.least_node_age.unwrap_or(self.least_node_age),
            ..*self
        }
    }

    /// What a command must save at least, in dollars per hour, that ends nodes of this cost with such evictions: nothing
    /// where nobody is on them (Karpenter's emptiness).
    pub fn demanded_saving(&self, ended: Price, evictions: Evictions) -> Price {
        if evictions.pods == 0 {
            return Price::ZERO;
        }
        let of_cost = ended.percent(self.least_saving_percent);
        let balanced = self.balance.map_or(Price::ZERO, |balance| balance.demanded(ended, evictions.pods));
        self.least_saving.max(of_cost).max(self.evictions_per_hour(evictions.counted)).max(balanced)
    }

    /// What evictions count, in dollars per hour of the time within which they must be paid back.
    pub(crate) fn evictions_per_hour(&self, evictions: usize) -> Price {
        let dollars = evictions as f64 * self.eviction_price;
        if dollars <= 0.0 {
            return Price::ZERO;
        }
        let hours = self.pay_back_time.as_secs_f64() / 3_600.0;
        Price::from_dollars(dollars / hours).unwrap_or(Price::from_nanos(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::{NodeClassRef, labels};

    use super::*;

    fn price(dollars: f64) -> Price {
        Price::from_dollars(dollars).unwrap()
    }

    /// Evictions of pods that have run for long.
    fn all(pods: usize) -> Evictions {
        Evictions { pods, counted: pods }
    }

    #[test]
    fn a_pod_that_was_moved_lately_counts_more() {
        let settings = DisruptionSettings::default();
        for (minutes, expected) in
            [(-5, 20), (0, 20), (3, 20), (10, 6), (19, 4), (20, 3), (60, 1), (9_999, 1)]
        {
            assert_eq!(settings.counted(SignedDuration::from_mins(minutes)), expected, "{minutes}");
        }
        let none = DisruptionSettings { pod_rest: Duration::ZERO, ..settings };
        assert_eq!(none.counted(SignedDuration::ZERO), 1, "as often as it saves");
    }

    #[test]
    fn the_dearest_demand_counts() {
        let settings = DisruptionSettings::default();
        // What the ended nodes cost, the evictions, and what must be saved.
        let table = [
            (0.1, 0, 0.0),
            (1.0, 0, 0.0),
            (0.1, 1, 0.02),
            (0.1, 3, 0.02),
            (0.1, 4, 0.024),
            (1.0, 5, 0.03),
            (1.0, 100, 0.6),
        ];
        for (ended, evictions, expected) in table {
            let found = settings.demanded_saving(price(ended), all(evictions));
            assert_eq!(found, price(expected), "{ended} {evictions}");
        }
        let patient = DisruptionSettings { pay_back_time: Duration::from_hours(4), ..settings };
        assert_eq!(patient.demanded_saving(price(1.0), all(100)), price(0.15));
        let at_once = DisruptionSettings { pay_back_time: Duration::ZERO, ..settings };
        assert_eq!(at_once.demanded_saving(price(1.0), all(0)), Price::ZERO);
        assert!(at_once.demanded_saving(price(1.0), all(1)) > price(1e6), "nothing pays back at once");
    }

    #[test]
    fn a_pool_may_ask_for_other_numbers() {
        let mut pool = NodePool::bare("web", NodeClassRef::instance_group("nodes"));
        let settings = DisruptionSettings::default();
        assert_eq!(settings.for_pool(&pool), settings);
        let said = [
            (labels::LEAST_SAVING, "0.5"),
            (labels::LEAST_SAVING_PERCENT, "7"),
            (labels::EVICTION_PRICE, "0"),
            (labels::LEAST_NODE_AGE, "1h"),
            (labels::POD_REST, "0s"),
        ];
        pool.annotations.extend(said.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let expected = DisruptionSettings {
            least_saving: price(0.5),
            least_saving_percent: 7,
            eviction_price: 0.0,
            least_node_age: Duration::from_hours(1),
            pod_rest: Duration::ZERO,
            ..settings
        };
        assert_eq!(settings.for_pool(&pool), expected);
    }
}
