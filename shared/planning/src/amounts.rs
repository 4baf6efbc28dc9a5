//! Amounts of resources as short rows of integers, so that the inner loops compare numbers and not maps.
//!
//! CPU counts in thousandths, everything else in whole units. Requests round up and room rounds down, so what fits here
//! fits exactly.

use std::collections::BTreeSet;

use outrigger_model::resources::{CPU, MEMORY, PODS};
use outrigger_model::{Quantity, Resources};

/// The resources that matter to one decision: cpu, memory, pods, and what else its pods ask for.
#[derive(Debug)]
pub(crate) struct Dimensions {
    names: Vec<String>,
}

impl Dimensions {
    /// Position of CPU in every row.
    pub(crate) const CPU: usize = 0;
    /// Position of memory in every row.
    pub(crate) const MEMORY: usize = 1;

    /// The dimensions of some requests.
    pub(crate) fn of<'a>(requests: impl Iterator<Item = &'a Resources>) -> Self {
        let common = [CPU, MEMORY, PODS];
        let others: BTreeSet<&str> = requests
            .flat_map(Resources::iter)
            .map(|(name, _)| name)
            .filter(|n| !common.contains(n))
            .collect();
        Self { names: common.into_iter().chain(others).map(str::to_owned).collect() }
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.names.len()
    }

    /// Their names, in the order of every row.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// A request as a row, rounded up. Less than nothing counts as nothing.
    pub(crate) fn request(&self, resources: &Resources) -> Vec<i64> {
        self.names.iter().map(|name| rounded_up(name, resources.get(name)).max(0)).collect()
    }

    /// What there is as a row, rounded down.
    pub(crate) fn room(&self, resources: &Resources) -> Vec<i64> {
        self.names.iter().map(|name| -rounded_up(name, Quantity::ZERO - resources.get(name))).collect()
    }
}

fn rounded_up(name: &str, quantity: Quantity) -> i64 {
    // The smallest value has no positive counterpart, and nothing real is as large as either.
    (if name == CPU { quantity.milli_value() } else { quantity.value() }).max(-i64::MAX)
}

/// Whether a request fits. Where less than nothing is free, nothing fits, as Karpenter has it.
pub(crate) fn fits(request: &[i64], free: &[i64]) -> bool {
    request.iter().zip(free).all(|(wanted, free)| wanted <= free)
}

/// How many times a request fits, at most `wanted`.
pub(crate) fn copies(request: &[i64], free: &[i64], wanted: u32) -> u32 {
    let mut times = i64::from(wanted);
    for (amount, free) in request.iter().zip(free) {
        if *free < 0 {
            return 0;
        }
        if *amount > 0 {
            times = times.min(free / amount);
        }
    }
    u32::try_from(times).unwrap_or(0)
}

/// Takes a request out of what is free, `times` over.
pub(crate) fn take(free: &mut [i64], request: &[i64], times: u32) {
    for (free, amount) in free.iter_mut().zip(request) {
        *free = free.saturating_sub(amount.saturating_mul(i64::from(times)));
    }
}

/// Adds a request to a sum, `times` over.
pub(crate) fn add(sum: &mut [i64], request: &[i64], times: u32) {
    for (sum, amount) in sum.iter_mut().zip(request) {
        *sum = sum.saturating_add(amount.saturating_mul(i64::from(times)));
    }
}

/// What a row is worth at a price per unit of each dimension.
pub(crate) fn worth(amounts: &[i64], prices: &[f64]) -> f64 {
    amounts.iter().zip(prices).map(|(amount, price)| *amount as f64 * price).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_round_up_and_room_rounds_down() {
        let odd = Resources::new().with(CPU, "1500u".parse().unwrap()).with(MEMORY, "1500m".parse().unwrap());
        let dimensions = Dimensions::of(std::iter::once(&odd));
        assert_eq!(dimensions.request(&odd), [2, 2, 0]);
        assert_eq!(dimensions.room(&odd), [1, 1, 0]);
    }

    #[test]
    fn copies_is_how_often_it_fits() {
        assert_eq!(copies(&[500, 0, 1], &[1_700, 0, 9], 10), 3);
        assert_eq!(copies(&[500, 0, 1], &[1_700, 0, 2], 10), 2);
        assert_eq!(copies(&[500, 0, 1], &[1_700, -1, 9], 10), 0);
        assert_eq!(copies(&[0, 0, 0], &[1, 1, 1], 10), 10);
    }
}
