//! A disruption that ends more nodes than may go at once, in parts that do not.
//!
//! Each part opens only the nodes that its pods need. Those that later parts bring find the rest of
//! their room.

use std::rc::Rc;

use super::{Counts, Disruption};
use crate::ids::OpenedId;
use crate::problem::Problem;
use crate::solution::NewNode;

/// How many nodes a command ends at most: the first, and those after it.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) first: usize,
    pub(super) later: usize,
}

impl Sizes {
    /// However many there are.
    pub(super) const WHOLE: Self = Self { first: usize::MAX, later: usize::MAX };
}

/// A new node of the disruption, with the room that is reserved on it.
struct Reserved {
    node: Rc<NewNode>,
    counts: Counts,
    /// What it is called, once a disruption opens it.
    id: Option<OpenedId>,
}

/// The parts of a disruption. So many nodes were opened by earlier disruptions as `opened` says.
pub(super) fn parts(
    whole: Disruption,
    sizes: Sizes,
    mut opened: usize,
    problem: &Problem<'_>,
) -> Vec<Disruption> {
    let mut existing = whole.taken_in;
    let reserved = |(node, counts)| Reserved { node, counts, id: None };
    let mut new: Vec<Reserved> = whole.opened.into_iter().map(reserved).collect();
    let mut remaining = whole.ended;
    let mut parts: Vec<Disruption> = Vec::new();
    while !remaining.is_empty() {
        let size = if parts.is_empty() { sizes.first } else { sizes.later };
        let rest = remaining.split_off(size.clamp(1, remaining.len()));
        let ended = std::mem::replace(&mut remaining, rest);
        let mut moving = Counts::new();
        for pods in ended.iter().flat_map(|(_, pods)| pods) {
            *moving.entry(pods.variant.class).or_default() += pods.count;
        }
        let evictions = moving.values().map(|count| *count as usize).sum();
        let taken_in = existing.iter_mut().map(|(node, counts)| (*node, moved(&mut moving, counts)));
        let taken_in = taken_in.filter(|(_, counts)| !counts.is_empty()).collect();
        let there = new
            .iter_mut()
            .filter_map(|reserved| Some((reserved.id?, moved(&mut moving, &mut reserved.counts))));
        let joined = there.filter(|(_, counts)| !counts.is_empty()).collect();
        let mut opens = Vec::new();
        while let Some(next) = most_wanted(&mut new, &moving) {
            next.id = Some(OpenedId::from(opened));
            opened += 1;
            opens.push((Rc::clone(&next.node), moved(&mut moving, &mut next.counts)));
        }
        let saved: u64 = ended.iter().filter_map(|(node, _)| problem.existing[*node].saves).sum();
        let spent: u64 = opens.iter().map(|(node, _)| node.cost(problem)).sum();
        let saving = saved.cast_signed() - spent.cast_signed();
        let is_replacement = whole.is_replacement;
        parts.push(Disruption { ended, opened: opens, joined, taken_in, saving, evictions, is_replacement });
    }
    parts
}

/// Moves pods to where room is reserved for their like; says which.
fn moved(moving: &mut Counts, reserved: &mut Counts) -> Counts {
    let mut moved = Counts::new();
    for (class, room) in reserved.iter_mut() {
        let Some(waiting) = moving.get_mut(class) else { continue };
        let count = (*waiting).min(*room);
        *waiting -= count;
        *room -= count;
        moved.insert(*class, count);
    }
    for counts in [&mut moved, moving, reserved] {
        counts.retain(|_, count| *count > 0);
    }
    moved
}

/// The node with room for most of the pods, of those that are not open yet; none once all pods have
/// moved. Opened in another order, a consolidation of 40 nodes costs 3.2 % more.
fn most_wanted<'n>(new: &'n mut [Reserved], moving: &Counts) -> Option<&'n mut Reserved> {
    let takes = |reserved: &Reserved| -> u32 {
        reserved.counts.iter().map(|(class, room)| moving.get(class).copied().unwrap_or(0).min(*room)).sum()
    };
    let closed = new.iter_mut().filter(|reserved| reserved.id.is_none());
    closed
        .map(|reserved| (takes(reserved), reserved))
        .filter(|(pods, _)| *pods > 0)
        .max_by_key(|(pods, _)| *pods)
        .map(|(_, reserved)| reserved)
}
