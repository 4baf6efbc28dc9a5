//! Keepers: which of the nodes that may be ended stay, to be filled by the pods of the others.
//!
//! A kept node is a purchase like any other: its price buys its room, and its own pods need not
//! move. The linear relaxation tells the least that a set of keepers can cost, so the sets that
//! promise most are tried first: those that are worth most for their price, as many as it takes,
//! then the best of these with one node or two exchanged. Trying a set is to carry out all
//! disruptions. The cheapest outcome is taken, moves and launches counted.

use std::collections::{BTreeMap, BTreeSet};

use typed_index_collections::{TiVec, ti_vec};

use super::Start;
use super::disruptions::{Disruptions, Parting, Score};
use crate::ids::{NodeId, ValuedId};
use crate::market::templates::NANOS_PER_DOLLAR;
use crate::search::worth::{Endable, Relaxed, Worth};
use crate::solution::PlacedPods;

/// How many pods all attempts together move at most, the first one aside.
const PODS_MOVED_MAX: usize = 3_000;
/// How many attempts there are at most. With one alone, eight consolidations of 60 half-empty nodes
/// cost 0.65 % more in the mean.
const ATTEMPTS_MAX: usize = 200;

/// Whether each node stays that is valued.
type Keepers = TiVec<ValuedId, bool>;

/// The cheapest outcome that is found.
pub(super) fn best<'s, 'p, 'a>(start: &'s Start<'s, 'p, 'a>) -> Disruptions<'s, 'p, 'a> {
    let search = Search::new(start);
    let mut candidates = search.by_worth().into_iter();
    let first = candidates.next().map(|(_, keepers)| keepers).unwrap_or_default();
    let mut best = Outcome { disruptions: search.attempt(&first), keepers: first.clone() };
    let mut tried = BTreeSet::from([first]);
    for (bound, keepers) in candidates {
        search.try_instead(&mut best, &mut tried, bound, keepers);
    }
    loop {
        let mut neighbours = search.neighbours(&best.keepers).into_iter();
        if !neighbours.any(|(bound, keepers)| search.try_instead(&mut best, &mut tried, bound, keepers)) {
            return best.disruptions;
        }
    }
}

/// An outcome with the keepers that it is for.
struct Outcome<'s, 'p, 'a> {
    disruptions: Disruptions<'s, 'p, 'a>,
    keepers: Keepers,
}

struct Search<'s, 'p, 'a> {
    start: &'s Start<'s, 'p, 'a>,
    worth: Worth,
    /// The pool of each node.
    pools: BTreeMap<NodeId, usize>,
    /// The nodes that may be kept: no earlier run has proposed to end them.
    open: Vec<ValuedId>,
    /// Dollars of what stays in any case.
    fixed: f64,
    attempts: usize,
}

impl<'s, 'p, 'a> Search<'s, 'p, 'a> {
    fn new(start: &'s Start<'s, 'p, 'a>) -> Self {
        let (mut endable, mut pools) = (Vec::new(), BTreeMap::new());
        for (index, pool) in start.pools.iter().enumerate() {
            let free = pool.nodes.iter().copied().filter(|node| start.is_free(*node));
            endable.extend(free.clone().map(|node| Endable {
                node,
                settings: &pool.settings,
                pods: start.pods_of(node),
                evictions: start.evictions(node),
            }));
            pools.extend(free.map(|node| (node, index)));
        }
        let replaced: Vec<NodeId> = start.pools.iter().flat_map(|pool| &pool.replaced).copied().collect();
        let leaving: Vec<&[PlacedPods]> = replaced.iter().map(|node| start.pods_of(*node)).collect();
        let worth = Worth::new(&start.solution, &endable, &leaving);
        let going: BTreeSet<NodeId> = start.proposed.iter().flatten().copied().collect();
        let open = worth.nodes.keys().filter(|valued| !going.contains(&worth.nodes[*valued].node));
        let may_go = endable.iter().map(|endable| endable.node).chain(replaced);
        let existing = &start.solution.problem.existing;
        let endable_cost: u64 = may_go.filter_map(|node| existing[node].saves).sum();
        let pods = endable.iter().flat_map(|endable| endable.pods).chain(leaving.into_iter().flatten());
        let moved: usize = pods.map(|pods| pods.count as usize).sum();
        Self {
            open: open.collect(),
            fixed: start.solution.objective().cost.saturating_sub(endable_cost) as f64 / NANOS_PER_DOLLAR,
            attempts: (PODS_MOVED_MAX / moved.max(1)).clamp(1, ATTEMPTS_MAX),
            start,
            worth,
            pools,
        }
    }

    /// For each number of keepers those that are worth most for their price, with the least that
    /// this can cost, the cheapest first, as many as can be tried. Without keepers, or with them in
    /// another order, a consolidation of 200 nodes costs 16.1 % more.
    fn by_worth(&self) -> Vec<(f64, Keepers)> {
        let mut relaxed = self.worth.of_none();
        let mut bounds = vec![(self.worth.bound(&relaxed), 0)];
        for (count, valued) in self.open.iter().enumerate() {
            self.worth.set_kept(&mut relaxed, *valued, true);
            bounds.push((self.worth.bound(&relaxed), count + 1));
        }
        bounds.sort_by(|(a, x), (b, y)| a.total_cmp(b).then(x.cmp(y)));
        bounds.truncate(self.attempts);
        let keepers = |count: usize| {
            let mut keepers = ti_vec![false; self.worth.nodes.len()];
            for valued in &self.open[..count] {
                keepers[*valued] = true;
            }
            keepers
        };
        bounds.into_iter().map(|(bound, count)| (bound, keepers(count))).collect()
    }

    /// The same with one node more or less, or with one in the place of another, the most promising
    /// first. Of nodes that are alike only the first is tried. Without them, the consolidations of
    /// 60 nodes cost 0.44 % more.
    fn neighbours(&self, keepers: &Keepers) -> Vec<(f64, Keepers)> {
        if self.attempts == 1 {
            return Vec::new();
        }
        let mut relaxed = self.worth.of_none();
        for valued in keepers.keys().filter(|valued| keepers[*valued]) {
            self.worth.set_kept(&mut relaxed, valued, true);
        }
        let (kept, ended): (Vec<ValuedId>, Vec<ValuedId>) =
            self.first_of_kinds(keepers).into_iter().partition(|valued| keepers[*valued]);
        let pairs = kept.iter().flat_map(|out| ended.iter().map(move |into| vec![*out, *into]));
        let single = kept.iter().chain(&ended).map(|valued| vec![*valued]);
        let bound = |flipped: Vec<ValuedId>| {
            let mut relaxed: Relaxed = relaxed.clone();
            for valued in &flipped {
                self.worth.set_kept(&mut relaxed, *valued, !keepers[*valued]);
            }
            (self.worth.bound(&relaxed), flipped)
        };
        let mut flips: Vec<(f64, Vec<ValuedId>)> = single.chain(pairs).map(bound).collect();
        flips.sort_by(|(a, x), (b, y)| a.total_cmp(b).then(x.cmp(y)));
        flips.truncate(self.attempts);
        let changed = |(bound, flipped): (f64, Vec<ValuedId>)| {
            let mut keepers = keepers.clone();
            for valued in flipped {
                keepers[valued] = !keepers[valued];
            }
            (bound, keepers)
        };
        flips.into_iter().map(changed).collect()
    }

    /// The first of all nodes that are alike and of which the same is to become.
    fn first_of_kinds(&self, keepers: &Keepers) -> Vec<ValuedId> {
        let mut kinds_seen = BTreeSet::new();
        let is_first = |valued: &ValuedId| {
            let node = &self.worth.nodes[*valued];
            let classes = self.start.pods_of(node.node).iter().map(|pods| (pods.variant.class, pods.count));
            let kind = self.start.kinds.kind_of(node.node);
            kinds_seen.insert((keepers[*valued], self.pools[&node.node], kind, classes.collect::<Vec<_>>()))
        };
        self.open.iter().copied().filter(is_first).collect()
    }

    /// Tries other keepers, if they may come to less and were not tried yet; says whether they are
    /// better.
    fn try_instead(
        &self,
        best: &mut Outcome<'s, 'p, 'a>,
        tried: &mut BTreeSet<Keepers>,
        bound: f64,
        keepers: Keepers,
    ) -> bool {
        let least: Score = best.disruptions.score();
        if tried.len() >= self.attempts
            || self.fixed + bound >= least.cost as f64 / NANOS_PER_DOLLAR
            || (self.start.solution.problem.options.time_is_up)()
            || !tried.insert(keepers.clone())
        {
            return false;
        }
        let disruptions = self.attempt(&keepers);
        let is_better = disruptions.score() < least;
        if is_better {
            *best = Outcome { disruptions, keepers };
        }
        is_better
    }

    /// Carries out all disruptions with some keepers.
    fn attempt(&self, keepers: &Keepers) -> Disruptions<'s, 'p, 'a> {
        let mut parting: Vec<Parting> = self.start.pools.iter().map(|_| Parting::default()).collect();
        for (node, is_kept) in self.worth.nodes.iter().zip(keepers).rev() {
            let of_pool = &mut parting[self.pools[&node.node]];
            let is_empty = self.start.pods_of(node.node).is_empty();
            let list = match is_kept {
                true => &mut of_pool.keepers,
                false if is_empty => &mut of_pool.empty,
                false => &mut of_pool.loaded,
            };
            list.push(node.node);
        }
        Disruptions::run_all(self.start, &parting)
    }
}
