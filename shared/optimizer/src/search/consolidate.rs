//! Consolidation: existing nodes are ended and their pods placed anew, as long as that saves more
//! than it disturbs.
//!
//! Which nodes stay decides what it costs (`keepers`): they are there to be filled by the pods of
//! the others, which go in `disruptions`. Each disruption that is kept is a command: the nodes that
//! it ends, and the nodes that it opens for their pods.

mod disruptions;
mod keepers;
mod kinds;
mod parts;

use std::collections::BTreeMap;
use std::rc::Rc;

use outrigger_model::Price;
use outrigger_policy::disruption::DisruptionSettings;
use typed_index_collections::TiVec;

use super::order::classes_in_order;
use super::prices::Prices;
use super::{assign, construct};
use crate::ids::{ClassId, NodeId, OpenedId};
use crate::problem::Problem;
use crate::solution::{NewNode, PlacedPods, Solution};
use kinds::Kinds;

/// The nodes of a pool that may be ended, and when that is worth it.
pub struct PoolNodes {
    /// Nodes that are to be replaced whatever that costs, the first to go first.
    pub replaced: Vec<NodeId>,
    /// The others.
    pub nodes: Vec<NodeId>,
    /// The pool's numbers.
    pub settings: DisruptionSettings,
    /// How many empty ones may go.
    pub empty: AtOnce,
    /// How many others may go.
    pub loaded: AtOnce,
}

/// How many nodes may be disrupted at once.
#[derive(Clone, Copy, Debug)]
pub struct AtOnce {
    /// Now, beside those that are disrupted already.
    pub now: usize,
    /// When none is.
    pub later: usize,
}

impl AtOnce {
    /// How many nodes the next disruption may end, once some are ended.
    fn next(&self, ended: usize) -> usize {
        if self.now > ended { (self.now - ended).min(self.later) } else { self.later }
    }
}

/// How many pods of each class.
pub type Counts = BTreeMap<ClassId, u32>;

/// A disruption that is worth it.
pub struct Disruption {
    /// The existing nodes that it ends, with the pods that were on each.
    pub ended: Vec<(NodeId, Vec<PlacedPods>)>,
    /// The nodes that it opens, each with what it takes in at once; the rest comes to it in later
    /// disruptions.
    pub opened: Vec<(Rc<NewNode>, Counts)>,
    /// What nodes take in that an earlier disruption has opened.
    pub joined: Vec<(OpenedId, Counts)>,
    /// What existing nodes take in.
    pub taken_in: Vec<(NodeId, Counts)>,
    /// Nano-dollars per hour that it saves; less than nothing where a replacement costs more.
    pub saving: i64,
    /// How many pods it evicts.
    pub evictions: usize,
    /// Whether its nodes are replaced whatever that costs.
    pub is_replacement: bool,
}

/// Why a node that might be ended is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unconsolidatable {
    /// Pods of it, of this class where that is known, have no place elsewhere that holds to all
    /// rules as they hold now.
    NoPlace(Option<ClassId>),
    /// Pods of it have a place elsewhere as they would be packed there, but one of this class has
    /// none where kube-scheduler spreads them.
    OnlyPacked(ClassId),
    /// Ending it saves too little, or nothing.
    Saves {
        /// Nano-dollars per hour.
        saving: i64,
        /// What it must save.
        least: Price,
    },
    /// So few types of spot are cheaper.
    TooFewTypes(usize),
    /// Pods of other nodes move to it.
    TakesIn,
    /// The time was over before it was looked at.
    NotReached,
}

/// What consolidation comes to.
pub struct Consolidated<'p, 'a> {
    /// Where all pods are after the disruptions.
    pub solution: Solution<'p, 'a>,
    /// The disruptions, in order.
    pub disruptions: Vec<Disruption>,
    /// The nodes that stay, of those that might be ended.
    pub unconsolidatable: BTreeMap<NodeId, Unconsolidatable>,
}

/// Ends nodes as long as that is worth it. `proposed` names those that an earlier run would end
/// together.
pub fn consolidate<'p, 'a>(
    problem: &'p Problem<'a>,
    pools: &[PoolNodes],
    proposed: &[Vec<NodeId>],
) -> Consolidated<'p, 'a> {
    let mut solution = Solution::empty(problem);
    let order = classes_in_order(problem);
    assign::place_nominated(&mut solution);
    let homes = assign::place_running(&mut solution);
    construct::construct(&mut solution, &order, &mut Prices::default());
    solution.commit();
    let kinds = Kinds::new(problem);
    let start = Start { solution, order, homes, pools, proposed, kinds };
    keepers::best(&start).into_consolidated()
}

/// What every attempt begins with.
struct Start<'s, 'p, 'a> {
    /// All pods where they are.
    solution: Solution<'p, 'a>,
    /// The classes in the order in which their pods are placed.
    order: Vec<ClassId>,
    /// The pods that may move, of each existing node; none where one of them could be nowhere else.
    homes: TiVec<NodeId, Option<Vec<PlacedPods>>>,
    pools: &'s [PoolNodes],
    /// The nodes that an earlier run would end together.
    proposed: &'s [Vec<NodeId>],
    kinds: Kinds<'p>,
}

impl Start<'_, '_, '_> {
    fn pods_of(&self, node: NodeId) -> &[PlacedPods] {
        self.homes[node].as_deref().unwrap_or_default()
    }

    /// How many pods of a node would be evicted.
    fn evictions(&self, node: NodeId) -> usize {
        self.pods_of(node).iter().map(|pods| pods.count as usize).sum()
    }

    /// Whether all pods of a node could be elsewhere, as far as that is known of them alone.
    fn is_free(&self, node: NodeId) -> bool {
        self.homes[node].is_some()
    }
}
