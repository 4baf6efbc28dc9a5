//! Constructing: places for all pods that are left.

use std::rc::Rc;

use typed_index_collections::TiVec;

use super::assign::{Waiting, assign};
use super::insert::Inserting;
use super::open::Opening;
use super::prices::Prices;
use super::random::Random;
use crate::ids::{ClassId, NewNodeId};
use crate::solution::{At, Shape, Solution};

/// So many of the nodes that are opened last are tried in pairs. Trying all finds nothing more, and
/// there are more pairs by the square.
const MERGED_AMONG: usize = 6;

/// Places the pods that are left: first where domains and prices say, then one by one wherever they
/// still fit. Without the latter one random cluster of 40 costs 1.1 % more.
pub(super) fn construct(solution: &mut Solution<'_, '_>, order: &[ClassId], prices: &mut Prices) {
    let waiting = assign(solution, order);
    let rest = Opening::new(solution, waiting, prices).open_all();
    stop_waiting(solution, &rest);
    Inserting::new(solution, order.to_vec()).insert_all();
}

/// The same with no more pods on the new nodes that there are; says which were opened.
pub(super) fn recreate(
    solution: &mut Solution<'_, '_>,
    order: &[ClassId],
    prices: &mut Prices,
) -> Vec<NewNodeId> {
    let was_open: TiVec<NewNodeId, bool> = solution.opened.iter().map(Option::is_some).collect();
    let is_new = |id: &NewNodeId| !was_open.get(*id).copied().unwrap_or(false);
    let waiting = assign(solution, order);
    let rest = Opening::new(solution, waiting, prices).open_all();
    stop_waiting(solution, &rest);
    let opened = |solution: &Solution<'_, '_>| -> Vec<NewNodeId> {
        solution.new_nodes().map(|(id, _)| id).filter(is_new).collect()
    };
    if solution.unplaced.iter().any(|count| *count > 0) {
        let among = opened(solution);
        Inserting::new(solution, order.to_vec()).only_among(among).insert_all();
    }
    merge_last(solution, opened(solution));
    opened(solution)
}

/// Puts the pods of two new nodes onto one where that costs less: what was opened last carries what
/// was left, and is seldom full. Without it a consolidation of 12 nodes costs 2.0 % more.
fn merge_last(solution: &mut Solution<'_, '_>, mut opened: Vec<NewNodeId>) {
    opened.drain(..opened.len().saturating_sub(MERGED_AMONG));
    loop {
        let pairs = opened.iter().flat_map(|into| opened.iter().map(move |from| (*into, *from)));
        let merged = pairs.filter(|(into, from)| into < from).filter_map(|(into, from)| {
            let (saved, node) = solution.merged(into, from)?;
            Some((saved, into, from, node))
        });
        let Some((_, into, from, node)) = merged.max_by_key(|(saved, ..)| *saved) else { return };
        solution.merge(into, from, node);
        opened.retain(|node| *node != from);
    }
}

/// The same for a part of the pods, at prices as they were, with machines that are drawn; says how
/// many were filled.
pub(super) fn reconstruct(
    solution: &mut Solution<'_, '_>,
    order: &[ClassId],
    prices: &mut Prices,
    random: &mut Random,
) -> usize {
    let waiting = assign(solution, order);
    let (rest, filled) = Opening::new(solution, waiting, prices).open_drawn(random);
    stop_waiting(solution, &rest);
    filled
}

/// Opens the nodes that static pools still lack. They carry no pods yet, and may be any machine of
/// their pool. They come before all other new nodes and are never closed.
pub(super) fn open_static(solution: &mut Solution<'_, '_>) {
    let problem = solution.problem;
    for (id, template) in problem.templates().iter_enumerated().filter(|(_, template)| template.is_static()) {
        let wanted = u64::from(template.pool.spec.replicas.unwrap_or(0));
        for _ in problem.limits[id].nodes..wanted {
            let shape = Shape::empty(id, template, problem.demand.len());
            let Some(quote) = solution.quote(&shape, None) else { break };
            let node = solution.node(shape, Vec::new(), quote, None);
            solution.open_counted(Rc::new(node));
        }
    }
    solution.static_nodes = solution.opened.len();
}

/// Pods that found no node are not counted any more.
fn stop_waiting(solution: &mut Solution<'_, '_>, waiting: &[Waiting]) {
    for lot_waiting in waiting.iter().filter(|waiting| waiting.count > 0) {
        solution.count(
            lot_waiting.lot.variant.class,
            At::Lot(Rc::clone(&lot_waiting.lot)),
            -lot_waiting.count.cast_signed(),
        );
    }
}
