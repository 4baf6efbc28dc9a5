//! Pods whose node is going: a place is planned for them as if they were pending, so that what
//! replaces their node starts before they fall (Karpenter: pods on deleting nodes).
//!
//! Each decision plans them anew. The first one buys a node for them; the later ones find room on
//! it, since the claim names them and the room that they take on their old node counts for nothing.
//! A pod that falls leaves the plan, and the one that its controller makes takes its room: what is
//! bought stays the same from the first plan to the last pod.
//!
//! `claims` says which nodes are going, `eviction` which pods will not leave them, and
//! `replacement` which nodes go of our own accord, once what their pods move to is ready. `company`
//! says which pods must stay where others are kept. [`Supposed`] is the world as a decision sees
//! it.

mod claims;
mod company;
pub mod eviction;
pub mod replacement;
mod supposed;

use outrigger_model::Snapshot;

pub use claims::LeavingClaims;
pub use supposed::Supposed;

/// Whether some node is going or is to be replaced. Only then does a decision ask for the
/// PodDisruptionBudgets.
pub fn is_any_node_leaving(snapshot: &Snapshot) -> bool {
    let mut held = replacement::held(&snapshot.claims, &snapshot.commands, snapshot.taken_at);
    held.next().is_some() || !LeavingClaims::ending(&snapshot.claims).nodes(&snapshot.nodes).is_empty()
}
