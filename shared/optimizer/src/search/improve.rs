//! Ruin and recreate: a part of the solution is taken apart and put together again; what is better
//! stays (Schrimpf and others 2000; the insertion with blinks after Christiaens and Vanden Berghe
//! 2020).

use std::cmp::Reverse;

use typed_index_collections::TiVec;

use super::construct::reconstruct;
use super::insert::Inserting;
use super::prices::Prices;
use super::random::Random;
use super::ruin::{self, Ruined};
use crate::ids::{ClassId, NewNodeId};
use crate::problem::Problem;
use crate::solution::{Objective, Solution};

/// How many places are priced at most, in all and for each pod; of more pods than are looked at
/// thoroughly, fewer by the cube, down to a few.
const EVALUATIONS_MAX: usize = 400_000;
const EVALUATIONS_MIN: usize = 600;
const EVALUATIONS_PER_POD: usize = 3_000;
const PODS_THOROUGH: usize = 300;
/// After how many rounds without a better solution the search ends, and how many more for each new
/// node; many times as many where pods have no place.
const ROUNDS_IN_VAIN: usize = 60;
const ROUNDS_IN_VAIN_PER_NODE: usize = 60;
const TROUBLED: usize = 6;
/// Once in so many rounds pods join nodes whatever that costs at first.
const JOINING: usize = 6;
/// How many places might be priced while one machine is filled.
const FILLING: usize = 6;
/// How many new nodes are looked at, the most wasteful ones.
const NODES_MAX: usize = 48;
/// How much dearer than the best a solution may be to go on from, of 1, at first.
const THRESHOLD: f64 = 0.02;
/// After how many rounds without a better solution the search goes back to the best.
const ROUNDS_UNTIL_RETURN: usize = 60;
/// Up to how many pods all of them may be looked at again.
const PODS_SMALL: usize = 512;

/// How often ruined machines may not be bought again in the round, and how often the ruined part is
/// constructed anew before the rest is inserted: once in so many rounds.
const FORBIDDING: usize = 4;
const RECONSTRUCTING: usize = 4;

/// What is taken apart in a round.
#[derive(Clone, Copy)]
enum Ruin {
    /// A few nodes, a wasteful one among them.
    Nodes,
    /// All pods of a class.
    Class,
    /// Portions on many nodes.
    Portions,
}

/// How often each ruin is drawn.
const RUINS: [(Ruin, usize); 4] = [(Ruin::Class, 1), (Ruin::Nodes, 1), (Ruin::Portions, 1), (Ruin::Nodes, 5)];
/// The same while pods have no node, or wishes or orders of binding are given up.
const RUINS_IN_TROUBLE: [(Ruin, usize); 3] = [(Ruin::Class, 2), (Ruin::Portions, 1), (Ruin::Nodes, 3)];

/// In which order classes are inserted.
#[derive(Clone, Copy)]
enum Order {
    Reversed,
    Shuffled,
    Usual,
}

/// How often each order is drawn.
const ORDERS: [(Order, usize); 3] = [(Order::Reversed, 1), (Order::Shuffled, 2), (Order::Usual, 1)];

/// Which classes are inserted while the best solution leaves pods out: some that have a node keep
/// others from theirs, and the other way round.
#[derive(Clone, Copy)]
enum Inserted {
    AllButOne,
    AllButLeftOut,
    All,
}

/// How often each is drawn.
const INSERTED: [(Inserted, usize); 3] =
    [(Inserted::AllButOne, 1), (Inserted::AllButLeftOut, 2), (Inserted::All, 3)];

/// Makes the solution better as long as the budget and the caller's time allow. Without it
/// decisions cost 7.7 % more on average.
pub(super) fn improve(solution: &mut Solution<'_, '_>, order: &[ClassId], prices: &mut Prices) {
    let mut state = Improving::new(solution, order, prices);
    if state.is_small() {
        state.build_as_karpenter();
    }
    while state.evaluations < state.budget && !(state.solution.problem.options.time_is_up)() {
        if !state.round() {
            break;
        }
    }
    state.solution.go_back_to_start();
    state.insert_the_rest();
}

struct Improving<'s, 'p, 'a> {
    solution: &'s mut Solution<'p, 'a>,
    order: &'s [ClassId],
    prices: &'s mut Prices,
    random: Random,
    best: Objective,
    current: Objective,
    evaluations: usize,
    budget: usize,
    since_best: usize,
    /// How many pods of each class the best solution leaves out.
    left_out: TiVec<ClassId, u32>,
}

impl<'s, 'p, 'a> Improving<'s, 'p, 'a> {
    fn new(solution: &'s mut Solution<'p, 'a>, order: &'s [ClassId], prices: &'s mut Prices) -> Self {
        solution.commit();
        let best = solution.objective();
        let budget = budget(solution.problem);
        let current = best.clone();
        let random = Random::new();
        let left_out = solution.unplaced.clone();
        Self {
            solution,
            order,
            prices,
            random,
            best,
            current,
            evaluations: 0,
            budget,
            since_best: 0,
            left_out,
        }
    }

    /// Builds all nodes anew as Karpenter does: the largest pods first, each on the node with the
    /// fewest pods that takes it. Without it decisions cost 1.0 % more on average.
    fn build_as_karpenter(&mut self) {
        ruin::remove_all(self.solution);
        let order = self.solution.problem.classes.keys().collect();
        Inserting::new(self.solution, order).joining().insert_all();
        let objective = self.solution.objective();
        if objective < self.best {
            self.solution.commit();
            (self.best, self.current) = (objective.clone(), objective);
        } else {
            self.solution.go_back_to_start();
        }
    }

    fn is_small(&self) -> bool {
        self.solution.problem.pods() <= PODS_SMALL
    }

    /// Tries pods once more that the best solution leaves out. Without it, a decision that ran out
    /// of time leaves pods out that it had tried first.
    fn insert_the_rest(&mut self) {
        if !self.best.is_whole() && self.is_small() {
            Inserting::new(self.solution, self.order.to_vec()).insert_all();
            if self.solution.objective() > self.best {
                self.solution.go_back_to_start();
            }
        }
    }

    /// Ruins and recreates once; false when there is nothing to ruin.
    fn round(&mut self) -> bool {
        let mark = self.solution.mark();
        let wasteful = self.wasteful();
        if wasteful.is_empty() && (self.current.is_whole() || !self.is_small()) {
            return false;
        }
        // A round costs something even where nothing is priced.
        self.evaluations += 10;
        let ruined = self.ruin(&wasteful);
        self.recreate(&ruined, wasteful);
        let objective = self.solution.objective();
        if objective < self.best {
            self.solution.commit();
            self.left_out.clone_from(&self.solution.unplaced);
            (self.best, self.current, self.since_best) = (objective.clone(), objective, 0);
            return true;
        }
        self.since_best += 1;
        if self.since_best > self.rounds_in_vain() {
            return false;
        }
        if self.since_best.is_multiple_of(ROUNDS_UNTIL_RETURN) {
            self.solution.go_back_to_start();
            self.current = self.best.clone();
        } else if self.is_acceptable(&objective) {
            self.current = objective;
        } else {
            self.solution.go_back(mark);
        }
        true
    }

    /// The new nodes that cost most for what they carry.
    fn wasteful(&self) -> Vec<NewNodeId> {
        let problem = self.solution.problem;
        let mut nodes: Vec<(f64, NewNodeId)> = Vec::new();
        for (id, node) in self.solution.new_nodes().filter(|(_, node)| !node.is_static(problem)) {
            let room = problem.templates()[node.shape.template].room(node.quote.purchase);
            let used = node.shape.load.packed.iter().zip(room).take(2);
            let used: f64 = used.map(|(packed, room)| *packed as f64 / (*room).max(1) as f64).sum();
            nodes.push((node.cost(problem) as f64 * (2.0 - used).max(0.01), id));
        }
        nodes.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.cmp(y)));
        nodes.truncate(NODES_MAX);
        nodes.into_iter().map(|(_, id)| id).collect()
    }

    fn ruin(&mut self, wasteful: &[NewNodeId]) -> Ruined {
        let is_small = self.is_small();
        let troubled = !self.current.is_whole() || self.current.conceded > 0 || self.current.ordered > 0;
        let ruins: &[(Ruin, usize)] = if troubled { &RUINS_IN_TROUBLE } else { &RUINS };
        match self.random.weighted(ruins) {
            Some(Ruin::Portions) if is_small => ruin::remove_portions(self.solution, &mut self.random),
            Some(Ruin::Class) if is_small => ruin::remove_class(self.solution, &mut self.random),
            _ if is_small && wasteful.is_empty() => ruin::remove_class(self.solution, &mut self.random),
            _ => ruin::remove_nodes(self.solution, wasteful, &mut self.random),
        }
    }

    fn recreate(&mut self, ruined: &Ruined, nodes: Vec<NewNodeId>) {
        if self.random.one_in(FORBIDDING) {
            self.solution.forbid(ruined.machines.clone());
        }
        if self.random.one_in(RECONSTRUCTING) {
            let filled = reconstruct(self.solution, self.order, self.prices, &mut self.random);
            self.evaluations += filled * FILLING;
        }
        let order = self.order();
        if !order.is_empty() {
            let is_all = self.solution.opened.len() <= NODES_MAX;
            let nodes = if is_all { None } else { Some(nodes) };
            let joins = self.random.one_in(JOINING);
            let mut inserting = Inserting::among(self.solution, order, nodes, &mut self.random);
            if joins {
                inserting = inserting.joining();
            }
            inserting.insert_all();
            self.evaluations += inserting.evaluations;
        }
        self.solution.forbid(Vec::new());
    }

    /// The classes with pods that are left: by priority, and then as usual, the other way round, or
    /// by chance.
    fn order(&mut self) -> Vec<ClassId> {
        let problem = self.solution.problem;
        // Of many pods only those are placed anew that were taken off their nodes.
        let least = |class: ClassId| if self.is_small() { 0 } else { self.left_out[class] };
        let mut order: Vec<ClassId> =
            problem.classes.keys().filter(|class| self.solution.unplaced[*class] > least(*class)).collect();
        match self.random.weighted(&ORDERS) {
            Some(Order::Reversed) => order.reverse(),
            Some(Order::Shuffled) => {
                for index in (1..order.len()).rev() {
                    order.swap(index, self.random.below(index + 1));
                }
            }
            Some(Order::Usual) | None => {}
        }
        order.sort_by_key(|class| Reverse(problem.classes[*class].spec.priority));
        if !self.best.is_whole() && !order.is_empty() {
            match self.random.weighted(&INSERTED) {
                Some(Inserted::AllButOne) => {
                    order.remove(self.random.below(order.len()));
                }
                Some(Inserted::AllButLeftOut) => order.retain(|class| self.left_out[*class] == 0),
                Some(Inserted::All) | None => {}
            }
        }
        order
    }

    /// After how many rounds without a better solution the search ends: the fewer nodes, the fewer
    /// ways there are to ruin them.
    fn rounds_in_vain(&self) -> usize {
        let rounds = ROUNDS_IN_VAIN + ROUNDS_IN_VAIN_PER_NODE * self.solution.new_nodes().count();
        if self.best.is_whole() { rounds } else { rounds * TROUBLED }
    }

    /// Whether to go on from a solution: as good as the current one, or little dearer than the
    /// best.
    fn is_acceptable(&self, objective: &Objective) -> bool {
        let remaining_share = 1.0 - self.evaluations as f64 / self.budget as f64;
        let most = self.best.cost as f64 * (1.0 + THRESHOLD * remaining_share.max(0.0));
        *objective <= self.current || objective.is_like(&self.best) && objective.cost as f64 <= most
    }
}

/// How many places are priced at most for some pods.
fn budget(problem: &Problem<'_>) -> usize {
    let pods = problem.pods().max(1);
    let fewer = |evaluations: usize| evaluations * PODS_THOROUGH / pods.max(PODS_THOROUGH);
    let many = fewer(fewer(fewer(EVALUATIONS_MAX))).max(EVALUATIONS_MIN);
    (EVALUATIONS_PER_POD * pods).min(many)
}
