//! One optimiser: a [`problem`] becomes a [`solution`].
//!
//! It knows no cluster but its Problem, which is built once from a Snapshot, with the [`market`] of
//! what may be bought. The [`search`] finds a Solution for it. It never asks the referee.

mod amounts;
mod fixed_map;
pub mod ids;
pub mod market;
pub mod problem;
pub mod search;
pub mod solution;
