//! The machines of a template in order of their price, so that the cheapest which carry some pods
//! are found quickly.
//!
//! For each amount of a resource that some machine has, a set of bits says which machines have at
//! least that much. Sets that are intersected word by word leave just the machines that carry the
//! pods, however many the catalogue has.

use std::collections::BTreeSet;

use outrigger_model::CapacityType;

use crate::ids::PurchaseId;
use crate::market::purchases::{CAPACITY_TYPES, capacity_of};

/// The machines that have a price in some zones, cheapest first.
#[derive(Debug)]
pub(crate) struct PriceOrder {
    /// The zones.
    pub(crate) zones: u64,
    /// Nano-dollars per hour and purchase.
    entries: Vec<(u64, PurchaseId)>,
    /// The entries of each capacity type.
    by_capacity_type: [Vec<u64>; CAPACITY_TYPES],
    /// Which entries have how much room.
    steps: Vec<Steps>,
}

/// The amounts of one resource that there are, in ascending order, each with the places that have
/// at least as much.
#[derive(Debug)]
pub(crate) struct Steps {
    steps: Vec<(i64, Vec<u64>)>,
}

impl PriceOrder {
    /// Takes purchases that are in order. `room` gives what each leaves to pods, `width` numbers of
    /// it.
    pub(crate) fn new<'r>(
        zones: u64,
        entries: Vec<(u64, PurchaseId)>,
        width: usize,
        room: impl Fn(PurchaseId) -> &'r [i64],
    ) -> Self {
        let words = entries.len().div_ceil(64);
        let mut by_capacity_type = std::array::from_fn(|_| vec![0; words]);
        let mut rooms = Vec::with_capacity(entries.len() * width);
        for (position, (_, purchase)) in entries.iter().enumerate() {
            set(&mut by_capacity_type[capacity_of(*purchase) as usize], position);
            rooms.extend_from_slice(room(*purchase));
        }
        Self { zones, entries, by_capacity_type, steps: Steps::of_rows(&rooms, width) }
    }

    /// The entries of one capacity type that have room for what is packed, cheapest first.
    pub(crate) fn carriers<'o>(
        &'o self,
        capacity_type: CapacityType,
        packed: &'o [i64],
    ) -> impl Iterator<Item = (u64, PurchaseId)> + 'o {
        let asked = self.steps.iter().zip(packed).map(|(steps, amount)| steps.at_least(*amount));
        let sets: Option<Vec<&[u64]>> =
            std::iter::once(Some(self.by_capacity_type[capacity_type as usize].as_slice()))
                .chain(asked)
                .collect();
        let words = if sets.is_some() { self.entries.len().div_ceil(64) } else { 0 };
        let sets = sets.unwrap_or_default();
        let word = move |word: usize| sets.iter().fold(u64::MAX, |bits, set| bits & set[word]);
        (0..words)
            .flat_map(move |index| {
                crate::market::templates::bits(word(index)).map(move |bit| index * 64 + bit)
            })
            .map(|position| self.entries[position])
    }

    /// All entries, cheapest first.
    pub(crate) fn entries(&self) -> &[(u64, PurchaseId)] {
        &self.entries
    }
}

impl Steps {
    /// The steps of each of the `width` numbers in some rows.
    pub(crate) fn of_rows(rows: &[i64], width: usize) -> Vec<Self> {
        (0..width)
            .map(|dimension| Self::from_amounts(rows.iter().skip(dimension).step_by(width).copied()))
            .collect()
    }

    fn from_amounts(amounts: impl ExactSizeIterator<Item = i64> + Clone) -> Self {
        let words = amounts.len().div_ceil(64);
        let distinct: BTreeSet<i64> = amounts.clone().collect();
        let mut steps: Vec<(i64, Vec<u64>)> =
            distinct.into_iter().map(|amount| (amount, vec![0; words])).collect();
        for (position, amount) in amounts.enumerate() {
            if let Ok(step) = steps.binary_search_by_key(&amount, |(step, _)| *step) {
                set(&mut steps[step].1, position);
            }
        }
        for step in (1..steps.len()).rev() {
            let (lower, upper) = steps.split_at_mut(step);
            if let (Some((_, lower)), Some((_, upper))) = (lower.last_mut(), upper.first()) {
                lower.iter_mut().zip(upper).for_each(|(lower, upper)| *lower |= upper);
            }
        }
        Self { steps }
    }

    /// The places that have at least so much, as bits; none when there are none.
    pub(crate) fn at_least(&self, amount: i64) -> Option<&[u64]> {
        let step = self.steps.partition_point(|(step, _)| *step < amount);
        self.steps.get(step).map(|(_, holders)| holders.as_slice())
    }
}

fn set(words: &mut [u64], position: usize) {
    if let Some(word) = words.get_mut(position / 64) {
        *word |= 1 << (position % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amounts;
    use crate::ids::TypeId;
    use crate::market::purchases::{purchase, type_of};
    use proptest::prelude::*;
    use typed_index_collections::TiVec;

    proptest! {
        #[test]
        fn the_carriers_are_those_that_fit_in_order_of_price(
            machines in prop::collection::vec((0..50_u64, prop::array::uniform3(-5..300_i64)), 1..200),
            packed in prop::array::uniform3(0..300_i64),
        ) {
            let machines: TiVec<TypeId, _> = machines.into();
            let entries = machines.iter_enumerated().map(|(id, (price, _))| {
                (*price, purchase(id, CapacityType::ALL[usize::from(id) % 2]))
            });
            let mut entries: Vec<_> = entries.collect();
            entries.sort_unstable();
            let order = PriceOrder::new(1, entries, 3, |purchase| &machines[type_of(purchase)].1);
            for capacity_type in CapacityType::ALL {
                let carriers: Vec<_> = order.carriers(capacity_type, &packed).collect();
                let fits = |(_, purchase): &(u64, PurchaseId)| {
                    capacity_of(*purchase) == capacity_type
                        && amounts::fits(&packed, &machines[type_of(*purchase)].1)
                };
                let wanted: Vec<_> = order.entries().iter().copied().filter(fits).collect();
                prop_assert_eq!(carriers, wanted);
            }
        }
    }
}
