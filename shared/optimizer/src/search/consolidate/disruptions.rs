//! Disruptions: nodes that do not stay are ended, many at a time, the dearest for what they carry
//! first.
//!
//! The free room of nodes that stay is the first that pods move to; a node that pods move to is not
//! ended by a later disruption. What an earlier run has proposed is tried before anything else: it
//! is to be found again, however much the cluster has changed around it. No disruption buys again
//! what it ends: that node stays instead.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use outrigger_model::labels::CAPACITY_TYPE;
use outrigger_model::{CapacityType, Price};
use outrigger_policy::disruption::DisruptionSettings;
use typed_index_collections::{TiSlice, TiVec, ti_vec};

use super::parts::{Sizes, parts};
use super::{AtOnce, Consolidated, Counts, Disruption, PoolNodes, Start, Unconsolidatable};
use crate::ids::{ClassId, NewNodeId, NodeId, PurchaseId};
use crate::search::construct::recreate;
use crate::search::prices::Prices;
use crate::search::worst_fit::worst_fit;
use crate::solution::{NewNode, Objective, PlacedPods, Solution};

/// What a disruption must do to be kept.
#[derive(Clone, Copy)]
enum Demand<'s> {
    /// Save enough, in commands that end so many nodes each.
    Saving(&'s DisruptionSettings, Sizes),
    /// Place every pod.
    Places,
}

/// The nodes of a pool that may be ended for money, each list in the order in which they go.
#[derive(Default)]
pub(super) struct Parting {
    /// Without pods, and not to stay.
    pub(super) empty: Vec<NodeId>,
    /// With pods, and not to stay.
    pub(super) loaded: Vec<NodeId>,
    /// To stay, unless one can be spared by itself.
    pub(super) keepers: Vec<NodeId>,
}

/// What disruptions come to; less is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Score {
    /// Nano-dollars per hour of all nodes, and what moves count.
    pub(super) cost: u64,
    evictions: usize,
}

/// Disruptions that are carried out one after another.
pub(super) struct Disruptions<'s, 'p, 'a> {
    start: &'s Start<'s, 'p, 'a>,
    solution: Solution<'p, 'a>,
    current: Objective,
    done: Vec<Disruption>,
    unconsolidatable: BTreeMap<NodeId, Unconsolidatable>,
    /// The nodes that pods were moved to.
    takes_in: TiVec<NodeId, bool>,
    /// The nodes that may be ended for money, and may stay instead of what would be bought.
    endable: Vec<NodeId>,
    /// Nano-dollars per hour that the moves count.
    moves: u64,
}

impl<'s, 'p, 'a> Disruptions<'s, 'p, 'a> {
    /// Carries out all disruptions that are worth it, with the nodes of each pool parted so.
    pub(super) fn run_all(start: &'s Start<'s, 'p, 'a>, parting: &[Parting]) -> Self {
        let solution = start.solution.clone();
        let mut disruptions = Self {
            current: solution.objective(),
            takes_in: ti_vec![false; solution.existing.len()],
            endable: parting
                .iter()
                .flat_map(|parting| parting.empty.iter().chain(&parting.loaded))
                .copied()
                .collect(),
            start,
            solution,
            done: Vec::new(),
            unconsolidatable: BTreeMap::new(),
            moves: 0,
        };
        disruptions.run(parting);
        disruptions
    }

    pub(super) fn score(&self) -> Score {
        let evictions = self.done.iter().map(|disruption| disruption.evictions).sum();
        Score { cost: self.current.cost.saturating_add(self.moves), evictions }
    }

    pub(super) fn into_consolidated(self) -> Consolidated<'p, 'a> {
        Consolidated {
            solution: self.solution,
            disruptions: self.done,
            unconsolidatable: self.unconsolidatable,
        }
    }

    fn run(&mut self, parting: &[Parting]) {
        let pools = self.start.pools;
        for pool in pools {
            // What takes room on a node with a pod that could be nowhere else is not known.
            let pool_nodes = pool.nodes.iter().chain(&pool.replaced).copied();
            let stuck: Vec<NodeId> = pool_nodes.filter(|node| !self.start.is_free(*node)).collect();
            self.set_closed(&stuck, true);
            let of_pool = pool.nodes.iter().filter(|node| !self.start.is_free(**node));
            self.unconsolidatable.extend(of_pool.map(|node| (*node, Unconsolidatable::NoPlace(None))));
            self.set_closed(&pool.replaced, true);
        }
        // No pod moves to a node that is to go as well.
        for parting in parting {
            self.set_closed(&parting.empty, true);
            self.set_closed(&parting.loaded, true);
        }
        for node in pools.iter().flat_map(|pool| &pool.replaced) {
            self.end_one(*node, Demand::Places);
        }
        for (pool, parting) in pools.iter().zip(parting) {
            let mut ended = self.end_proposed(pool);
            self.end_many(&parting.empty, pool.empty, &mut ended, pool);
            self.end_many(&parting.loaded, pool.loaded, &mut ended, pool);
        }
        for (pool, parting) in pools.iter().zip(parting) {
            let nodes = parting.keepers.iter().chain(&parting.empty).chain(&parting.loaded);
            for node in
                nodes.copied().filter(|node| !self.unconsolidatable.contains_key(node)).collect::<Vec<_>>()
            {
                if !self.solution.ended[node] {
                    self.end_one(node, Demand::Saving(&pool.settings, Sizes::WHOLE));
                }
            }
        }
    }

    fn set_closed(&mut self, nodes: &[NodeId], closed: bool) {
        for node in nodes {
            self.solution.closed[*node] = closed;
        }
    }

    /// Ends what an earlier run has proposed for a pool, as far as that is worth it still; says how
    /// many nodes.
    fn end_proposed(&mut self, pool: &PoolNodes) -> usize {
        let pool_nodes: BTreeSet<NodeId> = pool.nodes.iter().copied().collect();
        let may_end = |node: &NodeId| pool_nodes.contains(node) && self.start.is_free(*node);
        let proposed = self.start.proposed.iter();
        let of_pool: Vec<&Vec<NodeId>> = proposed.filter(|nodes| nodes.iter().all(may_end)).collect();
        let mut ended = 0;
        for nodes in of_pool {
            let is_free = nodes.iter().all(|node| !self.takes_in[*node] && !self.solution.ended[*node]);
            if is_free && self.end_as_proposed(nodes, Demand::Saving(&pool.settings, Sizes::WHOLE)) {
                ended += nodes.iter().filter(|node| self.solution.ended[**node]).count();
            }
        }
        ended
    }

    /// Ends nodes as an earlier run has proposed. What was to take their pods in then may be to go
    /// now: it stays where nothing else has room for them. Else two runs could each propose what
    /// the other keeps, and nothing would end.
    fn end_as_proposed(&mut self, nodes: &[NodeId], demand: Demand<'_>) -> bool {
        if self.try_ending(nodes, demand).is_ok() {
            return true;
        }
        let is_proposed = |node: &NodeId| self.start.proposed.iter().any(|nodes| nodes.contains(node));
        let going = self.endable.iter().copied().filter(|node| self.is_going(*node));
        let others: Vec<NodeId> = going.filter(|node| !is_proposed(node)).collect();
        self.set_closed(&others, false);
        let is_ended = self.try_ending(nodes, demand).is_ok();
        let untouched: Vec<NodeId> = others.into_iter().filter(|node| !self.takes_in[*node]).collect();
        self.set_closed(&untouched, true);
        is_ended
    }

    /// Ends nodes of a pool, as many at a time as is worth it; the others are opened to the pods of
    /// others. `ended` counts those of the pool.
    fn end_many(&mut self, nodes: &[NodeId], at_once: AtOnce, ended: &mut usize, pool: &PoolNodes) {
        let mut remaining = nodes.to_vec();
        let mut refused = 0;
        loop {
            remaining.retain(|node| self.is_going(*node));
            if remaining.is_empty() {
                return;
            }
            let sizes = Sizes { first: at_once.next(*ended).max(1), later: at_once.later.max(1) };
            let demand = Demand::Saving(&pool.settings, sizes);
            // With patience nodes go as each has wasted enough. Without, all go for one cluster,
            // however many at a time.
            let together = if pool.settings.patience > 0.0 { sizes.first } else { remaining.len() };
            let size_max = together.min(remaining.len());
            let mut size = if is_tried_together(refused) { size_max } else { 1 };
            while let Err(reason) = self.end_most(&remaining[..size], demand) {
                if size == 1 {
                    self.set_closed(&remaining[..1], false);
                    self.unconsolidatable.insert(remaining[0], reason);
                    refused += 1;
                    break;
                }
                size /= 2;
            }
            *ended += remaining[..size].iter().filter(|node| self.solution.ended[**node]).count();
        }
    }

    /// Whether a node is to go and has not been looked at yet.
    fn is_going(&self, node: NodeId) -> bool {
        self.solution.closed[node] && !self.solution.ended[node]
    }

    /// Ends nodes if that is worth it; else nothing is changed. What would be bought again stays
    /// instead and is opened to the pods of others, be it of these nodes or another that is to go.
    fn end_most(&mut self, nodes: &[NodeId], demand: Demand<'_>) -> Result<(), Unconsolidatable> {
        let mut stay = Vec::new();
        let refused = loop {
            let going: Vec<NodeId> = nodes.iter().copied().filter(|node| self.is_going(*node)).collect();
            if going.is_empty() {
                return Ok(());
            }
            if (self.solution.problem.options.time_is_up)() {
                break Unconsolidatable::NotReached;
            }
            match self.try_ending(&going, demand) {
                Ok(()) => return Ok(()),
                Err(Refusal::Unconsolidatable(reason)) => break reason,
                Err(Refusal::BoughtAgain(again)) => {
                    self.set_closed(&again, false);
                    stay.extend(again);
                }
            }
        };
        self.set_closed(&stay, true);
        Err(refused)
    }

    /// Says whether it is ended.
    fn end_one(&mut self, node: NodeId, demand: Demand<'_>) -> bool {
        let refused = if !self.start.is_free(node) {
            Some(Unconsolidatable::NoPlace(None))
        } else if self.takes_in[node] {
            Some(Unconsolidatable::TakesIn)
        } else if (self.solution.problem.options.time_is_up)() {
            Some(Unconsolidatable::NotReached)
        } else {
            self.try_ending(&[node], demand).err().map(Refusal::of_one_node)
        };
        self.unconsolidatable.extend(refused.map(|reason| (node, reason)));
        refused.is_none()
    }

    /// Ends some nodes and places their pods anew, if that does what it must; else nothing is
    /// changed.
    fn try_ending(&mut self, nodes: &[NodeId], demand: Demand<'_>) -> Result<(), Refusal> {
        let unplaced_before = self.solution.unplaced.clone();
        for node in nodes {
            self.solution.end(*node);
        }
        let opened = self.reschedule(&unplaced_before, demand)?;
        let objective = self.solution.objective();
        let saving = self.current.cost.cast_signed() - objective.cost.cast_signed();
        let evictions: usize = nodes.iter().map(|node| self.start.evictions(*node)).sum();
        let judged = self
            .judge_places(&objective, &unplaced_before)
            .map_err(Refusal::Unconsolidatable)
            .and_then(|()| match demand {
                Demand::Saving(settings, _) => self.judge(nodes, &opened, saving, evictions, settings),
                Demand::Places => Ok(()),
            });
        let parted = judged.and_then(|()| self.parted(nodes, &opened, saving, demand));
        let parts = match parted {
            Ok(parts) => parts,
            Err(refusal) => {
                self.solution.go_back_to_start();
                return Err(refusal);
            }
        };
        for (node, _) in parts.iter().flat_map(|disruption| &disruption.taken_in) {
            self.takes_in[*node] = true;
        }
        self.solution.commit();
        self.current = objective;
        if let Demand::Saving(settings, _) = demand {
            // A launch is as much trouble as a pod that moves.
            let price = settings.evictions_per_hour(evictions + opened.len()).nanos();
            self.moves = self.moves.saturating_add(price);
        }
        self.done.extend(parts);
        Ok(())
    }

    /// The disruption that ends some nodes, in as many parts as it takes. Each must save enough by
    /// itself.
    fn parted(
        &self,
        nodes: &[NodeId],
        opened: &[NewNodeId],
        saving: i64,
        demand: Demand<'_>,
    ) -> Result<Vec<Disruption>, Refusal> {
        let whole = Disruption {
            ended: nodes.iter().map(|node| (*node, self.start.pods_of(*node).to_vec())).collect(),
            opened: opened
                .iter()
                .filter_map(|id| self.solution.opened[*id].clone())
                .map(|node| (Rc::clone(&node), node.counts()))
                .collect(),
            joined: Vec::new(),
            taken_in: self.taken_in(),
            saving,
            evictions: nodes.iter().map(|node| self.start.evictions(*node)).sum(),
            is_replacement: matches!(demand, Demand::Places),
        };
        let (settings, sizes) = match demand {
            Demand::Saving(settings, sizes) if nodes.len() > sizes.first => (settings, sizes),
            _ => return Ok(vec![whole]),
        };
        let opened_before = self.done.iter().map(|disruption| disruption.opened.len()).sum();
        let parts = parts(whole, sizes, opened_before, self.solution.problem);
        let refused = parts.iter().find_map(|part| {
            let ended: Vec<NodeId> = part.ended.iter().map(|(node, _)| *node).collect();
            self.judge_saving(&ended, part.saving, part.evictions, settings).err()
        });
        refused.map_or(Ok(parts), |reason| Err(Refusal::Unconsolidatable(reason)))
    }

    /// Places the pods of nodes that were just ended: where kube-scheduler would put them, if they
    /// all find room so, else with new nodes, which are returned. What only saves money must not
    /// hang on room that kube-scheduler would have to pack; then all is as before.
    fn reschedule(
        &mut self,
        unplaced_before: &TiSlice<ClassId, u32>,
        demand: Demand<'_>,
    ) -> Result<Vec<NewNodeId>, Refusal> {
        let order = &self.start.order;
        let spread = match demand {
            Demand::Saving(..) => worst_fit(&mut self.solution, order, unplaced_before).map_err(Some),
            Demand::Places => Err(None),
        };
        let Err(class) = spread else { return Ok(Vec::new()) };
        // What room is worth to the pods of an earlier disruption says little about these.
        let opened = recreate(&mut self.solution, order, &mut Prices::default());
        match class.filter(|_| opened.is_empty() && self.solution.unplaced == unplaced_before) {
            Some(class) => {
                self.solution.go_back_to_start();
                Err(Refusal::Unconsolidatable(Unconsolidatable::OnlyPacked(class)))
            }
            None => Ok(opened),
        }
    }

    /// Whether all pods that had a place have one, and all rules hold as they did.
    fn judge_places(
        &self,
        objective: &Objective,
        unplaced_before: &TiSlice<ClassId, u32>,
    ) -> Result<(), Unconsolidatable> {
        if objective.holds_as(&self.current) {
            return Ok(());
        }
        let mut unplaced = self.solution.unplaced.iter_enumerated();
        let displaced = unplaced.find(|(class, count)| **count > unplaced_before[*class]);
        Err(Unconsolidatable::NoPlace(displaced.map(|(class, _)| class)))
    }

    /// Whether a disruption saves enough that ends some nodes and opens others.
    fn judge(
        &self,
        nodes: &[NodeId],
        opened: &[NewNodeId],
        saving: i64,
        evictions: usize,
        settings: &DisruptionSettings,
    ) -> Result<(), Refusal> {
        let again = self.bought_again(nodes, opened);
        if !again.is_empty() {
            return Err(Refusal::BoughtAgain(again));
        }
        self.judge_saving(nodes, saving, evictions, settings)
            .and_then(|()| self.judge_spot(nodes, opened, settings))
            .map_err(Refusal::Unconsolidatable)
    }

    /// Whether ending nodes saves enough for so many evictions.
    fn judge_saving(
        &self,
        nodes: &[NodeId],
        saving: i64,
        evictions: usize,
        settings: &DisruptionSettings,
    ) -> Result<(), Unconsolidatable> {
        let least = settings.demanded_saving(Price::from_nanos(self.cost(nodes)), evictions);
        let gains = saving > 0 || saving == 0 && evictions == 0;
        let is_enough = gains && u64::try_from(saving).is_ok_and(|saving| Price::from_nanos(saving) >= least);
        if is_enough { Ok(()) } else { Err(Unconsolidatable::Saves { saving, least }) }
    }

    /// Nano-dollars per hour of existing nodes.
    fn cost(&self, nodes: &[NodeId]) -> u64 {
        nodes.iter().filter_map(|node| self.solution.problem.existing[*node].saves).sum()
    }

    /// Whether spot that takes the place of spot has enough types to choose from that cost less:
    /// else EC2 takes it back soon (Karpenter's rule for spot-to-spot consolidation, there for
    /// single nodes only).
    fn judge_spot(
        &self,
        nodes: &[NodeId],
        opened: &[NewNodeId],
        settings: &DisruptionSettings,
    ) -> Result<(), Unconsolidatable> {
        let (problem, cost) = (self.solution.problem, self.cost(nodes));
        let is_spot =
            |node: &NodeId| problem.existing[*node].label(CAPACITY_TYPE) == Some(CapacityType::Spot.as_str());
        if !nodes.iter().any(is_spot) {
            return Ok(());
        }
        let opened = opened.iter().filter_map(|id| self.solution.opened[*id].as_ref());
        let spot = opened.filter(|node| node.quote.capacity_type() == CapacityType::Spot);
        let cheaper = |node: &Rc<NewNode>| {
            let template = &problem.templates()[node.shape.template];
            let fitting = self.solution.fitting(&node.shape, node.quote);
            let price = |purchase: &PurchaseId| template.cheapest(*purchase, fitting.zones);
            fitting
                .purchases
                .iter()
                .filter(|purchase| price(purchase).is_some_and(|price| price < cost))
                .count()
        };
        match spot.map(cheaper).min() {
            Some(types) if types < settings.spot_to_spot_types => Err(Unconsolidatable::TooFewTypes(types)),
            _ => Ok(()),
        }
    }

    /// The nodes that are ended, now or later, although new ones are the same purchase: for each of
    /// these the one with the most pods, rather one that would be ended now.
    fn bought_again(&self, nodes: &[NodeId], opened: &[NewNodeId]) -> Vec<NodeId> {
        let mut again: Vec<NodeId> = Vec::new();
        let kinds = &self.start.kinds;
        let going = || self.endable.iter().copied().filter(|node| self.is_going(*node));
        for new in opened.iter().filter_map(|id| self.solution.opened[*id].as_ref()) {
            let bought = kinds.bought_by(self.solution.problem, new);
            let is_like = |node: &NodeId| bought.contains(&kinds.kind_of(*node)) && !again.contains(node);
            let most = |candidates: &mut dyn Iterator<Item = NodeId>| {
                candidates.filter(is_like).max_by_key(|node| (self.start.evictions(*node), Reverse(*node)))
            };
            let like = most(&mut nodes.iter().copied()).or_else(|| most(&mut going()));
            again.extend(like);
        }
        again
    }

    /// What came to existing nodes that stay.
    fn taken_in(&self) -> Vec<(NodeId, Counts)> {
        let changed = self.solution.changed_existing().into_iter();
        let changed = changed.filter(|(node, _)| !self.solution.ended[*node]);
        changed
            .map(|(node, before)| (node, added(&before.pods, &self.solution.existing[node].pods)))
            .collect()
    }
}

/// Why a disruption is not kept.
enum Refusal {
    Unconsolidatable(Unconsolidatable),
    /// It would buy these nodes again.
    BoughtAgain(Vec<NodeId>),
}

impl Refusal {
    /// Why a node stays that was to go by itself.
    fn of_one_node(self) -> Unconsolidatable {
        match self {
            Self::Unconsolidatable(reason) => reason,
            Self::BoughtAgain(_) => Unconsolidatable::Saves { saving: 0, least: Price::ZERO },
        }
    }
}

/// Whether nodes are tried together once so many were refused by themselves: always at first, then
/// ever more seldom, since the time for a node must not grow with how many may end at once. One by
/// one, a consolidation of 40 nodes costs 43 % more.
fn is_tried_together(refused: usize) -> bool {
    const ALWAYS: usize = 32;
    refused < ALWAYS || refused.is_power_of_two()
}

/// How many pods of each class came to a node.
fn added(before: &[PlacedPods], after: &[PlacedPods]) -> Counts {
    let mut added = Counts::new();
    for pods in after {
        *added.entry(pods.variant.class).or_default() += pods.count;
    }
    for pods in before {
        *added.entry(pods.variant.class).or_default() -= pods.count;
    }
    added.retain(|_, count| *count > 0);
    added
}
