//! Ruining: taking pods off their nodes, so that they can be placed anew together.

use std::rc::Rc;

use super::random::Random;
use crate::ids::{ClassId, NewNodeId, NodeId, TemplateId, TypeId};
use crate::market::purchases::type_of;
use crate::solution::{NewNode, Portion, Solution};

/// How many nodes are given up at most at once.
const NODES_MAX: usize = 4;
/// Once in so many times the classes that share a rule with a ruined one are ruined with it.
/// Without that one random cluster of 40 costs 6.1 % more.
const WITH_LIKE: usize = 2;
/// Of how many portions one is ruined: drawn between these.
const PORTIONS: std::ops::Range<usize> = 2..8;

/// What was ruined.
#[derive(Default)]
pub(super) struct Ruined {
    /// The nodes that were given up or changed.
    pub(super) nodes: Vec<NewNodeId>,
    /// The machines that they were, as template and instance type.
    pub(super) machines: Vec<(TemplateId, TypeId)>,
}

/// A node that pods are on.
#[derive(Clone, Copy)]
enum Location {
    New(NewNodeId),
    Existing(NodeId),
}

/// Gives up a few nodes, the first of them a wasteful one, and takes what was placed off an
/// existing node where there is none.
pub(super) fn remove_nodes(
    solution: &mut Solution<'_, '_>,
    wasteful: &[NewNodeId],
    random: &mut Random,
) -> Ruined {
    let mut ruined = Ruined::default();
    if wasteful.is_empty() {
        return ruined;
    }
    let count = 1 + random.below(NODES_MAX.min(wasteful.len()));
    // The square makes the most wasteful come up most often.
    let rank = random.below(wasteful.len()) * random.below(wasteful.len()) / wasteful.len();
    let mut chosen = vec![wasteful[rank]];
    for _ in 1..count {
        chosen.push(wasteful[random.below(wasteful.len())]);
    }
    chosen.sort_unstable();
    chosen.dedup();
    for node in chosen {
        if let Some(node_before) = &solution.opened[node] {
            ruined.machines.push((node_before.shape.template, type_of(node_before.quote.purchase)));
        }
        solution.close(node);
        ruined.nodes.push(node);
    }
    ruined
}

/// Gives up all nodes of pools that are not static.
pub(super) fn remove_all(solution: &mut Solution<'_, '_>) {
    for node in solution.opened.keys() {
        if solution.opened[node].as_ref().is_some_and(|node| !node.is_static(solution.problem)) {
            solution.close(node);
        }
    }
}

/// Takes all pods of a class, or of all classes that share a rule with it, off their nodes.
pub(super) fn remove_class(solution: &mut Solution<'_, '_>, random: &mut Random) -> Ruined {
    let problem = solution.problem;
    let class = ClassId::from(random.below(problem.classes.len()));
    let groups = &problem.classes[class].selected_by;
    let with_like = random.one_in(WITH_LIKE);
    let is_meant = |other: ClassId| {
        other == class
            || with_like && problem.classes[other].selected_by.iter().any(|group| groups.contains(group))
    };
    remove_pods(solution, &|_, other| is_meant(other))
}

/// Takes some portions off their nodes, drawn by chance.
pub(super) fn remove_portions(solution: &mut Solution<'_, '_>, random: &mut Random) -> Ruined {
    let salt = random.below(usize::MAX >> 1);
    let one_in = PORTIONS.start + random.below(PORTIONS.len());
    let offset = solution.opened.len();
    remove_pods(solution, &|location, class| {
        let number = match location {
            Location::New(node) => usize::from(node),
            Location::Existing(node) => offset + usize::from(node),
        };
        let mixed =
            (number.wrapping_mul(31).wrapping_add(usize::from(class))).wrapping_mul(0x9E37_79B9) ^ salt;
        (mixed >> 7).is_multiple_of(one_in)
    })
}

/// Takes the pods off their nodes of which that is said, by node and class; existing nodes lose all
/// that was placed.
fn remove_pods(solution: &mut Solution<'_, '_>, is_meant: &dyn Fn(Location, ClassId) -> bool) -> Ruined {
    let mut ruined = Ruined::default();
    for id in solution.opened.keys() {
        let Some(node) = solution.opened[id].clone() else { continue };
        let (out, rest): (Vec<Portion>, Vec<Portion>) = node
            .pods
            .iter()
            .cloned()
            .partition(|portion| is_meant(Location::New(id), portion.lot.variant.class));
        if out.is_empty() {
            continue;
        }
        ruined.nodes.push(id);
        let is_kept = !rest.is_empty() || node.is_static(solution.problem);
        let smaller: Option<NewNode> =
            is_kept.then(|| solution.node_of(node.shape.template, rest, Some(&node))).flatten();
        match smaller {
            Some(smaller) => solution.exchange_for(id, Rc::new(smaller), &out),
            // Fewer pods fit any machine that more do, but for minValues.
            None if node.is_static(solution.problem) => {}
            None => solution.close(id),
        }
    }
    for id in solution.existing.keys() {
        if solution.existing[id].pods.iter().any(|pods| is_meant(Location::Existing(id), pods.variant.class))
        {
            solution.vacate(id);
        }
    }
    ruined
}
