//! What the planner is measured with: scenarios of any size, a lower bound on their cost,
//! Karpenter's scheduler on the same files, and random scenarios on which the two are compared.
//!
//! [`scenario`] makes files as kubectl prints them; [`catalogue`] says what can be bought;
//! [`snapshot`] reads both as the command line does; [`bound`] is the least that any packing costs;
//! [`figures`] are ours and [`karpenter`]'s results in one form; [`differential`] draws small
//! clusters on which the two are compared; [`replay`] are the scenarios for a real kube-scheduler;
//! [`mutations`] are what the optimiser is tried without; [`bill`] is what the functions themselves
//! cost; [`columns`] prints rows, and [`exit`] is how the programs end.

pub mod bill;
pub mod bound;
pub mod catalogue;
pub mod columns;
pub mod differential;
pub mod exit;
pub mod figures;
pub mod karpenter;
pub mod mutations;
pub mod replay;
pub mod scenario;
pub mod snapshot;

pub use bound::{Bound, lower_bound};
pub use figures::Figures;
pub use karpenter::Karpenter;
pub use mutations::Mutation;
pub use scenario::{Recipe, Scenario};
