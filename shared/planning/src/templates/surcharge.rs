//! Prices that count what is scarce: where a pool's limit binds, a machine costs more the more it takes of it.

use super::{Template, UNAVAILABLE};
use crate::columns::type_of;
use crate::limits::added_by;

impl Template<'_> {
    /// Adds to every price what the machine takes of a limited resource, at so many times the least that it costs.
    pub(crate) fn surcharge(&mut self, resource: &str, times: u64) {
        let amount = |kind| u128::try_from(added_by(kind, resource).nanos()).unwrap_or(0);
        let amounts: Vec<u128> = self.types.iter().map(amount).collect();
        let rates = self.usable.iter().filter_map(|column| {
            let price = self.cheapest(column, self.allowed_zones)?.saturating_add(self.node_price);
            let amount = amounts[type_of(column)];
            (amount > 0).then_some((u128::from(price), amount))
        });
        let Some((price, amount)) =
            rates.min_by(|(p, a), (q, b)| p.saturating_mul(*b).cmp(&q.saturating_mul(*a)))
        else {
            return;
        };
        let zones = self.zones.len();
        for column in self.usable.iter() {
            let more = amounts[type_of(column)].saturating_mul(price).saturating_mul(times.into()) / amount;
            let more = u64::try_from(more).unwrap_or(u64::MAX);
            for known in &mut self.prices[column * zones..(column + 1) * zones] {
                if *known != UNAVAILABLE {
                    *known = known.saturating_add(more).min(UNAVAILABLE - 1);
                }
            }
        }
        self.by_price.borrow_mut().clear();
    }
}
