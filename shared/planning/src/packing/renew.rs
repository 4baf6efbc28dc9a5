//! Renewing: a few nodes of a packing are given up, and their pods are packed anew among themselves.
//!
//! Merging and moving pods only ever take nodes away or make them smaller. Where two nodes would be better as two others, or
//! a large one as several, only packing their pods again finds it; with few nodes each pair can be asked.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::{Packed, Packer};
use crate::topology::RuleKind;

/// Up to how many nodes are looked at.
const NODES_MAX: usize = 12;
/// How many groups of nodes are packed anew at most.
const TRIALS_MAX: usize = 32;
/// How many nodes of one group at most.
const GROUP_MAX: usize = 3;
/// For which groups other first machines are tried too, which takes many times as long: the first few, and those with few pods.
const LOOKED_AHEAD_MAX: usize = 6;
const PODS_LOOKED_AHEAD_MAX: u32 = 48;

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
        for nodes in self.groups(&packed.drafts, &|draft| self.may_be_renewed(draft, &[])) {
            if *trials == TRIALS_MAX || (self.options.time_is_up)() {
                return None;
            }
            *trials += 1;
            let end = self.start_from(packed.clone());
            let pods: u32 = nodes.iter().flat_map(|node| &packed.drafts[*node].pods).map(|it| it.count).sum();
            let looks_ahead = *trials <= LOOKED_AHEAD_MAX || pods <= PODS_LOOKED_AHEAD_MAX;
            if let Some(next) = self.with_renewed(packed, &nodes, looks_ahead) {
                return Some(next);
            }
            self.go_back(end);
        }
        None
    }

    /// Groups of nodes to look at: the most wasteful first, of those that are alike one before any is looked at again.
    pub(super) fn groups(&self, drafts: &[Draft], is_asked: &dyn Fn(&Draft) -> bool) -> Vec<Vec<usize>> {
        let mut seen: BTreeMap<(usize, Vec<(usize, u32)>), usize> = BTreeMap::new();
        let mut order: Vec<(usize, usize)> = Vec::new();
        for node in self.wasteful(drafts) {
            let draft = &drafts[node];
            if is_asked(draft) {
                let mut pods: Vec<_> = draft.pods.iter().map(|it| (it.member, it.count)).collect();
                pods.sort_unstable();
                let alike = seen.entry((draft.template, pods)).or_default();
                order.push((*alike, node));
                *alike += 1;
            }
        }
        order.sort_by_key(|(alike, _)| *alike);
        let nodes: Vec<usize> = order.into_iter().map(|(_, node)| node).take(NODES_MAX).collect();
        groups(&nodes)
    }

    /// Whether its pods can be packed again as they were: still in their way, or asked again, and without others that they
    /// must be near.
    pub(super) fn may_be_renewed(&self, draft: &Draft, asked_again: &[usize]) -> bool {
        draft.pods.iter().all(|portion| {
            let it = &self.bins.members[portion.member];
            let is_alone = it.rules.iter().all(|rule| rule.kind != RuleKind::Near);
            let may_be = it.way == portion.way && it.bin.is_some();
            is_alone && (may_be || asked_again.binary_search(&portion.member).is_ok())
        })
    }

    /// A packing in which some nodes are renewed and cost less; else none, and packing must go back to where it was.
    fn with_renewed(&mut self, packed: &Packed, nodes: &[usize], looks_ahead: bool) -> Option<Packed> {
        let left: u32 = self.bins.members.iter().map(|it| it.left).sum();
        let mut new = Packed { drafts: Vec::new(), ..packed.clone() };
        let before = self.worth_of_drafts(nodes.iter().map(|node| &packed.drafts[*node]));
        self.give_up(packed, nodes);
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
        let drafts = self.with_new(packed, nodes, new.drafts);
        Some(Packed { drafts, ..packed.clone() })
    }

    /// Takes back the pods of some nodes.
    pub(super) fn give_up(&mut self, packed: &Packed, nodes: &[usize]) {
        for draft in nodes.iter().map(|node| &packed.drafts[*node]) {
            self.limits[draft.template].release(&draft.reserved);
            for portion in &draft.pods {
                self.bins.give_back(portion.member, portion.count);
            }
        }
    }

    /// The nodes of a packing with new ones instead of some.
    pub(super) fn with_new(&mut self, packed: &Packed, nodes: &[usize], new: Vec<Draft>) -> Vec<Draft> {
        let rest = packed.drafts.iter().enumerate().filter(|(node, _)| !nodes.contains(node));
        let mut drafts: Vec<Draft> = rest.map(|(_, draft)| draft.clone()).collect();
        drafts.extend(new);
        self.improve(&mut drafts);
        drafts
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
