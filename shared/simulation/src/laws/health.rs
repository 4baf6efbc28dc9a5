//! What must hold when nodes are given up for their health.

use std::time::Duration;

use outrigger_engine::ports::NodeChange;
use outrigger_model::{ClaimState, NodeClaim, TerminationReason, labels};

use crate::state::State;
use crate::time::Moment;

/// Between a look and what follows from it lies less.
const ONE_LOOK: Duration = Duration::from_mins(1);
/// A run may stand still for so long between what it saw and what it does.
pub(super) const LONGEST_STANDSTILL: Duration = Duration::from_secs(125);
/// A node may be closed for so long before anybody writes down why.
const LEAST_CLOSED: Duration = Duration::from_secs(50);

/// A node that somebody closed is opened only when nobody has begun to drain it for a minute.
/// Before its drain has marked it a run may open it that asked the ledger earlier and stood still.
/// Without functions nobody drains.
pub(crate) fn opening(state: &State, change: &NodeChange, moment: Moment) -> Option<String> {
    let stays = change.taints.iter().any(|taint| taint.key == labels::DISRUPTED_TAINT);
    let is_free = stays || state.is_without_functions();
    let since = state.cluster.closed_since(&change.name).filter(|_| !is_free)?;
    let node = state.cluster.nodes().get(&change.name)?;
    let claim = node.annotations.get(labels::CLAIM);
    let is_marked =
        |claim: &NodeClaim| claim.status.termination.as_ref().is_some_and(|end| end.tainted_at.is_some());
    let mut claims = state.ledger.claims().filter(|other| Some(&other.name) == claim);
    let drains = claims.any(|claim| !claim.status.state.accepts_pods() && is_marked(claim));
    let too_soon = moment.elapsed.saturating_sub(since) < LEAST_CLOSED || drains;
    too_soon.then(|| format!("{} was opened too soon", change.name))
}

/// No instance is ended for want of a claim while most nodes that were once ready are not, and have
/// not been for long.
pub(crate) fn conclusion(state: &State, id: &str, moment: Moment) -> Option<String> {
    let (lost, nodes) = partition(state)?;
    let lasts = moment.elapsed.saturating_sub(state.partitioned_since.unwrap_or(moment.elapsed));
    let complaint = || format!("{id} was terminated while {lost} of {nodes} nodes were not heard of");
    (lasts >= LONGEST_STANDSTILL).then(complaint)
}

/// How many nodes of how many are not heard of, where these are so many that nothing may be
/// concluded.
pub(crate) fn partition(state: &State) -> Option<(usize, usize)> {
    let started = state.cluster.nodes().values().filter(|node| node.ready || node.is_initialized());
    let (mut nodes, mut lost) = (0_usize, 0_usize);
    for node in started {
        nodes += 1;
        lost += usize::from(!node.ready);
    }
    (lost > 3 && lost * 100 > nodes * 45).then_some((lost, nodes))
}

/// A node is given up only while at most a fifth of its pool, rounded up, is unhealthy.
pub(crate) fn repair(state: &State, claim: &NodeClaim, moment: Moment) -> Vec<String> {
    let begins = claim.status.termination.as_ref().is_some_and(|end| {
        end.reason == TerminationReason::Unhealthy && end.tainted_at.is_none() && end.terminating_at.is_none()
    });
    if !begins || claim.status.state != ClaimState::Draining {
        return Vec::new();
    }
    let of_pool =
        state.cluster.nodes().values().filter(|node| node.node_pool() == Some(&claim.spec.node_pool));
    let (mut nodes, mut unhealthy) = (0_usize, 0_usize);
    for node in of_pool {
        nodes += 1;
        let is_lost = state.silent.contains(&node.name) && !node.ready;
        unhealthy += usize::from(is_lost || state.cloud.is_impaired(&node.name, ONE_LOOK, moment));
    }
    let broken = unhealthy > (nodes * 20).div_ceil(100);
    let complaint =
        || format!("{} was repaired while {unhealthy} of {nodes} nodes were unhealthy", claim.name);
    broken.then(complaint).into_iter().collect()
}
