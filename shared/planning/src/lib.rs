//! The judgement: a Snapshot becomes a Plan and a Report.
//!
//! No IO, no clock (`snapshot.taken_at` is now), no environment, no randomness: the same snapshot gives the same bytes.
//! What may go where follows Karpenter's rules; which nodes are opened follows the price.
//!
//! The way through [`provision`]: `leaving` says which pods must leave their node, and `moves` where those go whose
//! node is ended for money; a `problem` is built once from the snapshot, with the `market` of what may be bought and
//! the room that `reservations` and the `addresses` of subnets have left; the `search` finds a `solution` for it,
//! `report` writes that down as Plan and Report, and `rate` puts off what may not be launched now. Once the planned
//! nodes are ready, `binding` says which of their pods may be bound, and `launch_outcomes` which nodes came to nothing,
//! and what is left alone because of it. `karpenter` says which pools are another's. `disruption` says which nodes may
//! be given up, and why the others are kept. `check` is the referee: it judges plans and shares no decision with the
//! search, which never asks it.

pub mod addresses;
pub mod binding;
pub mod check;
pub mod demand;
pub mod disruption;
#[cfg(test)]
mod fixtures;
pub mod karpenter;
mod launch_outcomes;
pub mod leaving;
mod market;
mod moves;
mod options;
mod problem;
mod provision;
mod rate;
mod report;
mod reservations;
mod search;
mod solution;

pub use launch_outcomes::pauses;
pub use launch_outcomes::{LaunchOutcome, LaunchOutcomes, StrangeTaint, launch_outcomes};
pub use options::{MinValuesPolicy, Options, Preferences};
pub use provision::provision;
