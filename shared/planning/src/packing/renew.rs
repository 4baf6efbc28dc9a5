//! Renewing: a few nodes of a packing are given up, and their pods are packed anew among themselves.
//!
//! Merging and moving pods only ever take nodes away or make them smaller. Where two nodes would be better as two others, or
//! a large one as several, only packing their pods again finds it; with few nodes each pair can be asked.

use super::draft::Draft;
use super::{Packed, Packer};
use crate::topology::RuleKind;

/// Up to how many nodes are looked at, the most wasteful first.
const NODES_MAX: usize = 12;
/// How many groups of nodes are packed anew at most.
const TRIALS_MAX: usize = 32;
/// How many nodes of one group at most.
const GROUP_MAX: usize = 3;
/// For how many of them other first machines are tried too, which takes many times as long.
const LOOKED_AHEAD_MAX: usize = 6;

impl Packer<'_> {
    /// Packs the pods of a few nodes anew, one group of nodes after another, as long as that makes them cheaper.
    pub(super) fn renew_all(&mut self, packed: &mut Packed) {
        let mut trials = 0;
        while let Some(next) = self.renewed(packed, &mut trials) {
            *packed = next;
        }
    }

    /// A packing with one group of nodes renewed; none when there is no more to win.
    fn renewed(&mut self, packed: &Packed, trials: &mut usize) -> Option<Packed> {
        let mut order = self.wasteful(&packed.drafts);
        order.retain(|node| self.is_renewable(&packed.drafts[*node]));
        order.truncate(NODES_MAX);
        for nodes in groups(&order) {
            if *trials == TRIALS_MAX || (self.options.time_is_up)() {
                return None;
            }
            *trials += 1;
            let end = self.start_from(packed.clone());
            if let Some(next) = self.with_renewed(packed, &nodes, *trials <= LOOKED_AHEAD_MAX) {
                return Some(next);
            }
            self.go_back(end);
        }
        None
    }

    /// Whether its pods can be packed again as they were: still in their way, and without others that they must be near.
    fn is_renewable(&self, draft: &Draft) -> bool {
        draft.pods.iter().all(|portion| {
            let it = &self.bins.members[portion.member];
            let is_alone = it.rules.iter().all(|rule| rule.kind != RuleKind::Near);
            it.way == portion.way && it.bin.is_some() && is_alone
        })
    }

    /// A packing in which some nodes are renewed and cost less; else none, and packing must go back to where it was.
    fn with_renewed(&mut self, packed: &Packed, nodes: &[usize], looks_ahead: bool) -> Option<Packed> {
        let left: u32 = self.bins.members.iter().map(|it| it.left).sum();
        let mut new = Packed { drafts: Vec::new(), ..packed.clone() };
        let old: Vec<&Draft> = nodes.iter().map(|node| &packed.drafts[*node]).collect();
        let before = self.worth_of_drafts(old.iter().copied());
        for draft in old {
            self.limits[draft.template].release(&draft.reserved);
            for portion in &draft.pods {
                self.bins.give_back(portion.member, portion.count);
            }
        }
        let start = looks_ahead.then(|| self.start_from(new.clone()));
        self.open_all(&mut new);
        self.improve(&mut new.drafts);
        if let Some(start) = start {
            self.look_ahead(&start, &mut new);
        }
        let is_whole = self.bins.members.iter().map(|it| it.left).sum::<u32>() == left;
        if !is_whole || !self.worth_of_drafts(&new.drafts).beats(before) {
            return None;
        }
        let rest = packed.drafts.iter().enumerate().filter(|(node, _)| !nodes.contains(node));
        let mut drafts: Vec<Draft> = rest.map(|(_, draft)| draft.clone()).collect();
        drafts.extend(new.drafts);
        self.improve(&mut drafts);
        Some(Packed { drafts, ..packed.clone() })
    }
}

/// Groups of the nodes in this order: each alone, then all pairs, then larger ones.
fn groups(order: &[usize]) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut last: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..GROUP_MAX {
        let wider = last.iter().flat_map(|group| {
            let from = group.last().map_or(0, |place| place + 1);
            (from..order.len()).map(|place| group.iter().copied().chain([place]).collect::<Vec<_>>())
        });
        last = wider.collect();
        all.extend(last.iter().cloned());
    }
    all.into_iter().map(|group| group.into_iter().map(|place| order[place]).collect()).collect()
}
