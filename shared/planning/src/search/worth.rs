//! What an existing node is worth: what its pods, and those that would fill it, would cost elsewhere.
//!
//! The prices are the shadow prices of all pods together, so this is the node's place in the linear relaxation of the
//! cheapest cluster, told without a search.

use crate::disruption::DisruptionSettings;
use crate::market::templates::NANOS_PER_DOLLAR;
use crate::problem::Problem;
use crate::solution::{PlacedPods, Solution};

/// A node that may be ended.
pub(super) struct Endable<'s> {
    pub(super) node: usize,
    pub(super) settings: &'s DisruptionSettings,
    /// The pods that may move.
    pub(super) pods: &'s [PlacedPods],
    /// As how many evictions they count.
    pub(super) evictions: usize,
}

/// How much of each node's price is more than it is worth: 0 and less where it is worth its price. Each pod fills but
/// one of the nodes that are worth it.
pub(super) fn excess(solution: &Solution<'_, '_>, nodes: &[Endable<'_>]) -> Vec<f64> {
    let unit_prices = unit_prices(solution.problem);
    let mut demand = solution.problem.demand.clone();
    let mut found: Vec<f64> =
        nodes.iter().map(|node| Estimate::of(solution, node, &unit_prices, &demand).excess).collect();
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by(|a, b| found[*a].total_cmp(&found[*b]).then(nodes[*a].node.cmp(&nodes[*b].node)));
    for place in order {
        let estimate = Estimate::of(solution, &nodes[place], &unit_prices, &demand);
        found[place] = estimate.excess;
        if estimate.excess <= 0.0 {
            for (left, own) in demand.iter_mut().zip(&estimate.own) {
                *left = (*left - own).max(0.0) * (1.0 - estimate.filled);
            }
        }
    }
    found
}

struct Estimate {
    excess: f64,
    /// What its pods ask for.
    own: Vec<f64>,
    /// The share of all other pods that fills it.
    filled: f64,
}

impl Estimate {
    fn of(solution: &Solution<'_, '_>, node: &Endable<'_>, unit_prices: &[f64], demand: &[f64]) -> Self {
        let problem = solution.problem;
        let mut own = vec![0.0; demand.len()];
        for pods in node.pods {
            let request = &problem.classes[pods.class].requests[pods.relaxation];
            own.iter_mut()
                .zip(request)
                .for_each(|(sum, amount)| *sum += *amount as f64 * f64::from(pods.count));
        }
        let others: Vec<f64> = demand.iter().zip(&own).map(|(all, own)| (all - own).max(0.0)).collect();
        // Pods of all kinds fill it until the first resource runs out.
        let free = solution.existing[node.node].free.iter().zip(&others);
        let share = free.filter(|(_, others)| **others > 0.0).map(|(free, others)| *free as f64 / others);
        let filled = share.fold(1.0, f64::min).max(0.0);
        let worth =
            |amounts: &[f64]| amounts.iter().zip(unit_prices).map(|(a, price)| a * price).sum::<f64>();
        let moves = node.settings.evictions_per_hour(node.evictions).dollars();
        let price = problem.existing[node.node].saves.unwrap_or(0) as f64 / NANOS_PER_DOLLAR;
        let excess = price - worth(&own) - filled * worth(&others) - moves;
        Self { excess: excess / price.max(f64::MIN_POSITIVE), own, filled }
    }
}

/// What a unit of each resource is worth, in dollars per hour, in the pool where it is worth least.
fn unit_prices(problem: &Problem<'_>) -> Vec<f64> {
    let mut least: Vec<f64> = vec![f64::MAX; problem.demand.len()];
    for (index, template) in problem.templates().iter().enumerate() {
        let Some(selected) = problem.all_of(index) else { continue };
        let own = selected.rough_prices(template, &problem.demand);
        least.iter_mut().zip(own.iter()).for_each(|(least, own)| *least = least.min(*own));
    }
    least
}
