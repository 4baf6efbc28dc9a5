//! Assigning: room on existing nodes for every pod that finds some, and a lot for every other one.
//!
//! Pods are taken in their order, as a scheduler would take them. Each relaxation is tried in turn:
//! the nodes that are there, then the domains in which a node can be made, the emptiest first and
//! the cheapest of those. Pods that no rule about domains touches go through in bulk.

use std::collections::BTreeMap;
use std::rc::Rc;

use typed_index_collections::{TiVec, ti_vec};

use super::insert::Inserting;
use crate::ids::{ClassId, LotId, NodeId, Variant};
use crate::problem::Problem;
use crate::problem::lots::Lot;
use crate::problem::topology::{Affinity, RuleKind, Spreads};
use crate::solution::{At, PlacedPods, Solution};

/// Pods of one lot that wait for a new node; they are counted where they will be.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) lot: Rc<Lot>,
    pub(super) count: u32,
}

/// Finds room or a lot for the pods that are left; says which lots wait. Pods stay left until they
/// have a node.
pub(super) fn assign(solution: &mut Solution<'_, '_>, order: &[ClassId]) -> Vec<Waiting> {
    let mut unassigned = solution.unplaced.clone();
    let mut work = Assigning { full: BTreeMap::new(), waiting: Vec::new(), waiting_by_lot: BTreeMap::new() };
    loop {
        let mut moved = false;
        for class in order.iter().copied().filter(|class| unassigned[*class] > 0).collect::<Vec<_>>() {
            let before = unassigned[class];
            unassigned[class] = work.assign_class(solution, class, before);
            moved |= unassigned[class] < before;
        }
        if !moved {
            return work.waiting;
        }
    }
}

struct Assigning {
    /// For each class and relaxation, how many of the first existing nodes are full for good.
    full: BTreeMap<Variant, usize>,
    waiting: Vec<Waiting>,
    /// The place of each lot among those that wait.
    waiting_by_lot: BTreeMap<(Variant, LotId), usize>,
}

impl Assigning {
    /// Says how many of a class's pods are left. Where one finds nothing, its like do not either.
    fn assign_class(&mut self, solution: &mut Solution<'_, '_>, class: ClassId, pods: u32) -> u32 {
        if goes_in_bulk(solution.problem, class) {
            return self.assign_in_bulk(solution, class, pods);
        }
        let mut remaining = pods;
        while remaining > 0 && self.assign_one(solution, class) {
            remaining -= 1;
        }
        remaining
    }

    fn assign_in_bulk(&mut self, solution: &mut Solution<'_, '_>, class: ClassId, pods: u32) -> u32 {
        let problem = solution.problem;
        let mut remaining = pods;
        for variant in problem.variants(class) {
            for node in problem.admitting(variant).iter().copied() {
                let room = solution.room_on_existing(
                    node,
                    variant,
                    remaining,
                    Affinity::MustFollow,
                    Spreads::HoldInAnyOrder,
                );
                if room > 0 {
                    solution.place_on_existing(node, variant, room);
                    remaining -= room;
                }
                if remaining == 0 {
                    return 0;
                }
            }
            remaining -= join_static(solution, variant, remaining);
            if remaining == 0 {
                return 0;
            }
            if let Some(lot) = problem.lots(variant).iter().find(|lot| lot.fits) {
                self.wait(solution, lot, remaining);
                return 0;
            }
        }
        remaining
    }

    fn assign_one(&mut self, solution: &mut Solution<'_, '_>, class: ClassId) -> bool {
        let problem = solution.problem;
        for variant in problem.variants(class) {
            if let Some(node) = self.existing_for(solution, variant) {
                solution.place_on_existing(node, variant, 1);
                return true;
            }
            if join_static(solution, variant, 1) > 0 {
                return true;
            }
            let lots = problem.lots(variant);
            if !joins_new(solution, variant) {
                continue;
            }
            let allowed = lots.iter().filter(|lot| lot.fits && solution.breaks_on_new(lot).is_none());
            if let Some(lot) = allowed.min_by_key(|lot| solution.crowd(lot)) {
                self.wait(solution, lot, 1);
                return true;
            }
        }
        false
    }

    /// The first existing node that takes a pod; where it must be near others, rather one where
    /// such pods run already.
    fn existing_for(&mut self, solution: &Solution<'_, '_>, variant: Variant) -> Option<NodeId> {
        let nodes = solution.problem.admitting(variant);
        let rules = &solution.problem.relaxation(variant).rules;
        if rules.iter().any(|rule| rule.kind == RuleKind::Affinity) {
            return solution.first_taking(&nodes, variant, Spreads::HoldInAnyOrder);
        }
        let full = self.full.entry(variant).or_default();
        for index in *full..nodes.len() {
            let node = nodes[index];
            if *full == index
                && solution.room_on_existing(node, variant, 1, Affinity::MustFollow, Spreads::HoldInAnyOrder)
                    == 0
            {
                *full += 1;
            } else if solution.takes(node, variant, Spreads::HoldInAnyOrder) {
                return Some(node);
            }
        }
        None
    }

    fn wait(&mut self, solution: &mut Solution<'_, '_>, lot: &Rc<Lot>, count: u32) {
        solution.count(lot.variant.class, At::Lot(Rc::clone(lot)), count.cast_signed());
        let index = *self.waiting_by_lot.entry((lot.variant, lot.id)).or_insert_with(|| {
            self.waiting.push(Waiting { lot: Rc::clone(lot), count: 0 });
            self.waiting.len() - 1
        });
        self.waiting[index].count += count;
    }
}

/// Puts pods onto the nodes that static pools lack; says how many.
fn join_static(solution: &mut Solution<'_, '_>, variant: Variant, wanted: u32) -> u32 {
    if solution.static_nodes == 0 {
        return 0;
    }
    Inserting::new(solution, Vec::new()).join_static(variant, wanted)
}

/// Whether no rule about domains touches a class.
pub(super) fn goes_in_bulk(problem: &Problem<'_>, class: ClassId) -> bool {
    let pod_class = &problem.classes[class];
    let mut rules = pod_class.relaxations.iter().flat_map(|relaxation| &relaxation.rules);
    let topology = &problem.topology;
    rules.all(|rule| rule.is_per_host && rule.kind != RuleKind::Affinity)
        && !pod_class
            .selected_by
            .iter()
            .any(|group| topology.key_of[*group].is_some() && topology.binds[*group])
}

/// Whether pods that must be on a node with others may find those on a new one.
fn joins_new(solution: &Solution<'_, '_>, variant: Variant) -> bool {
    let problem = solution.problem;
    let mut rules = problem.rules_on_new(variant).iter();
    rules.all(|rule| {
        !rule.is_per_host
            || rule.kind != RuleKind::Affinity
            || solution.counts.total(rule.group) > problem.running.total(rule.group)
            || rule.selects_itself && solution.counts.total(rule.group) == 0
    })
}

/// Pods go where they are nominated already, which makes a second decision repeat the first: all
/// together where the rules then hold, since one may need the others, or else one after another.
pub(super) fn place_nominated(solution: &mut Solution<'_, '_>) {
    if solution.problem.meant.iter().all(BTreeMap::is_empty) {
        return;
    }
    let mark = solution.mark();
    place_meant(solution, RulesHold::InTheEnd);
    if solution.broken().0 > 0 {
        solution.go_back(mark);
        place_meant(solution, RulesHold::AtEachStep);
        if solution.broken().0 > 0 {
            solution.go_back(mark);
        }
    }
    solution.pin_placed();
}

/// Puts the pods of nodes that may be ended onto them, whatever rules say: they are there. Says
/// which, for each existing node; none where a pod could not be placed anywhere else.
pub(super) fn place_running(solution: &mut Solution<'_, '_>) -> TiVec<NodeId, Option<Vec<PlacedPods>>> {
    let problem = solution.problem;
    let endable = problem.existing.iter_enumerated().filter(|(_, node)| node.saves.is_some());
    let by_name: BTreeMap<&str, NodeId> = endable.map(|(id, node)| (node.name, id)).collect();
    let mut is_stuck = ti_vec![false; problem.existing.len()];
    for (class, of) in problem.classes.iter_enumerated() {
        let mut counts: BTreeMap<NodeId, u32> = BTreeMap::new();
        for node in of.pods.iter().filter_map(|pod| by_name.get(pod.node_name.as_deref()?)) {
            *counts.entry(*node).or_default() += 1;
        }
        for (node, count) in counts {
            let admits =
                |variant: &Variant| problem.existing[node].admits(of.spec, problem.relaxation(*variant));
            let variant = problem.variants(class).find(admits).or(problem.variants(class).next_back());
            let Some(variant) = variant.filter(|_| problem.plannable[class]) else {
                is_stuck[node] = true;
                continue;
            };
            solution.place_on_existing(node, variant, count);
        }
    }
    let homes = solution.existing.iter().zip(is_stuck);
    homes.map(|(occupied, is_stuck)| (!is_stuck).then(|| occupied.pods.clone())).collect()
}

/// When rules about domains hold for pods that are placed one after another.
#[derive(Clone, Copy)]
enum RulesHold {
    AtEachStep,
    InTheEnd,
}

/// Places pods on the nodes that they are meant for, those last that must follow others: a pod that
/// came first to where the others have a spread may keep these away.
fn place_meant(solution: &mut Solution<'_, '_>, rules_hold: RulesHold) {
    let problem = solution.problem;
    let mut wanted = problem.meant.clone();
    let follows = |class: &ClassId| {
        let mut rules = problem.variants(*class).flat_map(|variant| &problem.relaxation(variant).rules);
        rules.any(|rule| rule.kind == RuleKind::Affinity && !rule.is_preference)
    };
    let (followers, others): (Vec<ClassId>, Vec<ClassId>) = wanted.keys().partition(follows);
    let mut moved = true;
    while std::mem::take(&mut moved) {
        for class in others.iter().chain(&followers).copied() {
            for (node, count) in &mut wanted[class] {
                while *count > 0 && solution.unplaced[class] > 0 {
                    let takes = |variant: &Variant| {
                        let takes = match rules_hold {
                            RulesHold::AtEachStep => solution.takes(*node, *variant, Spreads::HoldInAnyOrder),
                            RulesHold::InTheEnd => solution.may_take(*node, *variant),
                        };
                        takes && problem.admitting(*variant).binary_search(node).is_ok()
                    };
                    let Some(variant) = problem.variants(class).find(takes) else { break };
                    solution.place_on_existing(*node, variant, 1);
                    *count -= 1;
                    moved = true;
                }
            }
        }
    }
}
