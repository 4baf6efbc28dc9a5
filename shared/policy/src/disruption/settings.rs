//! The numbers that decide whether a disruption is worth it.

use std::time::Duration;

use outrigger_model::{NodePool, Price};

use super::balance::Balance;

/// What one eviction counts, in dollars.
const EVICTION_DOLLARS: f64 = 0.006;
/// Within this time a command must save what patience asks for, or it is not looked for at all.
const PAY_BACK_HOURS: f64 = 4.0;
/// How old a node must be for each unit of patience before its pods are moved, and how old at most.
const AGE_OF_PATIENCE: Duration = Duration::from_mins(8);
const MOST_AGE: Duration = Duration::from_mins(30);

/// What may be chosen about disruption. Karpenter disrupts for any saving at all, and at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DisruptionSettings {
    /// How patient disruption is with nodes that pods are on: one is ended for money once ending it
    /// would have saved this many times what evicting its pods counts, as who rents skis buys them
    /// once the rent has come to their price. With none, any saving will do, at once. Default 4.
    pub patience: f64,
    /// For how long a drifted node may empty by itself before it is replaced. Default 24 h.
    pub drift_deadline: Duration,
    /// How many instance types, all cheaper, a spot node needs to replace a single spot node
    /// (Karpenter's `MinInstanceTypesForSpotToSpotConsolidation`): with fewer, EC2 would soon take
    /// the new one back. Default 15.
    pub spot_to_spot_types: usize,
    /// What a command must save in a pool of the policy Balanced, which follows from its nodes.
    pub balance: Option<Balance>,
}

impl Default for DisruptionSettings {
    fn default() -> Self {
        Self {
            patience: 4.0,
            drift_deadline: Duration::from_hours(24),
            spot_to_spot_types: 15,
            balance: None,
        }
    }
}

impl DisruptionSettings {
    /// The same with what the annotations of a pool say instead.
    #[must_use]
    pub fn for_pool(&self, pool: &NodePool) -> Self {
        let wishes = pool.disruption_wishes();
        Self {
            patience: wishes.patience.unwrap_or(self.patience),
            drift_deadline: wishes.drift_deadline.unwrap_or(self.drift_deadline),
            ..*self
        }
    }

    /// How old a node must be before its pods are moved, counted from the creation of its Node.
    pub fn least_node_age(&self) -> Duration {
        AGE_OF_PATIENCE.mul_f64(self.patience.clamp(0.0, 1_000.0)).min(MOST_AGE)
    }

    /// How many dollars a command must have had to save before it begins, for so many evictions.
    pub fn patience_with(&self, evictions: usize) -> f64 {
        self.patience * EVICTION_DOLLARS * evictions as f64
    }

    /// What a command must save at least, in dollars per hour, that ends nodes of this cost with so
    /// many evictions: nothing where nobody is on them (Karpenter's emptiness).
    pub fn demanded_saving(&self, ended: Price, evictions: usize) -> Price {
        if evictions == 0 {
            return Price::ZERO;
        }
        let balanced = self.balance.map_or(Price::ZERO, |balance| balance.demanded(ended, evictions));
        self.evictions_per_hour(evictions).max(balanced)
    }

    /// What evictions count, in dollars per hour of the time within which they must be paid back.
    /// It is more than nothing without patience too, so that among equal outcomes the one with the
    /// fewest evictions is taken.
    pub fn evictions_per_hour(&self, evictions: usize) -> Price {
        let dollars = self.patience_with(evictions) / PAY_BACK_HOURS;
        let price = Price::from_dollars(dollars).unwrap_or(Price::from_nanos(u64::MAX));
        price.max(Price::from_nanos(evictions as u64))
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::{NodeClassRef, labels};

    use super::*;

    fn price(dollars: f64) -> Price {
        Price::from_dollars(dollars).unwrap()
    }

    #[test]
    fn a_command_pays_its_evictions_back_within_hours() {
        let settings = DisruptionSettings::default();
        for (evictions, expected) in [(0, 0.0), (1, 0.006), (5, 0.03), (100, 0.6)] {
            assert_eq!(settings.demanded_saving(price(1.0), evictions), price(expected), "{evictions}");
        }
        let impatient = DisruptionSettings { patience: 0.0, ..settings };
        assert_eq!(impatient.demanded_saving(price(1.0), 100), Price::from_nanos(100));
        let patient = DisruptionSettings { patience: 20.0, ..settings };
        assert_eq!(patient.demanded_saving(price(1.0), 100), price(3.0));
    }

    #[test]
    fn who_has_no_patience_looks_at_young_nodes_too() {
        let age =
            |patience| DisruptionSettings { patience, ..DisruptionSettings::default() }.least_node_age();
        let minutes = [0.0, 1.0, 10.0, 20.0, 1e9].map(|patience| age(patience).as_secs() / 60);
        assert_eq!(minutes, [0, 8, 30, 30, 30]);
    }

    #[test]
    fn a_pool_may_ask_for_other_numbers() {
        let mut pool = NodePool::bare("web", NodeClassRef::instance_group("nodes"));
        let settings = DisruptionSettings::default();
        assert_eq!(settings.for_pool(&pool), settings);
        let said = [(labels::PATIENCE, "2.5"), (labels::DRIFT_DEADLINE, "90m")];
        pool.annotations.extend(said.map(|(key, value)| (key.to_owned(), value.to_owned())));
        let drift_deadline = Duration::from_mins(90);
        assert_eq!(
            settings.for_pool(&pool),
            DisruptionSettings { patience: 2.5, drift_deadline, ..settings }
        );
    }
}
