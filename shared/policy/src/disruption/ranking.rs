//! In which order the nodes of a pool should empty by themselves: those first that waste most for
//! each pod on them.
//!
//! Pods come and go more often than anybody evicts them. Where new ones go to the nodes that are
//! kept best, and those that a ReplicaSet ends are on the others, these empty without one eviction.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use outrigger_model::resources::{CPU, MEMORY, PODS};
use outrigger_model::{NillableDuration, Price, Resources, Snapshot};

use super::candidates::{Candidates, after};
use super::kept::WhyKept;
use super::load::Load;
use super::managed_nodes::{ManagedNode, managed_nodes};
use super::price;
use super::settings::DisruptionSettings;
use crate::Options;

/// So much of what a pool's pods ask for is to be free on nodes that are not steered away from.
const LEAST_FREE: f64 = 0.05;
/// A node to which pods are welcome stays so until so much is free on better ones.
const MOST_FREE: f64 = 0.10;
/// A node that is steered away from already counts as if it wasted so many times as much, so that
/// nodes which are alike do not take turns.
const STEERED_BEFORE: f64 = 1.25;
/// The deletion cost of pods on a node that wastes nothing; one that wastes more is lower by a
/// micro-dollar an hour.
const HIGHEST_COST: i32 = -1;
/// Pods on nodes that are to be replaced are lower than all others.
const REPLACED_BELOW: i32 = 1_000_000_000;

/// A node of a pool that may lose nodes, with its standing among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankedNode {
    /// The node.
    pub node: String,
    /// Whether pods are to go elsewhere where they can: better nodes have room.
    pub is_steered: bool,
    /// The deletion cost that its pods get while it bears a mark; lower where ending it saves more
    /// for each pod.
    pub deletion_cost: i32,
}

/// Ranks the nodes of each pool. Those that are `going` are steered away from in any case.
pub fn rank(
    snapshot: &Snapshot,
    judged: &Candidates<'_>,
    going: &BTreeSet<&str>,
    settings: &DisruptionSettings,
    options: &Options<'_>,
) -> Vec<RankedNode> {
    let kept: BTreeMap<&str, &WhyKept> =
        judged.kept.iter().map(|kept| (kept.node.name.as_str(), &kept.reason)).collect();
    let drifted = judged.candidates.iter().filter(|candidate| !candidate.drift.is_empty());
    let drifted: BTreeSet<&str> = drifted.map(|candidate| candidate.node.name.as_str()).collect();
    let mut pools: BTreeMap<&str, Vec<Standing<'_>>> = BTreeMap::new();
    for managed in managed_nodes(snapshot) {
        let name = managed.node.name.as_str();
        let Some(kept_for) = kept.get(name).map_or(Some(KeptFor::Now), |reason| kept_for(reason)) else {
            continue;
        };
        let Some(instance) = price::of_instance(&managed, &snapshot.overlays) else { continue };
        let cost = (instance + price::beside(&managed, options)).dollars();
        let turn = match () {
            () if kept_for == KeptFor::Always => Turn::Stays,
            () if going.contains(name) => Turn::Goes,
            () if drifted.contains(name) || expires_before_long(&managed, settings, snapshot.taken_at) => {
                Turn::IsReplaced
            }
            () => Turn::ByWaste,
        };
        pools.entry(managed.pool_name).or_default().push(Standing::new(&managed, turn, cost));
    }
    pools.into_values().flat_map(ranked).collect()
}

/// Whether a node has no more of its life before it than a drifted one may last, and than a tenth
/// of it.
fn expires_before_long(managed: &ManagedNode<'_>, settings: &DisruptionSettings, now: Timestamp) -> bool {
    let Some((life, pool)) = managed.expire_after().and_then(NillableDuration::get).zip(managed.pool) else {
        return false;
    };
    let lead = settings.for_pool(pool).drift_deadline.min(life / 10);
    after(managed.created_at(), life.saturating_sub(lead)) <= now
}

/// How long a node stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum KeptFor {
    /// It may go, or might before long.
    Now,
    /// Something on it never lets it go.
    Always,
}

/// How long a node stays that is kept for a reason; `None` where its pool gives none up, or pods
/// cannot come to it.
const fn kept_for(reason: &WhyKept) -> Option<KeptFor> {
    match reason {
        WhyKept::TooYoung { .. }
        | WhyKept::ConsolidateAfter { .. }
        | WhyKept::NotEmpty { .. }
        | WhyKept::PodWaits { .. }
        | WhyKept::Nominated { .. }
        | WhyKept::OutsideWindows { .. } => Some(KeptFor::Now),
        WhyKept::PodStays { .. } | WhyKept::DoNotDisrupt { .. } | WhyKept::Unreadable { .. } => {
            Some(KeptFor::Always)
        }
        _ => None,
    }
}

/// In which order nodes go, the last first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Stays,
    ByWaste,
    IsReplaced,
    Goes,
}

/// A node beside the others of its pool.
struct Standing<'a> {
    name: &'a str,
    turn: Turn,
    is_steered: bool,
    /// Dollars per hour that it costs beyond what its pods take, for each of them.
    waste: f64,
    /// What the pods ask for that are not bound to it.
    demand: Amounts,
    free: Amounts,
}

impl<'a> Standing<'a> {
    fn new(managed: &ManagedNode<'a>, turn: Turn, cost: f64) -> Self {
        let mut taken = Resources::new();
        let mut demand = Resources::new();
        for pod in managed.pods.iter().filter(|pod| pod.occupies(&managed.node.name)) {
            taken.add(&pod.spec.requests);
            if !pod.is_bound_to_its_node() {
                demand.add(&pod.spec.requests);
            }
        }
        let allocatable = &managed.node.allocatable;
        let mut free = allocatable.clone();
        free.subtract(&taken);
        let pods = Load::from_pods(&managed.pods).count().max(1);
        Self {
            name: &managed.node.name,
            turn,
            is_steered: managed.node.is_disruption_candidate(),
            waste: cost * (1.0 - dominant_share(&taken, allocatable)).max(0.0) / pods as f64,
            demand: Amounts::from_resources(&demand),
            free: Amounts::from_resources(&free),
        }
    }

    /// The deletion cost of its pods.
    fn deletion_cost(&self) -> i32 {
        let micros =
            Price::from_dollars(self.waste).and_then(|waste| i32::try_from(waste.nanos() / 1_000).ok());
        let by_waste = HIGHEST_COST - micros.unwrap_or(i32::MAX).min(REPLACED_BELOW - 2);
        if self.turn == Turn::IsReplaced { by_waste - REPLACED_BELOW } else { by_waste }
    }
}

/// The share of the resource of which pods take most, pods themselves aside.
fn dominant_share(taken: &Resources, allocatable: &Resources) -> f64 {
    let resources = allocatable.iter().filter(|(name, amount)| *name != PODS && amount.as_f64() > 0.0);
    resources.map(|(name, amount)| taken.get(name).as_f64() / amount.as_f64()).fold(0.0, f64::max)
}

/// Ranks the nodes of one pool: pods are welcome to as many as have enough room together, the best
/// first.
fn ranked(mut nodes: Vec<Standing<'_>>) -> Vec<RankedNode> {
    let waste = |node: &Standing<'_>| node.waste * if node.is_steered { STEERED_BEFORE } else { 1.0 };
    nodes.sort_by(|a, b| {
        a.turn.cmp(&b.turn).then(waste(a).total_cmp(&waste(b))).then_with(|| a.name.cmp(b.name))
    });
    let demand = nodes.iter().fold(Amounts::default(), |sum, node| sum + node.demand);
    let mut free = Amounts::default();
    let mut ranking = Vec::new();
    for node in nodes {
        let enough = if node.is_steered { LEAST_FREE } else { MOST_FREE };
        let is_steered = match node.turn {
            Turn::Stays => false,
            Turn::Goes => true,
            Turn::ByWaste | Turn::IsReplaced => free.holds(demand, enough),
        };
        if !is_steered {
            free = free + node.free;
        }
        ranking.push(RankedNode {
            node: node.name.to_owned(),
            is_steered,
            deletion_cost: node.deletion_cost(),
        });
    }
    ranking
}

/// Processors and bytes of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Amounts {
    cpu: f64,
    memory: f64,
}

impl Amounts {
    /// Less than nothing counts as nothing.
    fn from_resources(resources: &Resources) -> Self {
        let amount = |name| resources.get(name).as_f64().max(0.0);
        Self { cpu: amount(CPU), memory: amount(MEMORY) }
    }

    /// Whether it is such a share of a demand, and more than nothing.
    fn holds(self, demand: Self, share: f64) -> bool {
        self.cpu > 0.0
            && self.memory > 0.0
            && self.cpu >= share * demand.cpu
            && self.memory >= share * demand.memory
    }
}

impl std::ops::Add for Amounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { cpu: self.cpu + other.cpu, memory: self.memory + other.memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with 4 processors of which pods take so many, and which wastes so many dollars an
    /// hour for each.
    fn node(name: &str, taken: f64, waste: f64) -> Standing<'_> {
        let amounts = |cpu| Amounts { cpu, memory: 4.0 * cpu };
        Standing {
            name,
            turn: Turn::ByWaste,
            is_steered: false,
            waste,
            demand: amounts(taken),
            free: amounts(4.0 - taken),
        }
    }

    const fn steered(mut node: Standing<'_>) -> Standing<'_> {
        node.is_steered = true;
        node
    }

    /// The nodes in their order; those that are steered away from in parentheses.
    fn order(nodes: Vec<Standing<'_>>) -> String {
        let name =
            |node: &RankedNode| if node.is_steered { format!("({})", node.node) } else { node.node.clone() };
        ranked(nodes).iter().map(name).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn pods_are_welcome_where_least_is_wasted_until_there_is_room_enough() {
        let nodes =
            || vec![node("a", 1.0, 0.03), node("b", 3.8, 0.001), node("c", 2.0, 0.02), node("d", 3.8, 0.002)];
        // 10.6 are asked for, of which a tenth must be free on others before a node is steered away
        // from.
        assert_eq!(order(nodes()), "b d c (a)");
        let costs: Vec<i32> = ranked(nodes()).iter().map(|node| node.deletion_cost).collect();
        assert_eq!(costs, [-1_001, -2_001, -20_001, -30_001]);
    }

    #[test]
    fn a_node_changes_sides_only_for_a_good_reason() {
        // 0.8 are free on the best, which is more than a twentieth and less than a tenth of 11.
        let last = || node("b", 3.0, 0.1);
        let best = || {
            vec![
                node("a", 3.2, 0.01),
                Standing { demand: Amounts { cpu: 4.8, memory: 19.2 }, ..node("f", 4.0, 0.0) },
            ]
        };
        let with = |last| order(best().into_iter().chain([last]).collect());
        assert_eq!(with(last()), "f a b");
        assert_eq!(with(steered(last())), "f a (b)");
        // Of two that are alike the one stays steered that is.
        let like = |name| node(name, 1.0, 0.02);
        assert_eq!(order(vec![steered(like("a")), like("b")]), "b (a)");
        assert_eq!(
            order(vec![steered(node("a", 1.0, 0.015)), like("b")]),
            "a (b)",
            "much better it is welcome again"
        );
    }

    #[test]
    fn who_goes_is_last_and_who_stays_is_first() {
        let turned = |name, turn| Standing { turn, ..node(name, 1.0, 0.01) };
        let nodes = || {
            vec![
                turned("goes", Turn::Goes),
                turned("replaced", Turn::IsReplaced),
                turned("any", Turn::ByWaste),
                Standing { waste: 9.0, ..turned("stays", Turn::Stays) },
            ]
        };
        assert_eq!(order(nodes()), "stays (any) (replaced) (goes)");
        let ranked = ranked(nodes());
        assert!(ranked[2].deletion_cost < -1_000_000_000 && ranked[1].deletion_cost == -10_001, "{ranked:?}");
        assert_eq!(order(vec![turned("replaced", Turn::IsReplaced)]), "replaced", "it is the only one");
        assert_eq!(order(vec![turned("goes", Turn::Goes)]), "(goes)");
    }

    #[test]
    fn no_waste_is_beyond_the_numbers_of_kubernetes() {
        let dear = Standing { turn: Turn::IsReplaced, ..node("a", 1.0, 1e9) };
        assert_eq!(ranked(vec![dear])[0].deletion_cost, -1_999_999_999);
    }
}
