//! What must hold when nodes are given up for their health.

use outrigger_model::{ClaimState, NodeClaim, TerminationReason};

use crate::state::State;

/// A node is given up only while at most a fifth of its pool, rounded up, is unhealthy.
pub(crate) fn repair(state: &State, claim: &NodeClaim) -> Vec<String> {
    let begins = claim.termination.as_ref().is_some_and(|end| {
        end.reason == TerminationReason::Unhealthy && end.tainted_at.is_none() && end.terminating_at.is_none()
    });
    if !begins || claim.state != ClaimState::Draining {
        return Vec::new();
    }
    let of_pool = state.cluster.nodes().values().filter(|node| node.node_pool() == Some(&claim.node_pool));
    let (mut all, mut unhealthy) = (0_usize, 0_usize);
    for node in of_pool {
        all += 1;
        let is_lost = state.silent.contains(&node.name) && !node.ready;
        unhealthy += usize::from(is_lost || state.cloud.is_impaired(&node.name));
    }
    let broken = unhealthy > (all * 20).div_ceil(100);
    let told = || format!("{} was repaired while {unhealthy} of {all} nodes were unhealthy", claim.name);
    broken.then(told).into_iter().collect()
}
