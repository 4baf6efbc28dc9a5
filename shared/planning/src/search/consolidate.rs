//! Consolidation: existing nodes are ended and their pods placed anew, as long as that saves more than it disturbs.
//!
//! It is ruin and recreate, and each step that is kept is a command: the nodes that it ends, and the nodes that it
//! opens for their pods. The dearest nodes for what they carry go first, many at a time. Nodes that are worth their
//! price stay, and their free room is the first that pods move to; a node that pods move to is not ended by a later
//! step. What an earlier run has proposed is tried before anything else: it is to be found again, however much the
//! cluster has changed around it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outrigger_model::labels::CAPACITY_TYPE;
use outrigger_model::{CapacityType, Price};

use super::construct::recreate;
use super::order::classes_in_order;
use super::prices::Prices;
use super::worst_fit::worst_fit;
use super::worth::Endable;
use super::{assign, construct, worth};
use crate::disruption::{DisruptionSettings, Evictions};
use crate::problem::Problem;
use crate::solution::{NewNode, Objective, Occupied, PlacedPods, Solution};

/// The nodes of a pool that may be ended, and when that is worth it.
pub(crate) struct PoolNodes {
    /// Nodes that are to be replaced whatever that costs, by their places among the existing ones, the first to go
    /// first.
    pub(crate) replaced: Vec<usize>,
    /// The others, by their places.
    pub(crate) nodes: Vec<usize>,
    /// As how many evictions the pods of each of these count.
    pub(crate) counted: BTreeMap<usize, usize>,
    pub(crate) settings: DisruptionSettings,
    pub(crate) empty: AtOnce,
    pub(crate) loaded: AtOnce,
}

/// How many nodes may be disrupted at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtOnce {
    /// Now, beside those that are disrupted already.
    pub(crate) now: usize,
    /// When none is.
    pub(crate) later: usize,
}

impl AtOnce {
    /// How many nodes the next step may end, once some are ended.
    fn next(&self, ended: usize) -> usize {
        if self.now > ended { (self.now - ended).min(self.later) } else { self.later }
    }
}

/// A step that is worth it.
pub(crate) struct Step {
    /// The existing nodes that it ends, with the pods that were on each.
    pub(crate) ended: Vec<(usize, Vec<PlacedPods>)>,
    /// The nodes that it opens.
    pub(crate) opened: Vec<Rc<NewNode>>,
    /// What existing nodes take in, by class.
    pub(crate) taken_in: Vec<(usize, BTreeMap<usize, u32>)>,
    /// Nano-dollars per hour that it saves; less than nothing where a replacement costs more.
    pub(crate) saving: i64,
    /// How many pods it evicts.
    pub(crate) evictions: u32,
    /// Whether its nodes are replaced whatever that costs.
    pub(crate) is_replacement: bool,
}

/// What a step must do to be kept.
#[derive(Clone, Copy)]
enum Demand<'s> {
    /// Save enough.
    Saving(&'s DisruptionSettings),
    /// Place every pod.
    Places,
}

/// Why a node that might be ended is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stays {
    /// Pods of it, of this class where that is known, have no place elsewhere that holds to all rules as they hold now.
    NoPlace(Option<usize>),
    /// Pods of it have a place elsewhere as they would be packed there, but one of this class has none where
    /// kube-scheduler spreads them.
    OnlyPacked(usize),
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
pub(crate) struct Consolidated<'p, 'a> {
    pub(crate) solution: Solution<'p, 'a>,
    pub(crate) steps: Vec<Step>,
    /// The nodes that stay, of those that might be ended.
    pub(crate) stays: BTreeMap<usize, Stays>,
}

/// Ends nodes as long as that is worth it. `proposed` names those that an earlier run would end together, by their
/// places.
pub(crate) fn consolidate<'p, 'a>(
    problem: &'p Problem<'a>,
    pools: &[PoolNodes],
    proposed: &[Vec<usize>],
) -> Consolidated<'p, 'a> {
    let mut solution = Solution::empty(problem);
    let order = classes_in_order(problem);
    assign::place_nominated(&mut solution);
    let homes = assign::place_running(&mut solution);
    construct::construct(&mut solution, &order, &mut Prices::default());
    solution.commit();
    let current = solution.objective();
    let mut state = Consolidating {
        solution: &mut solution,
        order: &order,
        homes: &homes,
        current,
        steps: Vec::new(),
        stays: BTreeMap::new(),
        takes_in: vec![false; problem.existing.len()],
        counted: vec![0; problem.existing.len()],
    };
    for (node, evictions) in pools.iter().flat_map(|pool| &pool.counted) {
        state.counted[*node] = *evictions;
    }
    state.run(pools, proposed);
    let (steps, stays) = (state.steps, state.stays);
    Consolidated { solution, steps, stays }
}

struct Consolidating<'s, 'p, 'a> {
    solution: &'s mut Solution<'p, 'a>,
    order: &'s [usize],
    /// The pods that may move, of each existing node; none where one of them could be nowhere else.
    homes: &'s [Option<Vec<PlacedPods>>],
    current: Objective,
    steps: Vec<Step>,
    stays: BTreeMap<usize, Stays>,
    /// The nodes that pods were moved to.
    takes_in: Vec<bool>,
    /// As how many evictions the pods of each node count.
    counted: Vec<usize>,
}

impl Consolidating<'_, '_, '_> {
    fn run(&mut self, pools: &[PoolNodes], proposed: &[Vec<usize>]) {
        // What takes room on a node with a pod that could be nowhere else is not known.
        let all = pools.iter().flat_map(|pool| pool.nodes.iter().chain(&pool.replaced));
        let stuck: Vec<usize> = all.copied().filter(|node| self.homes[*node].is_none()).collect();
        self.set_closed(&stuck, true);
        let mut sorted = self.sorted(pools);
        // No pod moves to a node that is to go as well.
        for (pool, sorted) in pools.iter().zip(&sorted) {
            self.set_closed(&pool.replaced, true);
            self.set_closed(&sorted.empty, true);
            self.set_closed(&sorted.loaded, true);
        }
        for node in pools.iter().flat_map(|pool| &pool.replaced) {
            self.end_one(*node, Demand::Places);
        }
        for (pool, sorted) in pools.iter().zip(&mut sorted) {
            let mut ended = self.end_proposed(pool, proposed);
            sorted.retain(|node| !self.solution.ended[node]);
            self.end_many(&sorted.empty, pool.empty, &mut ended, &pool.settings);
            self.end_many(&sorted.loaded, pool.loaded, &mut ended, &pool.settings);
        }
        for (pool, sorted) in pools.iter().zip(&sorted) {
            for node in &sorted.worthy {
                self.end_one(*node, Demand::Saving(&pool.settings));
            }
        }
    }

    /// The nodes of each pool that cost more than they are worth, by how much of their price that is, and the others.
    fn sorted(&mut self, pools: &[PoolNodes]) -> Vec<Sorted> {
        let nodes = pools.iter().flat_map(|pool| &pool.nodes);
        let stuck = nodes.filter(|node| self.homes[**node].is_none());
        self.stays.extend(stuck.map(|node| (*node, Stays::NoPlace(None))));
        let mut all = Vec::new();
        for pool in pools {
            let free = pool.nodes.iter().filter(|node| self.homes[**node].is_some());
            all.extend(free.map(|node| Endable {
                node: *node,
                settings: &pool.settings,
                pods: self.pods_of(*node),
                evictions: self.counted[*node],
            }));
        }
        let excess = worth::excess(self.solution, &all);
        let excess: BTreeMap<usize, f64> = all.iter().map(|it| it.node).zip(excess).collect();
        let of_pool = |pool: &PoolNodes| {
            let known = pool.nodes.iter().filter_map(|node| Some((*excess.get(node)?, *node)));
            let mut nodes: Vec<(f64, usize)> = known.collect();
            nodes.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.cmp(y)));
            let wasteful = nodes.iter().filter(|(excess, _)| *excess > 0.0).map(|(_, node)| *node);
            let (empty, loaded) = wasteful.partition(|node| self.pods_of(*node).is_empty());
            let worthy = nodes.iter().filter(|(excess, _)| *excess <= 0.0).map(|(_, node)| *node).collect();
            Sorted { empty, loaded, worthy }
        };
        pools.iter().map(of_pool).collect()
    }

    fn pods_of(&self, node: usize) -> &[PlacedPods] {
        self.homes[node].as_deref().unwrap_or_default()
    }

    fn set_closed(&mut self, nodes: &[usize], closed: bool) {
        for node in nodes {
            self.solution.closed[*node] = closed;
        }
    }

    /// Ends what an earlier run has proposed for a pool, as far as that is worth it still; says how many nodes.
    fn end_proposed(&mut self, pool: &PoolNodes, proposed: &[Vec<usize>]) -> usize {
        let known: BTreeSet<usize> = pool.nodes.iter().copied().collect();
        let may_end = |node: &usize| known.contains(node) && self.homes[*node].is_some();
        let of_pool: Vec<&Vec<usize>> = proposed.iter().filter(|nodes| nodes.iter().all(may_end)).collect();
        let mut ended = 0;
        for nodes in of_pool {
            let is_free = nodes.iter().all(|node| !self.takes_in[*node] && !self.solution.ended[*node]);
            if is_free && self.try_ending(nodes, Demand::Saving(&pool.settings)).is_ok() {
                ended += nodes.len();
            }
        }
        ended
    }

    /// Ends nodes, as many at a time as is worth it; those that are not worth it are opened to the pods of others.
    /// `ended` counts those of the pool.
    fn end_many(
        &mut self,
        nodes: &[usize],
        at_once: AtOnce,
        ended: &mut usize,
        settings: &DisruptionSettings,
    ) {
        let mut left = nodes;
        while !left.is_empty() {
            let mut size = at_once.next(*ended).clamp(1, left.len());
            while size > 1 && self.try_ending(&left[..size], Demand::Saving(settings)).is_err() {
                size /= 2;
            }
            if size == 1 && !self.end_one(left[0], Demand::Saving(settings)) {
                self.set_closed(&left[..1], false);
            } else {
                *ended += size;
            }
            left = &left[size..];
        }
    }

    /// Says whether it is ended.
    fn end_one(&mut self, node: usize, demand: Demand<'_>) -> bool {
        let ended = if self.homes[node].is_none() {
            Err(Stays::NoPlace(None))
        } else if self.takes_in[node] {
            Err(Stays::TakesIn)
        } else if (self.solution.problem.options.time_is_up)() {
            Err(Stays::NotReached)
        } else {
            self.try_ending(&[node], demand)
        };
        if let Err(stays) = ended {
            self.stays.insert(node, stays);
        }
        ended.is_ok()
    }

    /// Ends some nodes and places their pods anew, if that does what it must; else nothing is changed.
    fn try_ending(&mut self, nodes: &[usize], demand: Demand<'_>) -> Result<(), Stays> {
        let before: Vec<Rc<Occupied<'_>>> = self.solution.existing.clone();
        let left = self.solution.left.clone();
        for node in nodes {
            self.solution.end(*node);
        }
        let opened = self.place(&left, demand)?;
        let found = self.solution.objective();
        let saving = self.current.cost.cast_signed() - found.cost.cast_signed();
        let evictions: u32 = nodes.iter().map(|node| evictions(self.pods_of(*node))).sum();
        let counted = nodes.iter().map(|node| self.counted[*node]).sum();
        let moved = Evictions { pods: evictions as usize, counted };
        let judged = self.judge_places(&found, &left).and_then(|()| match demand {
            Demand::Saving(settings) => self.judge(nodes, &opened, saving, moved, settings),
            Demand::Places => Ok(()),
        });
        if let Err(stays) = judged {
            self.solution.go_back_to_start();
            return Err(stays);
        }
        let taken_in = self.taken_in(&before);
        self.solution.commit();
        self.current = found;
        self.steps.push(Step {
            ended: nodes.iter().map(|node| (*node, self.pods_of(*node).to_vec())).collect(),
            opened: opened.iter().filter_map(|place| self.solution.opened[*place].clone()).collect(),
            taken_in,
            saving,
            evictions,
            is_replacement: matches!(demand, Demand::Places),
        });
        Ok(())
    }

    /// Places the pods of nodes that were just ended: where kube-scheduler would put them, if they all find room so,
    /// else with new nodes, which are returned. What only saves money must not hang on room that kube-scheduler would
    /// have to pack; then all is as before.
    fn place(&mut self, left_before: &[u32], demand: Demand<'_>) -> Result<Vec<usize>, Stays> {
        let spread = match demand {
            Demand::Saving(_) => worst_fit(self.solution, self.order, left_before).map_err(Some),
            Demand::Places => Err(None),
        };
        let Err(class) = spread else { return Ok(Vec::new()) };
        // What room is worth to the pods of an earlier step says little about these.
        let opened = recreate(self.solution, self.order, &mut Prices::default());
        match class.filter(|_| opened.is_empty() && self.solution.left == left_before) {
            Some(class) => {
                self.solution.go_back_to_start();
                Err(Stays::OnlyPacked(class))
            }
            None => Ok(opened),
        }
    }

    /// Whether all pods that had a place have one, and all rules hold as they did.
    fn judge_places(&self, found: &Objective, left_before: &[u32]) -> Result<(), Stays> {
        if found.holds_as(&self.current) {
            return Ok(());
        }
        let mut left = self.solution.left.iter().zip(left_before);
        Err(Stays::NoPlace(left.position(|(left, before)| left > before)))
    }

    /// Whether a step saves enough that ends some nodes and opens others.
    fn judge(
        &self,
        nodes: &[usize],
        opened: &[usize],
        saving: i64,
        evictions: Evictions,
        settings: &DisruptionSettings,
    ) -> Result<(), Stays> {
        let cost = nodes.iter().filter_map(|node| self.solution.problem.existing[*node].saves).sum();
        let least = settings.demanded_saving(Price::from_nanos(cost), evictions);
        if u64::try_from(saving).is_ok_and(|saving| saving > 0 && Price::from_nanos(saving) >= least) {
            self.judge_spot(nodes, opened, cost, settings)
        } else {
            Err(Stays::Saves { saving, least })
        }
    }

    /// Whether spot that takes the place of spot has enough types to choose from that cost less: else EC2 takes it
    /// back soon (Karpenter's rule for spot-to-spot consolidation, there for single nodes only).
    fn judge_spot(
        &self,
        nodes: &[usize],
        opened: &[usize],
        cost: u64,
        settings: &DisruptionSettings,
    ) -> Result<(), Stays> {
        let problem = self.solution.problem;
        let is_spot =
            |node: &usize| problem.existing[*node].label(CAPACITY_TYPE) == Some(CapacityType::Spot.as_str());
        if !nodes.iter().any(is_spot) {
            return Ok(());
        }
        let opened = opened.iter().filter_map(|place| self.solution.opened[*place].as_ref());
        let spot = opened.filter(|node| node.quote.capacity_type() == CapacityType::Spot);
        let cheaper = |node: &Rc<NewNode>| {
            let template = &problem.templates()[node.shape.template];
            let fitting = self.solution.fitting(&node.shape, node.quote);
            let price = |purchase: &usize| template.cheapest(*purchase, fitting.zones);
            fitting.purchases.iter().filter(|it| price(it).is_some_and(|price| price < cost)).count()
        };
        match spot.map(cheaper).min() {
            Some(types) if types < settings.spot_to_spot_types => Err(Stays::TooFewTypes(types)),
            _ => Ok(()),
        }
    }

    /// What came to existing nodes since they were as given.
    fn taken_in(&mut self, before: &[Rc<Occupied<'_>>]) -> Vec<(usize, BTreeMap<usize, u32>)> {
        let mut taken_in = Vec::new();
        for (node, before) in before.iter().enumerate() {
            let after = &self.solution.existing[node];
            if !Rc::ptr_eq(before, after) && !self.solution.ended[node] {
                self.takes_in[node] = true;
                taken_in.push((node, added(&before.pods, &after.pods)));
            }
        }
        taken_in
    }
}

/// The nodes of a pool by what becomes of them.
struct Sorted {
    /// Without pods, and not worth their price.
    empty: Vec<usize>,
    /// With pods, and not worth their price.
    loaded: Vec<usize>,
    /// Worth their price, as far as that can be told from them alone.
    worthy: Vec<usize>,
}

impl Sorted {
    fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        for nodes in [&mut self.empty, &mut self.loaded, &mut self.worthy] {
            nodes.retain(|node| keep(*node));
        }
    }
}

fn evictions(pods: &[PlacedPods]) -> u32 {
    pods.iter().map(|pods| pods.count).sum()
}

/// How many pods of each class came to a node.
fn added(before: &[PlacedPods], after: &[PlacedPods]) -> BTreeMap<usize, u32> {
    let mut added: BTreeMap<usize, u32> = BTreeMap::new();
    for pods in after {
        *added.entry(pods.class).or_default() += pods.count;
    }
    for pods in before {
        *added.entry(pods.class).or_default() -= pods.count;
    }
    added.retain(|_, count| *count > 0);
    added
}
