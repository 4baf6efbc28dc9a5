//! How many of a plan's nodes may be launched now: one for a pool that tries again after a pause,
//! and never more within a minute than the cluster and the pools may get, whatever is wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use outrigger_model::{NodeClaim, NodePool, Plan, PodsOutcome, PutOff, PutOffReason, Report, Snapshot};
use outrigger_policy::launch_outcomes::LeftAlone;

/// The time that new nodes are counted in.
const WINDOW: Duration = Duration::from_mins(1);

/// Puts off the nodes that may not be launched now, in plan and report; what comes first in the
/// plan goes first.
pub(crate) fn put_off(snapshot: &Snapshot, left_alone: &LeftAlone<'_>, plan: &mut Plan, report: &mut Report) {
    let mut rate = Rate::new(snapshot, left_alone);
    let mut reasons: BTreeMap<String, PutOffReason> = BTreeMap::new();
    for node in std::mem::take(&mut plan.nodes) {
        match rate.admit(&node.spec.node_pool) {
            Ok(()) => plan.nodes.push(node),
            Err(reason) => {
                plan.put_off.push(PutOff { node_pool: node.spec.node_pool, pods: node.pods, reason });
                reasons.insert(node.claim, reason);
            }
        }
    }
    for entry in &mut report.pods {
        if let PodsOutcome::Placed { on } = &entry.outcome
            && let Some(reason) = reasons.get(on)
        {
            entry.outcome = PodsOutcome::Ignored { reason: reason.to_string() };
        }
    }
    report.nodes.retain(|node| !reasons.contains_key(&node.claim));
}

/// The new nodes of this minute, those of the plan so far among them.
struct Rate<'a> {
    snapshot: &'a Snapshot,
    left_alone: &'a LeftAlone<'a>,
    by_pool: BTreeMap<String, usize>,
    total: usize,
    /// Pools that try with a node of this plan.
    tries: BTreeSet<String>,
}

impl<'a> Rate<'a> {
    fn new(snapshot: &'a Snapshot, left_alone: &'a LeftAlone<'a>) -> Self {
        let (by_pool, tries) = (BTreeMap::new(), BTreeSet::new());
        let mut rate = Self { snapshot, left_alone, by_pool, total: 0, tries };
        let is_recent = |claim: &&NodeClaim| {
            let age = snapshot.taken_at.duration_since(claim.created_at);
            // One that seems to come from the future is young.
            Duration::try_from(age).map_or(true, |age| age < WINDOW)
        };
        for claim in snapshot.claims.iter().filter(is_recent) {
            *rate.by_pool.entry(claim.spec.node_pool.clone()).or_default() += 1;
            rate.total += 1;
        }
        rate
    }

    /// Counts a further node of a pool, or says why it may not be launched now.
    fn admit(&mut self, node_pool: &str) -> Result<(), PutOffReason> {
        if self.left_alone.probing.contains(node_pool) && self.tries.contains(node_pool) {
            return Err(PutOffReason::BesideProbe);
        }
        if self.is_at_the_cap(node_pool) {
            return Err(PutOffReason::OverTheCap);
        }
        *self.by_pool.entry(node_pool.to_owned()).or_default() += 1;
        self.total += 1;
        self.tries.insert(node_pool.to_owned());
        Ok(())
    }

    fn is_at_the_cap(&self, node_pool: &str) -> bool {
        let Some(cluster_cap) = self.snapshot.max_new_nodes_per_minute else { return false };
        let pool = self.snapshot.node_pools.iter().find(|pool| pool.name == node_pool);
        let pool_cap = pool.and_then(NodePool::max_new_nodes_per_minute);
        let count = self.by_pool.get(node_pool).copied().unwrap_or_default();
        self.total >= cluster_cap || pool_cap.is_some_and(|cap| count >= cap)
    }
}
