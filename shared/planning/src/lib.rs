//! The judgement: a Snapshot becomes a Plan and a Report.
//!
//! No IO, no clock (`snapshot.taken_at` is now), no environment, no randomness: the same snapshot gives the same bytes.
//! What may go where follows Karpenter's rules; which nodes are opened follows the price.
//!
//! The way through [`provision`]: `leaving` says which pods must leave their node, and `queue` which pods are planned for;
//! `attempts` decides about them once, or again where that promises more; `classes` makes one of those that ask the same, with the
//! `ways` in which each may be placed and the `topology` rules about the pods beside it; `templates` say what each pool
//! can launch and `limits` how much; `placing` fills the `rooms` that are there and gives a domain to every pod on which
//! a rule depends; `packing` opens nodes for the `bins` that are left, with `fill` trying one machine at a time,
//! `shadow_prices` saying what room is worth and `offers` choosing the types that a node offers; `result` writes the
//! Plan and the Report, with `explain` for every pod that found no place, and `rate` puts off what may not be
//! launched now. Once the planned nodes are ready, `binding` says which of their pods may be bound, and
//! `launch_outcomes` which nodes came to nothing.

mod again;
mod amounts;
mod attempts;
pub mod binding;
mod bins;
pub mod check;
mod classes;
mod columns;
mod daemons;
mod explain;
mod fill;
#[cfg(test)]
mod fixtures;
mod launch_outcomes;
pub mod leaving;
mod limits;
mod naming;
mod offers;
mod options;
mod packing;
mod placing;
mod ports;
mod price_order;
mod provision;
mod queue;
mod rate;
mod result;
mod rooms;
mod selection;
mod selections;
mod shadow_prices;
mod templates;
mod topology;
mod volumes;
mod ways;

pub use launch_outcomes::{LaunchFailure, LaunchOutcome, LaunchOutcomes, launch_outcomes};
pub use options::{MinValuesPolicy, Options, Preferences};
pub use provision::provision;
