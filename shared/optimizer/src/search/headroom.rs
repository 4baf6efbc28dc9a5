//! Headroom: one of the nodes that are opened for the pods of a pool grows for fill-only pods, as
//! far as these cost no more on it than on a node for them alone.

use super::insert::Inserting;
use crate::amounts::Dimensions;
use crate::ids::{NewNodeId, TemplateId};
use crate::problem::topology::{Affinity, Spreads};
use crate::solution::Solution;

/// Grows a node of each pool that has fill-only pods. Room that nodes have already counts, and what
/// is opened as well.
pub(super) fn grow(solution: &mut Solution<'_, '_>) {
    let problem = solution.problem;
    for (class, of_class) in problem.classes.iter_enumerated().filter(|(_, class)| class.is_fill()) {
        let Some(pool) = of_class.spec.node_selector.values().next() else { continue };
        let is_grown = |template: TemplateId| problem.templates()[template].pool.name == *pool;
        let opened = solution
            .new_nodes()
            .filter(|(_, node)| is_grown(node.shape.template) && !node.is_static(problem))
            .map(|(id, node)| (id, node.shape.load.packed[Dimensions::CPU]));
        let (nodes, cpu): (Vec<NewNodeId>, Vec<i64>) = opened.unzip();
        if nodes.is_empty() {
            continue;
        }
        let each = of_class.request[Dimensions::CPU].max(1);
        let opened_for = u32::try_from(cpu.into_iter().sum::<i64>() / each).unwrap_or(u32::MAX);
        let mut wanted = of_class.count().saturating_sub(opened_for);
        let Some(variant) = problem.variants(class).next() else { continue };
        for node in problem.admitting(variant).iter() {
            wanted -= solution.room_on_existing(
                *node,
                variant,
                wanted,
                Affinity::MustFollow,
                Spreads::HoldInAnyOrder,
            );
        }
        solution.unplaced[class] = wanted;
        Inserting::new(solution, Vec::new()).only_among(nodes).grow(variant);
        solution.unplaced[class] = 0;
    }
    solution.commit();
}
