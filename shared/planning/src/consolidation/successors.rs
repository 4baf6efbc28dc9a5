//! What takes the place of nodes of static pools that are replaced.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{NodePool, Plan, PlannedNode};
use outrigger_optimizer::problem::limits::Limits;
use outrigger_policy::disruption::Candidate;
use outrigger_policy::disruption::static_pools::replicas;
use outrigger_policy::{Options, Supposed};

use super::pods_of;
use crate::provision::provision;
use crate::report::commands::Written;

/// The nodes that take the place of nodes of static pools: the same plan makes them as launches
/// them once a command holds the nodes, since those do not count any more.
#[derive(Debug, Default)]
pub(super) struct Successors {
    by_pool: BTreeMap<String, Vec<PlannedNode>>,
}

impl Successors {
    /// Of nodes that are replaced, where others are ended for good. What a pool lacks already is
    /// not among them.
    pub(super) fn new(
        world: &Supposed<'_>,
        options: &Options<'_>,
        ended: &[&Candidate<'_>],
        replaced: &[&Candidate<'_>],
    ) -> Self {
        let replaced: Vec<&Candidate<'_>> =
            replaced.iter().copied().filter(|candidate| candidate.pool.spec.replicas.is_some()).collect();
        if replaced.is_empty() {
            return Self::default();
        }
        // Only pods of nodes that are replaced are planned for here: a successor is in the zone
        // that they ask for.
        let mut going = world.clone();
        going.without_waiting();
        going.closing(&names_of(ended));
        let lacking = |pool: &NodePool| {
            replicas(pool)
                .saturating_sub(usize::try_from(Limits::new(&going, pool, &[]).nodes).unwrap_or(usize::MAX))
        };
        let lacking: BTreeMap<&str, usize> = replaced
            .iter()
            .map(|candidate| (candidate.pool.name.as_str(), lacking(candidate.pool)))
            .collect();
        going.closing(&names_of(&replaced));
        going.moving(&pods_of(&replaced));
        let mut by_pool: BTreeMap<String, Vec<PlannedNode>> = BTreeMap::new();
        for node in provision(&going, options).0.nodes {
            by_pool.entry(node.spec.node_pool.clone()).or_default().push(node);
        }
        by_pool.retain(|pool, _| lacking.contains_key(pool.as_str()));
        for (pool, nodes) in &mut by_pool {
            nodes.sort_by_key(|node| !node.pods.is_empty());
            nodes.drain(..lacking[pool.as_str()].min(nodes.len()));
            // The search says where each pod goes.
            for node in nodes {
                node.pods.clear();
            }
        }
        Self { by_pool }
    }

    /// Supposes that they are on their way, so that pods have places on them.
    pub(super) fn put_on_their_way(&self, world: &mut Supposed<'_>) {
        if self.by_pool.values().all(Vec::is_empty) {
            return;
        }
        let mut plan = Plan::nothing(world.taken_at, world.generation);
        plan.nodes = self.by_pool.values().flatten().cloned().collect();
        world.planned(&plan);
    }

    /// Adds to a command what takes the place of its node, where that is of a static pool: the one
    /// that its pods move to, or any other. So each command launches as many as it ends.
    pub(super) fn add_to(&mut self, command: &mut Written, ended: &[&Candidate<'_>]) {
        let targets: BTreeSet<&str> =
            command.existing.iter().map(|placement| placement.target.name()).collect();
        for candidate in ended {
            let Some(nodes) = self.by_pool.get_mut(&candidate.pool.name) else { continue };
            let position = nodes.iter().position(|node| targets.contains(node.claim.as_str())).unwrap_or(0);
            if position < nodes.len() {
                let node = nodes.remove(position);
                let cost = (node.price + node.node_price).nanos();
                command.saving = command.saving.saturating_sub_unsigned(cost);
                command.replace_with.push(node);
            }
        }
    }

    /// How many there are of a pool.
    pub(super) fn count(&self, pool: &str) -> usize {
        self.by_pool.get(pool).map_or(0, Vec::len)
    }
}

fn names_of<'a>(candidates: &[&Candidate<'a>]) -> BTreeSet<&'a str> {
    candidates.iter().map(|candidate| candidate.node.name.as_str()).collect()
}
