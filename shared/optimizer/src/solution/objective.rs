//! The Objective: what makes one solution better than another.

use super::Solution;

/// How good a solution is, the most important thing first; less is better.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Objective {
    /// Rules that do not hold in any order of binding.
    pub(crate) broken: usize,
    /// Pods without a place, of each priority from the highest down.
    pub(crate) unplaced: Vec<u32>,
    /// Rules that hold only if pods are bound in some order.
    pub(crate) ordered: usize,
    /// Heavier weights that the pods' pools come after.
    pub(crate) passed_over: u64,
    /// Preferences and terms that were given up: the relaxations before each pod's.
    pub(crate) conceded: u64,
    /// Types that spot nodes lack of the choice that they should have.
    pub(crate) lacking: u64,
    /// Nano-dollars per hour of all new nodes.
    pub(crate) cost: u64,
}

impl Solution<'_, '_> {
    /// How good it is.
    pub(crate) fn objective(&self) -> Objective {
        let (broken, ordered) = self.broken();
        let mut unplaced = vec![0; self.problem.priorities.len()];
        for (class, count) in self.unplaced.iter_enumerated().filter(|(_, count)| **count > 0) {
            let priority = self.problem.classes[class].spec.priority;
            if let Some(rank) = self.problem.priorities.iter().position(|other| *other == priority) {
                unplaced[rank] += count;
            }
        }
        Objective {
            broken,
            unplaced,
            ordered,
            passed_over: self.sums.passed_over,
            conceded: self.sums.conceded,
            lacking: self.sums.lacking,
            cost: self.sums.cost,
        }
    }
}

impl Objective {
    /// Whether every pod has a place and every rule holds.
    pub(crate) fn is_whole(&self) -> bool {
        self.broken == 0 && self.unplaced.iter().all(|count| *count == 0)
    }

    /// Whether it is no worse than another in all that comes before the price.
    pub(crate) fn holds_as(&self, other: &Self) -> bool {
        let placed = self.unplaced.iter().zip(&other.unplaced).all(|(count, other)| count <= other);
        placed
            && self.broken <= other.broken
            && self.ordered <= other.ordered
            && self.passed_over <= other.passed_over
            && self.conceded <= other.conceded
            && self.lacking <= other.lacking
    }

    /// Whether it is as good as another in all that comes before the price.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let head = |objective: &Self| {
            (
                objective.broken,
                objective.unplaced.clone(),
                objective.ordered,
                objective.passed_over,
                objective.conceded,
                objective.lacking,
            )
        };
        head(self) == head(other)
    }
}
