//! Which nodes may be disrupted by choice, for which reason and how many at once, and why each
//! other node is kept: pure rules, after Karpenter's.
//!
//! `settings` are the numbers that may be chosen, `managed_nodes` the nodes that are ours with
//! their claims. `budgets` says how many nodes of a pool may go now, and `candidates` which nodes
//! may, with what each costs (`price`) and how it has drifted (`drift`), or why it is `kept`.
//! `attrition` says how long a drifted node may empty by itself, `patience` when a command that
//! saves money begins, and `ranking` in which order a pool's nodes should empty by themselves. Some
//! pools ask for more: `expiry` is for those that replace expiring nodes first, `balance` for those
//! of the policy Balanced, `static_pools` for those with a fixed number of nodes, `windows` for
//! those that allow disruption only at times.

pub mod attrition;
mod balance;
pub mod budgets;
pub mod candidates;
pub mod consolidation;
pub mod drift;
pub mod expiry;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod kept;
mod load;
pub mod managed_nodes;
pub mod patience;
pub mod price;
pub mod ranking;
pub mod settings;
pub mod static_pools;
mod windows;

pub use balance::{Balance, balances};
pub use budgets::{Allowance, Budgets, Closed};
pub use candidates::{Candidate, Candidates, KeptNode, candidates};
pub use consolidation::{Consolidation, ConsolidationCommand, KeptName, NodeCost};
pub use drift::DriftReason;
pub use expiry::GracefulExpiry;
pub use kept::{Until, WhyKept};
pub use patience::Patience;
pub use ranking::RankedNode;
pub use settings::DisruptionSettings;
