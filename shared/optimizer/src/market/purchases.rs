//! Sets of purchases: a purchase is one instance type of one capacity type.

use crate::ids::{PurchaseId, TypeId};

use outrigger_model::CapacityType;

/// How many capacity types there are.
pub(crate) const CAPACITY_TYPES: usize = CapacityType::ALL.len();

/// A set of purchases of one template, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchases {
    words: Vec<u64>,
}

/// The purchase of an instance type as a capacity type.
pub(crate) fn purchase(instance_type: TypeId, capacity_type: CapacityType) -> PurchaseId {
    PurchaseId::from(usize::from(instance_type) * CAPACITY_TYPES + capacity_type as usize)
}

/// The capacity type of a purchase.
pub fn capacity_of(purchase: PurchaseId) -> CapacityType {
    CapacityType::ALL[usize::from(purchase) % CAPACITY_TYPES]
}

/// The instance type of a purchase.
pub fn type_of(purchase: PurchaseId) -> TypeId {
    TypeId::from(usize::from(purchase) / CAPACITY_TYPES)
}

impl Purchases {
    /// No purchase out of `count`.
    pub fn none(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)] }
    }

    /// The purchases below `count` that pass a test.
    pub fn passing(count: usize, test: impl Fn(PurchaseId) -> bool) -> Self {
        let mut set = Self::none(count);
        let purchases = (0..count).map(PurchaseId::from);
        purchases.filter(|purchase| test(*purchase)).for_each(|purchase| set.insert(purchase));
        set
    }

    /// These purchases out of `count`.
    pub(crate) fn from_list(count: usize, purchases: &[PurchaseId]) -> Self {
        let mut set = Self::none(count);
        for purchase in purchases {
            set.insert(*purchase);
        }
        set
    }

    pub(crate) fn insert(&mut self, purchase: PurchaseId) {
        let position = usize::from(purchase);
        if let Some(word) = self.words.get_mut(position / 64) {
            *word |= 1 << (position % 64);
        }
    }

    /// Whether one is in it.
    pub fn contains(&self, purchase: PurchaseId) -> bool {
        let position = usize::from(purchase);
        self.words.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// Keeps those that are in the other, too.
    pub fn intersect(&mut self, other: &Self) {
        self.intersect_words(&other.words);
    }

    /// Keeps those whose bits are set.
    pub(crate) fn intersect_words(&mut self, words: &[u64]) {
        self.words.iter_mut().zip(words).for_each(|(word, other)| *word &= other);
    }

    /// Keeps those that pass a test.
    pub fn retain(&mut self, test: impl Fn(PurchaseId) -> bool) {
        let out: Vec<PurchaseId> = self.iter().filter(|purchase| !test(*purchase)).collect();
        for position in out.into_iter().map(usize::from) {
            self.words[position / 64] &= !(1 << (position % 64));
        }
    }

    /// Adds those of the other.
    pub fn unite(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(word, other)| word & !other == 0)
    }

    /// Whether one is in both.
    pub fn intersects(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(word, other)| word & other != 0)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// How many instance types are in the set, whatever their capacity types.
    pub fn types(&self) -> usize {
        let mut types: Vec<TypeId> = self.iter().map(type_of).collect();
        types.dedup();
        types.len()
    }

    /// Those in it, in order.
    pub fn iter(&self) -> impl Iterator<Item = PurchaseId> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(PurchaseId::from(index * 64 + bit))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_what_was_put_in() {
        let some = [3, 63, 64, 199].map(PurchaseId::from);
        let set = Purchases::passing(200, |purchase| some.contains(&purchase));
        assert_eq!(set.iter().collect::<Vec<_>>(), some);
        assert_eq!(set.types(), 3);
        assert!([64, 66, 1_000].map(|position| set.contains(position.into())) == [true, false, false]);
    }
}
