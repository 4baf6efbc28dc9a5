//! Domains: for a topology key, which of its values each place has or may come to have.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::place::Place;

/// The values of one label over all places.
pub(super) struct Column<'p> {
    /// The values; a domain is its place in this list.
    pub(super) names: Vec<&'p str>,
    /// Each set of values that some place may have.
    pub(super) sets: Vec<Domains>,
    set_of: Vec<usize>,
}

/// The values that a place may come to have.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Domains {
    pub(super) possible: Vec<usize>,
    /// Whether it may lack the label.
    pub(super) absent: bool,
}

impl Domains {
    /// The domain that it is in for certain.
    pub(super) fn only(&self) -> Option<usize> {
        if let ([domain], false) = (self.possible.as_slice(), self.absent) { Some(*domain) } else { None }
    }
}

impl<'p> Column<'p> {
    fn of(places: &'p [Place<'_>], key: &str) -> Self {
        let values: Vec<BTreeSet<Option<&str>>> = places.iter().map(|place| place.values(key)).collect();
        let all: BTreeSet<&str> = values.iter().flatten().copied().flatten().collect();
        let numbers: BTreeMap<&str, usize> = all.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let mut known: BTreeMap<Domains, usize> = BTreeMap::new();
        let mut column = Self { names: all.into_iter().collect(), sets: Vec::new(), set_of: Vec::new() };
        for values in &values {
            let possible = values.iter().flatten().filter_map(|value| numbers.get(value).copied()).collect();
            let domains = Domains { possible, absent: values.contains(&None) };
            let set = *known.entry(domains).or_insert_with_key(|domains| {
                column.sets.push(domains.clone());
                column.sets.len() - 1
            });
            column.set_of.push(set);
        }
        column
    }

    /// The domains of a place.
    pub(super) fn at(&self, place: usize) -> &Domains {
        &self.sets[self.set_of[place]]
    }

    /// Which of the sets a place's is.
    pub(super) fn set_of(&self, place: usize) -> usize {
        self.set_of[place]
    }
}

/// The columns of all labels that were asked for.
pub(super) struct Columns<'p, 'a> {
    places: &'p [Place<'a>],
    known: HashMap<String, Rc<Column<'p>>>,
}

impl<'p, 'a> Columns<'p, 'a> {
    pub(super) fn of(places: &'p [Place<'a>]) -> Self {
        Self { places, known: HashMap::new() }
    }

    pub(super) fn get(&mut self, key: &str) -> Rc<Column<'p>> {
        if let Some(column) = self.known.get(key) {
            return Rc::clone(column);
        }
        let column = Rc::new(Column::of(self.places, key));
        self.known.insert(key.to_owned(), Rc::clone(&column));
        column
    }
}
