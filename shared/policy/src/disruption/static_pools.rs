//! Pools with a fixed number of nodes (`spec.replicas`): which of their nodes are too many.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::NodePool;

use super::candidates::{Candidate, Candidates};
use super::managed_nodes::ManagedNode;

/// Why a node is ended that a static pool has beyond its replicas, for people.
pub const SURPLUS: &str = "Surplus: its NodePool has more nodes than spec.replicas";

/// How many nodes each static pool has that serve, beyond its replicas; pools without any are
/// absent. A node that is yet to start, or that nobody hears of, does not count: nothing is ended
/// for it.
pub(super) fn surplus<'a>(nodes: &[ManagedNode<'a>]) -> BTreeMap<&'a str, usize> {
    let serves = |managed: &&ManagedNode<'a>| {
        managed.is_initialized() && managed.node.ready && !managed.is_leaving() && managed.command().is_none()
    };
    let mut pools: BTreeMap<&str, (&NodePool, usize)> = BTreeMap::new();
    for managed in nodes.iter().filter(serves) {
        if let Some(pool) = managed.pool.filter(|pool| pool.spec.replicas.is_some()) {
            pools.entry(managed.pool_name).or_insert((pool, 0)).1 += 1;
        }
    }
    let beyond = |(name, (pool, nodes)): (&'a str, (&NodePool, usize))| {
        let surplus = nodes.saturating_sub(replicas(pool));
        (surplus > 0).then_some((name, surplus))
    };
    pools.into_iter().filter_map(beyond).collect()
}

/// The number of nodes that a static pool is to have; none for any other pool.
pub fn replicas(pool: &NodePool) -> usize {
    pool.spec.replicas.map_or(0, |replicas| usize::try_from(replicas).unwrap_or(usize::MAX))
}

/// The names of the nodes that are ended since their static pools have too many, among those that
/// are free to go: those with the fewest pods (Karpenter's order, where each pod counts as much as
/// any other).
pub fn ended<'f>(judged: &'f Candidates<'_>, is_free: impl Fn(&Candidate<'_>) -> bool) -> BTreeSet<&'f str> {
    let mut pools: BTreeMap<&str, Vec<&Candidate<'_>>> = BTreeMap::new();
    for candidate in &judged.candidates {
        if candidate.pool.spec.replicas.is_some()
            && candidate.not_consolidated.is_none()
            && is_free(candidate)
        {
            pools.entry(&candidate.pool.name).or_default().push(candidate);
        }
    }
    let mut ended = BTreeSet::new();
    for (pool, mut nodes) in pools {
        nodes.sort_by_key(|candidate| {
            (candidate.evictions(), candidate.node.created_at, &candidate.node.name)
        });
        nodes.truncate(judged.surplus.get(pool).copied().unwrap_or(0));
        ended.extend(nodes.iter().map(|candidate| candidate.node.name.as_str()));
    }
    ended
}
