//! The least that any packing of a snapshot's waiting pods can cost: a linear relaxation.
//!
//! Fractions of nodes of any type are bought at the cheapest zone of each capacity type, so that
//! what they have covers what the pods ask for; a pod may only draw on types that its selectors,
//! affinity, tolerations and resources allow. Spreads, affinity between pods, ports, volumes and
//! the shapes of pods are left out, so real packings cost more.
//!
//! What is solved is the dual: a price for each resource and group of pods, such that no type is
//! worth more than it costs. A type's worth is its room times the best price that any of its groups
//! pays; only the constraints that some solution breaks are ever written down.

mod market;

use anyhow::{Context, Result};
use outrigger_model::{Price, Snapshot};

use market::{Column, Market};
use microlp::{ComparisonOp, OptimizationDirection, Problem, Solution, SolveOutcome, Variable};

/// How far a type's worth may be above its price, of 1. The bound is lowered by what is left over,
/// so that it holds.
const TOLERANCE: f64 = 1e-7;
/// How many constraints are added before the next solution, worst first.
const CUTS_AT_ONCE: usize = 40;
const ROUNDS_MAX: usize = 500;

/// A lower bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Dollars per hour, what nodes cost beside their instances included.
    pub cost_per_hour: f64,
    /// How many kinds of node there are to buy.
    pub columns: usize,
    /// How many groups of pods with different rights there are.
    pub groups: usize,
    /// How many waiting pods no kind of node may carry; they are left out.
    pub pods_left_out: usize,
}

/// The bound on what the waiting pods of a snapshot cost; `node_price` is what each node costs
/// beside its instance.
pub fn lower_bound(snapshot: &Snapshot, node_price: Price) -> Result<Bound> {
    let market = Market::new(snapshot, node_price);
    let cost_per_hour = Dual::new(&market).solve()?;
    Ok(Bound {
        cost_per_hour,
        columns: market.columns.len(),
        groups: market.groups.len(),
        pods_left_out: market.pods_left_out,
    })
}

/// The dual problem: one variable for each group and resource.
struct Dual<'a> {
    market: &'a Market,
    problem: Problem,
    prices: Vec<Vec<Variable>>,
}

impl<'a> Dual<'a> {
    fn new(market: &'a Market) -> Self {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let mut prices = Vec::new();
        for (index, group) in market.groups.iter().enumerate() {
            let most = |resource: usize| {
                let columns = market.columns.iter().filter(|column| column.serves(index));
                columns.map(|column| column.price / column.room[resource]).fold(f64::INFINITY, f64::min)
            };
            // A resource that a group does not ask for is worth nothing to it.
            let most = |resource: usize| if group.asks[resource] > 0.0 { most(resource) } else { 0.0 };
            let variables = (0..market.resources).map(|r| problem.add_var(group.asks[r], (0.0, most(r))));
            prices.push(variables.collect());
        }
        let mut dual = Self { market, problem, prices };
        dual.add_free_room();
        dual
    }

    /// Room on nodes that exist is sold to every group at one price, which none pays less than, and
    /// is taken off.
    fn add_free_room(&mut self) {
        for (resource, room) in self.market.free.iter().enumerate().filter(|(_, room)| **room > 0.0) {
            let free = self.problem.add_var(-room, (0.0, f64::INFINITY));
            for group in &self.prices {
                self.problem.add_constraint([(group[resource], 1.0), (free, -1.0)], ComparisonOp::Le, 0.0);
            }
        }
    }

    fn solve(self) -> Result<f64> {
        if self.prices.is_empty() {
            return Ok(0.0);
        }
        let mut solution = finished(self.problem.solve())?;
        for _ in 0..ROUNDS_MAX {
            let mut broken = self.broken(&solution);
            if broken.is_empty() {
                break;
            }
            broken.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (_, column) in broken.into_iter().take(CUTS_AT_ONCE) {
                let cut = self.cut(&solution, column);
                solution = finished(solution.add_constraint(cut, ComparisonOp::Le, column.price))?;
            }
        }
        // Scaled down until no type is worth more than it costs, the prices are a solution,
        // whatever rounding did.
        let worst = self.broken(&solution).iter().map(|(worth, _)| *worth).fold(1.0, f64::max);
        Ok(solution.objective() / worst)
    }

    /// The columns that are worth more than they cost, with how many times as much.
    fn broken(&self, solution: &Solution) -> Vec<(f64, &'a Column)> {
        let worth = |column: &Column| -> f64 {
            let best = self.best(solution, column);
            let worths = best.iter().enumerate().map(|(resource, (price, _))| price * column.room[resource]);
            worths.sum::<f64>() / column.price
        };
        let columns = self.market.columns.iter().map(|column| (worth(column), column));
        columns.filter(|(worth, _)| *worth > 1.0 + TOLERANCE).collect()
    }

    /// For each resource, the best price that a group of this column pays, and which group does.
    fn best(&self, solution: &Solution, column: &Column) -> Vec<(f64, usize)> {
        let mut best = vec![(0.0, usize::MAX); self.market.resources];
        for (group, variables) in self.prices.iter().enumerate().filter(|(group, _)| column.serves(*group)) {
            for (highest, variable) in best.iter_mut().zip(variables) {
                let price = solution.var_value(*variable);
                if price > highest.0 {
                    *highest = (price, group);
                }
            }
        }
        best
    }

    /// What the column has at the prices of the groups that now pay best: not more than it costs.
    fn cut(&self, solution: &Solution, column: &Column) -> Vec<(Variable, f64)> {
        let best = self.best(solution, column).into_iter().enumerate();
        let paid = best.filter(|(_, (_, group))| *group != usize::MAX);
        paid.map(|(resource, (_, group))| (self.prices[group][resource], column.room[resource])).collect()
    }
}

fn finished(outcome: Result<SolveOutcome, microlp::Error>) -> Result<Solution> {
    let outcome = outcome.context("solving for the lower bound")?;
    outcome.into_solution().ok().context("solving for the lower bound was interrupted")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Recipe, Scenario, catalogue, snapshot};

    /// A bound that is above what we pay is none, and one far below it says nothing.
    #[test]
    fn plain_pods_cost_a_little_more_than_the_bound() {
        let types = Arc::new(catalogue::embedded().unwrap());
        let node_price = Price::from_nanos(14_000_000);
        let recipe = Recipe { scenario: Scenario::Generic, pods: 1_000, seed: 1, types: &types, trace: None };
        let snapshot = snapshot::parse(&recipe.list().unwrap().to_string(), &types).unwrap();
        let bound = lower_bound(&snapshot, node_price).unwrap();
        let options = outrigger_policy::Options {
            node_price: Some(node_price),
            ..outrigger_policy::Options::default()
        };
        let (plan, _) = outrigger_planning::provision(&snapshot, &options);
        let paid = (plan.price() + plan.node_price()).dollars();
        assert!((1.0..1.3).contains(&(paid / bound.cost_per_hour)), "paid {paid}, bound {bound:?}");
    }

    #[test]
    fn nothing_to_place_costs_nothing() {
        let types = Arc::new(Vec::new());
        let recipe = Recipe { scenario: Scenario::Generic, pods: 3, seed: 1, types: &types, trace: None };
        let snapshot = snapshot::parse(&recipe.list().unwrap().to_string(), &types).unwrap();
        let bound = lower_bound(&snapshot, Price::ZERO).unwrap();
        assert_eq!((bound.cost_per_hour, bound.pods_left_out), (0.0, 3));
    }
}
