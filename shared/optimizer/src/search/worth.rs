//! What existing nodes are worth: what their pods, and those that would fill them, would cost
//! elsewhere.
//!
//! The prices are the shadow prices of all pods together, so this is each node's place in the
//! linear relaxation of the cheapest cluster, told without a search.

use std::collections::BTreeMap;

use outrigger_policy::disruption::DisruptionSettings;
use typed_index_collections::{TiSlice, TiVec, ti_vec};

use crate::ids::{NodeId, ValuedId, Variant};
use crate::market::templates::NANOS_PER_DOLLAR;
use crate::problem::Problem;
use crate::solution::{PlacedPods, Solution};

/// Dollars of a unit of what no pool can buy.
const NOT_FOR_SALE: f64 = 1e6;

/// A node that may be ended.
pub(super) struct Endable<'s> {
    pub(super) node: NodeId,
    pub(super) settings: &'s DisruptionSettings,
    /// The pods that may move.
    pub(super) pods: &'s [PlacedPods],
    /// As how many evictions they count.
    pub(super) evictions: usize,
}

/// A node that may be ended, with what keeping and ending it costs. Dollars are those of an hour.
pub(super) struct Valued {
    /// Which of the existing nodes.
    pub(super) node: NodeId,
    /// How much of its price is more than it is worth, as a share: 0 and less where it is worth its
    /// price.
    pub(super) excess: f64,
    /// What it costs, in dollars.
    pub(super) price: f64,
    /// What moving its pods counts, in dollars.
    pub(super) moving: f64,
    /// What its pods ask for.
    pub(super) requests: Vec<f64>,
    /// What is free on it beside them, as far as others can use it.
    pub(super) free: Vec<f64>,
}

/// What all nodes that may be ended are worth.
pub(super) struct Worth {
    /// The nodes, those first that are worth most for their price.
    pub(super) nodes: TiVec<ValuedId, Valued>,
    /// What pods ask for that move in any case, less what is free on nodes that stay in any case.
    lacking: Vec<f64>,
    /// Dollars of a unit of each resource.
    unit_prices: Vec<f64>,
}

impl Worth {
    /// Values nodes, beside others whose pods are `leaving` in any case. Each pod fills but one of
    /// the nodes that are worth it.
    pub(super) fn new(
        solution: &Solution<'_, '_>,
        endable: &[Endable<'_>],
        leaving: &[&[PlacedPods]],
    ) -> Self {
        let problem = solution.problem;
        let unit_prices = unit_prices(problem);
        let moving = endable.iter().flat_map(|endable| endable.pods).chain(leaving.iter().copied().flatten());
        let usable = usable(solution, moving);
        let mut demand = problem.demand.clone();
        let mut nodes: TiVec<ValuedId, Valued> =
            endable.iter().map(|endable| valued(solution, endable)).collect();
        for node in &mut nodes {
            node.excess = excess(node, &unit_prices, &demand).0;
        }
        sort(&mut nodes);
        for node in &mut nodes {
            let (excess, filled) = excess(node, &unit_prices, &demand);
            node.excess = excess;
            if excess <= 0.0 {
                for (remaining, request) in demand.iter_mut().zip(&node.requests) {
                    *remaining = (*remaining - request).max(0.0) * (1.0 - filled);
                }
            }
        }
        sort(&mut nodes);
        let mut lacking = vec![0.0; problem.demand.len()];
        for pods in leaving {
            add(&mut lacking, &requests(problem, pods), 1.0);
        }
        for node in usable.keys().filter(|node| problem.existing[*node].saves.is_none()) {
            add(&mut lacking, &usable[node], -1.0);
        }
        for node in &mut nodes {
            node.free.clone_from(&usable[node.node]);
        }
        Self { nodes, lacking, unit_prices }
    }

    /// What keeping none of the nodes comes to.
    pub(super) fn of_none(&self) -> Relaxed {
        let mut relaxed = Relaxed { dollars: 0.0, lacking: self.lacking.clone() };
        for node in &self.nodes {
            relaxed.dollars += node.moving;
            add(&mut relaxed.lacking, &node.requests, 1.0);
        }
        relaxed
    }

    /// Keeps a node that was to be ended, or the other way round.
    pub(super) fn set_kept(&self, relaxed: &mut Relaxed, id: ValuedId, is_kept: bool) {
        let node = &self.nodes[id];
        let sign = if is_kept { 1.0 } else { -1.0 };
        relaxed.dollars += sign * (node.price - node.moving);
        add(&mut relaxed.lacking, &node.requests, -sign);
        add(&mut relaxed.lacking, &node.free, -sign);
    }

    /// The least that this can cost, in dollars: nodes that are kept, moves, and new nodes in
    /// fractions.
    pub(super) fn bound(&self, relaxed: &Relaxed) -> f64 {
        let lacking = relaxed.lacking.iter().zip(&self.unit_prices);
        relaxed.dollars + lacking.map(|(amount, price)| amount.max(0.0) * price).sum::<f64>()
    }
}

/// What keeping some nodes comes to if new ones could be bought in fractions.
#[derive(Clone)]
pub(super) struct Relaxed {
    /// Dollars of the nodes that are kept and of the moves.
    dollars: f64,
    /// What pods ask for beyond the room that there is.
    lacking: Vec<f64>,
}

fn valued(solution: &Solution<'_, '_>, endable: &Endable<'_>) -> Valued {
    let problem = solution.problem;
    Valued {
        node: endable.node,
        excess: 0.0,
        price: problem.existing[endable.node].saves.unwrap_or(0) as f64 / NANOS_PER_DOLLAR,
        moving: endable.settings.evictions_per_hour(endable.evictions).dollars(),
        requests: requests(problem, endable.pods),
        free: free(solution, endable.node),
    }
}

/// What pods ask for together.
fn requests(problem: &Problem<'_>, placed: &[PlacedPods]) -> Vec<f64> {
    let mut requests = vec![0.0; problem.demand.len()];
    for pods in placed {
        let request = problem.request(pods.variant);
        for (sum, amount) in requests.iter_mut().zip(request) {
            *sum += *amount as f64 * f64::from(pods.count);
        }
    }
    requests
}

/// How much of a node's price is more than it is worth, and the share of all other pods that fills
/// it. Without what the others bring, a consolidation of 200 nodes costs 2.1 % more.
fn excess(node: &Valued, unit_prices: &[f64], demand: &[f64]) -> (f64, f64) {
    let others: Vec<f64> =
        demand.iter().zip(&node.requests).map(|(demand, request)| (demand - request).max(0.0)).collect();
    // Pods of all kinds fill it until the first resource runs out.
    let free = node.free.iter().zip(&others);
    let share = free.filter(|(_, others)| **others > 0.0).map(|(free, others)| free / others);
    let filled = share.fold(1.0, f64::min);
    let worth = |amounts: &[f64]| amounts.iter().zip(unit_prices).map(|(a, price)| a * price).sum::<f64>();
    let excess = node.price - worth(&node.requests) - filled * worth(&others) - node.moving;
    (excess / node.price.max(f64::MIN_POSITIVE), filled)
}

fn sort(nodes: &mut TiSlice<ValuedId, Valued>) {
    nodes.sort_by(|a, b| a.excess.total_cmp(&b.excess).then(a.node.cmp(&b.node)));
}

/// What is free on each existing node, no more of it than those of some pods ask for that it
/// admits.
fn usable<'s>(
    solution: &Solution<'_, '_>,
    pods: impl Iterator<Item = &'s PlacedPods>,
) -> TiVec<NodeId, Vec<f64>> {
    let problem = solution.problem;
    let mut counts: BTreeMap<Variant, u32> = BTreeMap::new();
    for pods in pods {
        *counts.entry(pods.variant).or_default() += pods.count;
    }
    let mut asked = ti_vec![vec![0.0; problem.demand.len()]; problem.existing.len()];
    for (variant, count) in counts {
        let requested = requests(problem, &[PlacedPods { variant, count }]);
        for node in problem.admitting(variant).iter() {
            add(&mut asked[*node], &requested, 1.0);
        }
    }
    for (node, asked) in asked.iter_mut_enumerated() {
        asked.iter_mut().zip(free(solution, node)).for_each(|(asked, free)| *asked = asked.min(free));
    }
    asked
}

fn free(solution: &Solution<'_, '_>, node: NodeId) -> Vec<f64> {
    let free = solution.existing[node].load.free(&solution.problem.existing[node].free);
    free.map(|amount| amount.max(0) as f64).collect()
}

fn add(sum: &mut [f64], amounts: &[f64], times: f64) {
    sum.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += times * amount);
}

/// What a unit of each resource is worth, in dollars per hour, in the pool where it is worth least.
fn unit_prices(problem: &Problem<'_>) -> Vec<f64> {
    let mut least: Vec<f64> = vec![NOT_FOR_SALE; problem.demand.len()];
    for (id, template) in problem.templates().iter_enumerated() {
        let Some(selected) = problem.all_of(id) else { continue };
        let of_pool = selected.rough_prices(template, &problem.demand);
        least.iter_mut().zip(of_pool.iter()).for_each(|(least, price)| *least = least.min(*price));
    }
    least
}
