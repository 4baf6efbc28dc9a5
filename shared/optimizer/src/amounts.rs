//! Amounts of resources as short rows of integers, so that the inner loops compare numbers and not
//! maps.
//!
//! CPU counts in thousandths, everything else in whole units. Requests round up and room rounds
//! down, so what fits here fits exactly.

use std::collections::BTreeSet;

use outrigger_model::resources::{CPU, MEMORY, PODS};
use outrigger_model::{Quantity, Resources};

use crate::ids::GroupId;

/// The resources that matter to one decision: cpu, memory, pods, and what else its pods ask for.
/// After them come the attachments of volumes where pods have any, and the slots: a rule that lets
/// only so many pods of a kind onto each node makes room for them scarce, and scarce room has a
/// price.
#[derive(Debug)]
pub struct Dimensions {
    names: Vec<String>,
    attachments: bool,
    slots: Vec<Slot>,
}

/// Room for pods of which a rule allows only so many on each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The group that the rule counts.
    pub(crate) group: GroupId,
    /// How many fit on a node.
    pub(crate) most: u32,
}

impl Dimensions {
    /// Position of CPU in every row.
    pub(crate) const CPU: usize = 0;
    /// Position of memory in every row.
    pub(crate) const MEMORY: usize = 1;

    /// The dimensions of some requests.
    pub(crate) fn from_requests<'a>(requests: impl Iterator<Item = &'a Resources>) -> Self {
        let common = [CPU, MEMORY, PODS];
        let others: BTreeSet<&str> = requests
            .flat_map(Resources::iter)
            .map(|(name, _)| name)
            .filter(|n| !common.contains(n))
            .collect();
        let names = common.into_iter().chain(others).map(str::to_owned).collect();
        Self { names, attachments: false, slots: Vec::new() }
    }

    /// The same, with attachments of volumes and with slots.
    #[must_use]
    pub(crate) fn with(mut self, attachments: bool, slots: Vec<Slot>) -> Self {
        (self.attachments, self.slots) = (attachments, slots);
        self
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> usize {
        self.names.len() + self.attachments as usize + self.slots.len()
    }

    /// Where every row has its attachments, while any pod takes some.
    pub(crate) fn attachments(&self) -> Option<usize> {
        self.attachments.then_some(self.names.len())
    }

    /// The names of the resources, in the order of every row.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// A request as a row, rounded up. Less than nothing counts as nothing.
    pub(crate) fn request(&self, resources: &Resources) -> Vec<i64> {
        let mut row: Vec<i64> =
            self.names.iter().map(|name| rounded_up(name, resources.get(name)).max(0)).collect();
        row.resize(self.count(), 0);
        row
    }

    /// Adds what a pod takes beside resources: so many attachments, and a slot for each group whose
    /// rule keeps the pod apart from its like.
    pub(crate) fn add_to_request(
        &self,
        row: &mut [i64],
        attachments: u32,
        keeps_apart: impl Fn(GroupId) -> bool,
    ) {
        let mut position = self.names.len();
        if self.attachments {
            row[position] = i64::from(attachments);
            position += 1;
        }
        for (slot, amount) in self.slots.iter().zip(&mut row[position..]) {
            *amount = i64::from(keeps_apart(slot.group));
        }
    }

    /// What a new machine has as a row, rounded down: resources, and so many attachments.
    pub(crate) fn room(&self, resources: &Resources, attachments: u32) -> Vec<i64> {
        let mut row = self.resources(resources);
        row.extend(self.attachments.then_some(i64::from(attachments)));
        row.extend(self.slots.iter().map(|slot| i64::from(slot.most)));
        row
    }

    /// What an existing machine has. Its attachments and rules are looked at one by one, so there
    /// is no end of them here.
    pub(crate) fn room_of_existing(&self, resources: &Resources) -> Vec<i64> {
        let mut row = self.resources(resources);
        self.lift_extras(&mut row);
        row
    }

    /// Takes the bounds off attachments and slots.
    pub(crate) fn lift_extras(&self, row: &mut Vec<i64>) {
        row.truncate(self.names.len());
        row.resize(self.count(), i64::MAX / 2);
    }

    fn resources(&self, resources: &Resources) -> Vec<i64> {
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

/// How many times a request fits into what is free, at most `wanted`.
pub(crate) fn copies(request: &[i64], free: impl IntoIterator<Item = i64>, wanted: u32) -> u32 {
    let mut times = i64::from(wanted);
    for (amount, free) in request.iter().zip(free) {
        if free < 0 {
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
        let dimensions = Dimensions::from_requests(std::iter::once(&odd));
        assert_eq!(dimensions.request(&odd), [2, 2, 0]);
        assert_eq!(dimensions.room(&odd, 24), [1, 1, 0]);
    }

    #[test]
    fn copies_is_how_often_it_fits() {
        assert_eq!(copies(&[500, 0, 1], [1_700, 0, 9], 10), 3);
        assert_eq!(copies(&[500, 0, 1], [1_700, 0, 2], 10), 2);
        assert_eq!(copies(&[500, 0, 1], [1_700, -1, 9], 10), 0);
        assert_eq!(copies(&[0, 0, 0], [1, 1, 1], 10), 10);
    }
}
