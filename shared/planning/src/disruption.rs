//! Which nodes may be disrupted by choice, for which reason and how many at once, and why each other node is kept: pure
//! rules, after Karpenter's.
//!
//! `settings` are the numbers that may be chosen, `own_nodes` the nodes that are ours with their claims, and `budgets`
//! how many nodes of a pool may go now.

pub mod budgets;
#[cfg(test)]
mod fixtures;
mod own_nodes;
pub mod settings;

pub use budgets::{Allowance, Budgets, Closed};
pub use settings::DisruptionSettings;
