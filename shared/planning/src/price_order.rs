//! The machines of a template in order of their price, so that the cheapest which carry some pods are found quickly.
//!
//! For some amounts of each resource a set of bits says which machines have at least that much room. Sets that are
//! intersected word by word leave few machines to be looked at, however many the catalogue has.

use outrigger_model::CapacityType;

use crate::amounts;
use crate::columns::{WAYS, capacity_of};

/// How many amounts of a resource have a set of their own; what lies between two is looked at machine by machine.
const STEPS_MAX: usize = 64;

/// The machines that have a price in some zones, cheapest first, between equals in order of name.
#[derive(Debug)]
pub(crate) struct PriceOrder {
    /// The zones.
    pub(crate) zones: u64,
    /// Nano-dollars per hour and column.
    entries: Vec<(u64, usize)>,
    /// What each entry leaves to pods, row by row.
    rooms: Vec<i64>,
    width: usize,
    /// The entries bought in each way.
    ways: [Vec<u64>; WAYS],
    /// For each resource, amounts in ascending order with the entries that have at least as much room.
    steps: Vec<Vec<(i64, Vec<u64>)>>,
}

impl PriceOrder {
    /// Puts columns in order; `room` gives what each leaves to pods, `width` numbers of it.
    pub(crate) fn new<'r>(
        zones: u64,
        mut entries: Vec<(u64, usize)>,
        width: usize,
        room: impl Fn(usize) -> &'r [i64],
    ) -> Self {
        entries.sort_unstable();
        let words = entries.len().div_ceil(64);
        let mut ways = std::array::from_fn(|_| vec![0; words]);
        let mut rooms = Vec::with_capacity(entries.len() * width);
        for (place, (_, column)) in entries.iter().enumerate() {
            set(&mut ways[capacity_of(*column) as usize], place);
            rooms.extend_from_slice(room(*column));
        }
        let steps = (0..width).map(|dimension| steps(&rooms, width, dimension, words)).collect();
        Self { zones, entries, rooms, width, ways, steps }
    }

    /// The entries bought in one way that have room for what is packed, cheapest first.
    pub(crate) fn carriers<'o>(
        &'o self,
        way: CapacityType,
        packed: &'o [i64],
    ) -> impl Iterator<Item = (u64, usize)> + 'o {
        let mut sets: Vec<&[u64]> = Vec::with_capacity(self.width + 1);
        sets.push(&self.ways[way as usize]);
        for (steps, amount) in self.steps.iter().zip(packed) {
            // The largest step that is no more than what is asked keeps all that have enough.
            let below = steps.partition_point(|(least, _)| least <= amount);
            if let Some((_, holders)) = below.checked_sub(1).and_then(|step| steps.get(step)) {
                sets.push(holders);
            }
        }
        let word = move |word: usize| sets.iter().fold(u64::MAX, |bits, set| bits & set[word]);
        (0..self.entries.len().div_ceil(64))
            .flat_map(move |index| crate::templates::bits(word(index)).map(move |bit| index * 64 + bit))
            .filter(|place| amounts::fits(packed, self.room(*place)))
            .map(|place| self.entries[place])
    }

    /// All entries, cheapest first.
    pub(crate) fn entries(&self) -> &[(u64, usize)] {
        &self.entries
    }

    fn room(&self, place: usize) -> &[i64] {
        &self.rooms[place * self.width..(place + 1) * self.width]
    }
}

/// Some amounts of one resource, from the least that any machine has upwards, with those that have at least as much.
fn steps(rooms: &[i64], width: usize, dimension: usize, words: usize) -> Vec<(i64, Vec<u64>)> {
    let rooms = || rooms.iter().skip(dimension).step_by(width).copied();
    let mut amounts: Vec<i64> = rooms().collect();
    amounts.sort_unstable();
    amounts.dedup();
    let stride = amounts.len().div_ceil(STEPS_MAX).max(1);
    let mut steps: Vec<(i64, Vec<u64>)> =
        amounts.into_iter().step_by(stride).map(|amount| (amount, vec![0; words])).collect();
    for (place, room) in rooms().enumerate() {
        let above = steps.partition_point(|(least, _)| *least <= room);
        if let Some((_, holders)) = above.checked_sub(1).and_then(|step| steps.get_mut(step)) {
            set(holders, place);
        }
    }
    for step in (1..steps.len()).rev() {
        let (lower, upper) = steps.split_at_mut(step);
        if let (Some((_, lower)), Some((_, upper))) = (lower.last_mut(), upper.first()) {
            lower.iter_mut().zip(upper).for_each(|(lower, upper)| *lower |= upper);
        }
    }
    steps
}

fn set(words: &mut [u64], place: usize) {
    if let Some(word) = words.get_mut(place / 64) {
        *word |= 1 << (place % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::column;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_carriers_are_those_that_fit_in_order_of_price(
            machines in prop::collection::vec((0..50_u64, prop::array::uniform3(-5..300_i64)), 1..200),
            packed in prop::array::uniform3(0..300_i64),
        ) {
            let entries = machines.iter().enumerate().map(|(index, (price, _))| {
                (*price, column(index, CapacityType::ALL[index % 2]))
            });
            let order = PriceOrder::new(1, entries.collect(), 3, |column| &machines[crate::columns::type_of(column)].1);
            for way in CapacityType::ALL {
                let found: Vec<_> = order.carriers(way, &packed).collect();
                let fits = |(_, column): &(u64, usize)| {
                    capacity_of(*column) == way
                        && amounts::fits(&packed, &machines[crate::columns::type_of(*column)].1)
                };
                let wanted: Vec<_> = order.entries().iter().copied().filter(fits).collect();
                prop_assert_eq!(found, wanted);
            }
        }
    }
}
