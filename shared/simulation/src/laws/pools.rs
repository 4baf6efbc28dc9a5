//! What must hold when a NodePool is deleted.

use std::time::Duration;

use jiff::SignedDuration;
use outrigger_model::{ClaimState, NodeClaim, TerminationReason, labels};

use crate::scenario::Cascade;
use crate::state::State;
use crate::time::Moment;

/// By then whatever disturbed the end of its nodes is long over.
pub(crate) const LONGEST_DELETION: Duration = Duration::from_mins(25);

/// Deletions this close together count together.
const TOGETHER: SignedDuration = SignedDuration::from_mins(10);

/// An object that was orphaned is nobody's: it must not be given to a pool that is gone, for which
/// it would be deleted.
pub(crate) fn collection(state: &State, deleted: &[String]) -> Vec<String> {
    let kept = deleted.iter().filter(|claim| state.cluster.is_orphaned(claim));
    kept.map(|claim| format!("NodeClaim/{claim} was orphaned, and is deleted all the same")).collect()
}

/// Three nodes, or a tenth of them, may end within ten minutes because they were deleted, but for
/// those whose end somebody says to be meant. None ends because its NodeClaim went with the
/// definition.
pub(crate) fn deletion(
    state: &State,
    before: Option<&NodeClaim>,
    after: &NodeClaim,
    moment: Moment,
) -> Vec<String> {
    let end = |claim: &NodeClaim| claim.status.termination.clone();
    let is_deleted = end(after).is_some_and(|end| end.reason == TerminationReason::Deleted);
    let begins = is_deleted && before.is_some_and(|before| end(before).is_none());
    if !begins || is_meant(state, after) {
        return Vec::new();
    }
    let mut broken = Vec::new();
    let node = after.instance_id().and_then(|id| state.cluster.nodes().get(id));
    if state.cluster.went_with_definition(&after.name) && !node.is_some_and(|node| node.deleting) {
        broken.push(format!("claim {} ended since the definition of its object was deleted", after.name));
    }
    let living: Vec<&NodeClaim> =
        state.ledger.claims().filter(|claim| !claim.status.state.is_terminal()).collect();
    let lately = |claim: &&&NodeClaim| {
        let end = end(claim).filter(|end| end.reason == TerminationReason::Deleted);
        end.is_some_and(|end| moment.at.duration_since(end.since) < TOGETHER) && !is_meant(state, claim)
    };
    let together = 1 + living.iter().filter(lately).count();
    if together > 3.max(living.len() / 10) {
        broken.push(format!("{together} of {} nodes ended at once, since they were deleted", living.len()));
    }
    broken
}

/// Whether somebody says that the end of a claim is meant.
fn is_meant(state: &State, claim: &NodeClaim) -> bool {
    let mirror = state.cluster.mirrors().get(&claim.name);
    let node = claim.instance_id().and_then(|id| state.cluster.nodes().get(id));
    mirror.is_some_and(|mirror| mirror.delete_anyway)
        || node.is_some_and(|node| node.annotations.contains_key(labels::DELETE_ANYWAY))
}

/// The nodes of a pool that was deleted are going, [`LONGEST_DELETION`] after that, but for those
/// that were to be kept. Nobody ends them where the functions are gone, and nothing is asked where
/// the ledger has forgotten them.
pub(crate) fn overdue(state: &State, uid: &str) -> Vec<String> {
    let deleted = state.cluster.deleted_pool(uid).filter(|pool| pool.cascade != Cascade::Orphan);
    // While NodeClaims were not defined, no object belonged to the pool.
    let is_known = state.restored_at.is_none() && !state.lost_definition;
    let Some(pool) = deleted.filter(|_| !state.is_without_functions() && is_known) else {
        return Vec::new();
    };
    let lives = |claim: &&NodeClaim| {
        matches!(claim.status.state, ClaimState::Launched | ClaimState::Registered | ClaimState::Initialized)
    };
    let survivors = state.ledger.claims().filter(lives).filter(|claim| claim.spec.node_pool == pool.name);
    let complaint = |claim: &NodeClaim| {
        format!("claim {} lives on, and its NodePool {} was deleted", claim.name, pool.name)
    };
    survivors.map(complaint).collect()
}
