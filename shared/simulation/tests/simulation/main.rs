//! The engine and the planner in worlds of the simulation: rules by scenario, every crash point,
//! and worlds drawn from seeds.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod absences;
mod alone;
mod architectures;
mod chance;
mod clocks;
mod common;
mod conflicts;
mod crash;
mod crowds;
mod deletions;
mod determinism;
mod disruption;
mod ending;
mod fleets;
mod floods;
mod guards;
mod headroom;
mod health;
mod interruption;
mod karpenter;
mod keepers;
mod launching;
mod laws;
mod leases;
mod managed;
mod neighbours;
mod pause;
mod placing;
mod policies;
mod pools;
mod protection;
mod quiet;
mod rates;
mod rebalance;
mod refused;
mod rest;
mod restored;
#[cfg(feature = "week")]
mod rival;
mod scenario;
mod scheduler;
mod standing;
mod static_pods;
mod steering;
mod tally;
mod templates;
mod uninstall;
mod unreadable;
mod volumes;
mod workloads;
