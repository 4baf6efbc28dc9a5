//! What must hold when a NodePool is deleted.

use std::time::Duration;

use outrigger_model::{ClaimState, NodeClaim};

use crate::scenario::Cascade;
use crate::state::State;

/// By then whatever disturbed the end of its nodes is long over.
pub(crate) const LONGEST_DELETION: Duration = Duration::from_mins(25);

/// An object that was orphaned is nobody's: it must not be given to a pool that is gone, for which it would be deleted.
pub(crate) fn collection(state: &State, deleted: &[String]) -> Vec<String> {
    let kept = deleted.iter().filter(|claim| state.cluster.is_orphaned(claim));
    kept.map(|claim| format!("NodeClaim/{claim} was orphaned, and is deleted all the same")).collect()
}

/// The nodes of a pool that was deleted are going, [`LONGEST_DELETION`] after that, but for those that were to be
/// kept. Nobody ends them where the functions are gone, and nothing is asked where the ledger has forgotten them.
pub(crate) fn overdue(state: &State, uid: &str) -> Vec<String> {
    let deleted = state.cluster.deleted_pool(uid).filter(|pool| pool.cascade != Cascade::Orphan);
    let Some(pool) = deleted.filter(|_| !state.is_without_functions() && state.restored_at.is_none()) else {
        return Vec::new();
    };
    let lives = |claim: &&NodeClaim| {
        matches!(claim.status.state, ClaimState::Launched | ClaimState::Registered | ClaimState::Initialized)
    };
    let left = state.ledger.claims().filter(lives).filter(|claim| claim.spec.node_pool == pool.name);
    left.map(|claim| format!("claim {} lives on, and its NodePool {} was deleted", claim.name, pool.name))
        .collect()
}
