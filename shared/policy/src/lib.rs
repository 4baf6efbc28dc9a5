//! What may and what must happen: rules about pods, nodes and pools, after Kubernetes', Karpenter's
//! and kOps'.
//!
//! No IO, no clock (`snapshot.taken_at` is now), no environment, no randomness, and no search:
//! nothing here knows how a plan is found.
//!
//! [`pods`] says which pods a decision is about and what comes with them. [`leaving`] says which
//! pods must leave their node, and [`Supposed`] is the world in which that has begun.
//! [`disruption`] says which nodes may be given up, and why the others are kept.
//! [`launch_outcomes`] says which nodes came to nothing, and what is left alone because of it.
//! [`addresses`] and [`reservations`] say what subnets and capacity reservations have room for,
//! [`demand`] what may come next, [`karpenter`] which pools are another's.

pub mod addresses;
pub mod demand;
pub mod disruption;
#[cfg(test)]
mod fixtures;
pub mod karpenter;
pub mod launch_outcomes;
pub mod leaving;
mod options;
pub mod pods;
pub mod reservations;

pub use launch_outcomes::{LaunchOutcome, LaunchOutcomes, StrangeTaint, launch_outcomes, pauses};
pub use leaving::Supposed;
pub use options::{MinValuesPolicy, Options, Preferences};
