//! How many nodes may be launched now: one for a pool that tries again after a pause, and never more within a minute than
//! the cap says, whatever the plan asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{NodeClaim, NodePool, Outcome, Plan, PlannedNode, Report};

/// The time that caps count in.
const WINDOW: Duration = Duration::from_mins(1);

/// How many nodes may be launched.
#[derive(Clone, Debug)]
pub(crate) struct Allowance<'a> {
    /// Pools that may try with one node.
    pub(crate) probing: &'a BTreeSet<String>,
    /// New nodes a minute in the whole cluster.
    pub(crate) most: usize,
    /// The pools, for their own caps (annotation `outrigger.dev/max-new-nodes-per-minute`).
    pub(crate) pools: &'a [NodePool],
    /// Claims that are not over.
    pub(crate) claims: &'a [NodeClaim],
    /// Now.
    pub(crate) now: Timestamp,
}

/// Planned nodes that are not launched now.
#[derive(Debug, Default)]
pub(crate) struct PutOff {
    /// Those that another pool may serve, since theirs only tries.
    pub(crate) beside_probes: Vec<PlannedNode>,
    /// Those that wait for the next minute.
    pub(crate) over_the_cap: Vec<PlannedNode>,
}

impl PutOff {
    fn nodes(&self) -> impl Iterator<Item = (&PlannedNode, &'static str)> {
        let beside = self.beside_probes.iter().map(|node| (node, BESIDE));
        beside.chain(self.over_the_cap.iter().map(|node| (node, OVER)))
    }

    /// Takes back what a report says about nodes that are not launched now.
    pub(crate) fn correct(&self, report: &mut Report) {
        let why: BTreeMap<&str, &'static str> =
            self.nodes().map(|(node, why)| (node.claim.as_str(), why)).collect();
        for entry in &mut report.pods {
            let put_off = match &entry.outcome {
                Outcome::Placed { on } => why.get(on.as_str()),
                _ => None,
            };
            if let Some(why) = put_off {
                entry.outcome = Outcome::Ignored { reason: (*why).to_owned() };
            }
        }
        report.nodes.retain(|node| !why.contains_key(node.claim.as_str()));
    }
}

const BESIDE: &str = "its node is put off: the NodePool tries with one node after a pause";
const OVER: &str = "its node is put off: as many nodes as allowed were launched within this minute";

impl Allowance<'_> {
    /// Takes out of a plan what may not be launched now; what comes first in it goes first.
    pub(crate) fn apply(&self, plan: &mut Plan) -> PutOff {
        let mut recent: BTreeMap<&str, usize> = BTreeMap::new();
        for claim in self.claims.iter().filter(|claim| self.is_recent(claim)) {
            *recent.entry(claim.node_pool.as_str()).or_default() += 1;
        }
        let mut total: usize = recent.values().sum();
        let mut counts: BTreeMap<String, usize> =
            recent.into_iter().map(|(pool, count)| (pool.to_owned(), count)).collect();
        let mut tries = BTreeSet::new();
        let mut put_off = PutOff::default();
        for node in std::mem::take(&mut plan.nodes) {
            let count = counts.entry(node.node_pool.clone()).or_default();
            if self.probing.contains(&node.node_pool) && tries.contains(&node.node_pool) {
                put_off.beside_probes.push(node);
            } else if total >= self.most || self.cap(&node.node_pool).is_some_and(|cap| *count >= cap) {
                put_off.over_the_cap.push(node);
            } else {
                (*count, total) = (*count + 1, total + 1);
                tries.insert(node.node_pool.clone());
                plan.nodes.push(node);
            }
        }
        put_off
    }

    fn is_recent(&self, claim: &NodeClaim) -> bool {
        let age = self.now.duration_since(claim.created_at);
        Duration::try_from(age).map_or(true, |age| age < WINDOW)
    }

    fn cap(&self, node_pool: &str) -> Option<usize> {
        self.pools.iter().find(|pool| pool.name == node_pool)?.max_new_nodes_per_minute()
    }
}
