//! From a Plan to instances: `apply` groups its nodes into launches (`fleet`), `launcher` sends
//! each at EC2's `pace`, and what died half way is closed by `recover`.
//!
//! What EC2 answers is judged by `fleet_errors`, remembered in `health`, and heeded by the next
//! plan. `templates` tells which launch templates nobody uses any more.

pub(crate) mod apply;
mod fleet;
pub mod fleet_errors;
pub(crate) mod health;
pub(crate) mod launcher;
mod pace;
pub(crate) mod recover;
pub(crate) mod templates;
