//! Sets of columns: a column is one instance type bought in one way.

use outrigger_model::CapacityType;

/// In how many ways a type can be bought.
pub(crate) const WAYS: usize = CapacityType::ALL.len();

/// A set of columns of one template, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnSet {
    words: Vec<u64>,
}

/// The column of an instance type, by its place in the class's list, bought in one way.
pub(crate) const fn column(instance_type: usize, capacity_type: CapacityType) -> usize {
    instance_type * WAYS + capacity_type as usize
}

/// How a column is bought.
pub(crate) const fn capacity_of(column: usize) -> CapacityType {
    CapacityType::ALL[column % WAYS]
}

/// The place of a column's instance type in the class's list.
pub(crate) const fn type_of(column: usize) -> usize {
    column / WAYS
}

impl ColumnSet {
    /// No column out of `count`.
    pub(crate) fn none(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)] }
    }

    /// The columns below `count` that pass a test.
    pub(crate) fn of(count: usize, test: impl Fn(usize) -> bool) -> Self {
        let mut set = Self::none(count);
        (0..count).filter(|column| test(*column)).for_each(|column| set.insert(column));
        set
    }

    /// These columns out of `count`.
    pub(crate) fn from_columns(count: usize, columns: &[usize]) -> Self {
        let mut set = Self::none(count);
        for column in columns {
            set.insert(*column);
        }
        set
    }

    pub(crate) fn insert(&mut self, column: usize) {
        if let Some(word) = self.words.get_mut(column / 64) {
            *word |= 1 << (column % 64);
        }
    }

    pub(crate) fn contains(&self, column: usize) -> bool {
        self.words.get(column / 64).is_some_and(|word| word >> (column % 64) & 1 == 1)
    }

    pub(crate) fn intersect(&mut self, other: &Self) {
        self.intersect_words(&other.words);
    }

    /// Keeps those whose bits are set.
    pub(crate) fn intersect_words(&mut self, words: &[u64]) {
        self.words.iter_mut().zip(words).for_each(|(word, other)| *word &= other);
    }

    /// Keeps those that pass a test.
    pub(crate) fn retain(&mut self, test: impl Fn(usize) -> bool) {
        let out: Vec<usize> = self.iter().filter(|column| !test(*column)).collect();
        for column in out {
            self.words[column / 64] &= !(1 << (column % 64));
        }
    }

    pub(crate) fn unite(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    pub(crate) fn is_subset(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(word, other)| word & !other == 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// How many instance types are in the set, however bought.
    pub(crate) fn types(&self) -> usize {
        let mut types: Vec<usize> = self.iter().map(type_of).collect();
        types.dedup();
        types.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
                rest &= rest - 1;
                Some(index * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_what_was_put_in() {
        let set = ColumnSet::of(200, |column| [3, 63, 64, 199].contains(&column));
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 63, 64, 199]);
        assert_eq!(set.types(), 3);
        assert!(set.contains(64) && !set.contains(66) && !set.contains(1_000));
    }
}
