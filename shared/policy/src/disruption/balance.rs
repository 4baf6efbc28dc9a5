//! `consolidationPolicy: Balanced`: what a command saves of its pool's cost must be worth what it
//! disturbs of the pool.

use std::collections::BTreeMap;

use outrigger_model::node_pool::ConsolidationPolicy;
use outrigger_model::{NodePool, Price, Snapshot};

use super::load::Load;
use super::managed_nodes::{ManagedNode, managed_nodes};
use super::price;
use crate::Options;

/// The least score of a command (Karpenter's k = 2): what it saves, as a share of what the pool
/// costs, by what it disturbs, as a share of the pool's nodes and pods.
const LEAST_SCORE: f64 = 0.5;

/// What a command must save at least in a pool of the policy Balanced.
///
/// Each pod and each node counts 1 (Karpenter weighs pods by their priorities and deletion costs
/// too). The ended nodes count by what they cost among the pool's, so that a small node need not
/// save as much as a large one, and one that nobody is on may always go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Balance {
    /// Dollars per hour for each eviction.
    per_eviction: f64,
    /// The share of what the ended nodes cost.
    of_cost: f64,
}

impl Balance {
    /// Dollars per hour that a command must save that ends nodes of this cost with so many
    /// evictions.
    pub fn demanded(self, ended: Price, evictions: usize) -> Price {
        let dollars = self.per_eviction * evictions as f64 + self.of_cost * ended.dollars();
        Price::from_dollars(dollars).unwrap_or(Price::from_nanos(u64::MAX))
    }
}

/// What commands must save in the pools of the policy Balanced, by name.
pub fn balances<'a>(snapshot: &'a Snapshot, options: &Options<'_>) -> BTreeMap<&'a str, Balance> {
    let is_balanced =
        |pool: &NodePool| pool.spec.disruption.consolidation_policy == ConsolidationPolicy::Balanced;
    if !snapshot.node_pools.iter().any(is_balanced) {
        return BTreeMap::new();
    }
    let mut pools: BTreeMap<&str, Whole> = BTreeMap::new();
    for managed in managed_nodes(snapshot).iter().filter(|managed| managed.pool.is_some_and(is_balanced)) {
        pools.entry(managed.pool_name).or_default().add(managed, snapshot, options);
    }
    pools.into_iter().map(|(name, whole)| (name, whole.balance())).collect()
}

/// The nodes of a pool together, as far as their prices are known.
#[derive(Default)]
struct Whole {
    nodes: usize,
    pods: usize,
    /// Dollars per hour.
    cost: Price,
}

impl Whole {
    fn add(&mut self, managed: &ManagedNode<'_>, snapshot: &Snapshot, options: &Options<'_>) {
        let Some(price) = price::of_instance(managed, &snapshot.overlays).filter(|_| !managed.is_leaving())
        else {
            return;
        };
        self.nodes += 1;
        self.pods += Load::from_pods(&managed.pods).count();
        self.cost += price + price::beside(managed, options);
    }

    fn balance(&self) -> Balance {
        // A pool without nodes has no command to ask anything of.
        let share = LEAST_SCORE / (self.nodes + self.pods).max(1) as f64;
        Balance { per_eviction: share * self.cost.dollars(), of_cost: share * self.nodes as f64 }
    }
}

#[cfg(test)]
mod tests {
    use outrigger_model::{ClaimState, Pod};

    use super::*;
    use crate::disruption::fixtures::{World, pod};

    /// The only pool of a world of four nodes at $0.04 per hour with six pods: it costs 0.16, and
    /// has ten to disturb.
    fn world() -> World {
        let mut world = World::of_nodes(4);
        world.pool().spec.disruption.consolidation_policy = ConsolidationPolicy::Balanced;
        let on = |at: usize| Pod { node_name: Some(format!("i-{}", at % 3)), ..pod(&format!("p{at}")) };
        world.snapshot.pods = (0..6).map(on).collect();
        world
    }

    fn web_balance(world: &World) -> Option<Balance> {
        let options = Options { node_price: Some(Price::ZERO), ..Options::default() };
        balances(&world.snapshot, &options).get("web").copied()
    }

    #[test]
    fn a_command_saves_half_of_its_share_of_what_the_pool_costs() {
        let balance = web_balance(&world()).unwrap();
        // The nodes that are ended, their pods, and the nano-dollars of half of 0.16 for each
        // tenth.
        let table =
            [(0, 0, 0), (1, 0, 8_000_000), (1, 2, 24_000_000), (2, 4, 48_000_000), (4, 6, 80_000_000)];
        for (nodes, evictions, expected) in table {
            let ended = Price::from_nanos(40_000_000 * nodes);
            assert_eq!(
                balance.demanded(ended, evictions),
                Price::from_nanos(expected),
                "{nodes} {evictions}"
            );
        }
    }

    #[test]
    fn only_pools_of_that_policy_ask_for_it_and_nodes_that_go_do_not_count() {
        let mut world = world();
        world.set_state(ClaimState::Draining);
        // Three nodes at 0.12 with four pods.
        let demanded = web_balance(&world).unwrap().demanded(Price::from_nanos(40_000_000), 2);
        assert!((demanded.dollars() - 0.06 * 3.0 / 7.0).abs() < 1e-8, "{demanded}");
        world.pool().spec.disruption.consolidation_policy = ConsolidationPolicy::WhenEmptyOrUnderutilized;
        assert_eq!(web_balance(&world), None);
    }
}
