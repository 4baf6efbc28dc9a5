//! Topology: for each topology key, the domains that each node is in or may come to be in.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use super::node_info::NodeInfo;

/// The domains of one topology key: the values of a label over all nodes.
pub(super) struct KeyDomains<'p> {
    /// The values; a domain is an index into this list.
    pub(super) names: Vec<&'p str>,
    /// Each set of values that some node may have.
    pub(super) sets: Vec<PossibleDomains>,
    set_of: Vec<usize>,
}

/// The domains that a node may come to be in.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PossibleDomains {
    pub(super) possible: Vec<usize>,
    /// Whether it may lack the label.
    pub(super) absent: bool,
}

impl PossibleDomains {
    /// The domain that it is in for certain.
    pub(super) fn only(&self) -> Option<usize> {
        if let ([domain], false) = (self.possible.as_slice(), self.absent) { Some(*domain) } else { None }
    }
}

impl<'p> KeyDomains<'p> {
    fn new(nodes: &'p [NodeInfo<'_>], key: &str) -> Self {
        let values: Vec<BTreeSet<Option<&str>>> = nodes.iter().map(|node| node.values(key)).collect();
        let names: BTreeSet<&str> = values.iter().flatten().copied().flatten().collect();
        let numbers: BTreeMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (*name, at)).collect();
        let mut set_numbers: BTreeMap<PossibleDomains, usize> = BTreeMap::new();
        let mut key_domains =
            Self { names: names.into_iter().collect(), sets: Vec::new(), set_of: Vec::new() };
        for values in &values {
            let possible = values.iter().flatten().filter_map(|value| numbers.get(value).copied()).collect();
            let domains = PossibleDomains { possible, absent: values.contains(&None) };
            let set = *set_numbers.entry(domains).or_insert_with_key(|domains| {
                key_domains.sets.push(domains.clone());
                key_domains.sets.len() - 1
            });
            key_domains.set_of.push(set);
        }
        key_domains
    }

    /// The domains of a node.
    pub(super) fn at(&self, node: usize) -> &PossibleDomains {
        &self.sets[self.set_of[node]]
    }

    /// Which of the sets a node's is.
    pub(super) fn set_of(&self, node: usize) -> usize {
        self.set_of[node]
    }
}

/// The domains of each topology key that was asked for.
pub(super) struct Topology<'p, 'a> {
    pub(super) nodes: &'p [NodeInfo<'a>],
    by_key: HashMap<String, Rc<KeyDomains<'p>>>,
}

impl<'p, 'a> Topology<'p, 'a> {
    pub(super) fn new(nodes: &'p [NodeInfo<'a>]) -> Self {
        Self { nodes, by_key: HashMap::new() }
    }

    pub(super) fn domains(&mut self, key: &str) -> Rc<KeyDomains<'p>> {
        if let Some(domains) = self.by_key.get(key) {
            return Rc::clone(domains);
        }
        let domains = Rc::new(KeyDomains::new(self.nodes, key));
        self.by_key.insert(key.to_owned(), Rc::clone(&domains));
        domains
    }
}
