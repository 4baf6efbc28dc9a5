//! The whole system on real parts: real control plane, ledger and function binaries.
//!
//! Each test starts its own stack and ends it, so several may run at once;
//! `cargo xtask test system` knows how many.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod actions;
mod admission;
mod adopting;
mod aws_faults;
mod carriers;
mod crashes;
mod definitions;
mod deleted_pools;
mod deletion_costs;
mod deployment;
mod disruption;
mod doctor;
mod ending;
mod evictions;
mod faults;
mod getting_started;
mod hanging;
mod identities;
mod interruption;
mod ipv6;
mod live;
mod main_job;
mod memory;
mod node_claims;
mod outages;
mod pause;
mod placing;
mod quiet;
mod refresh;
mod refused;
mod requests;
mod rights;
mod rogue;
mod secrets;
mod setup;
mod token;
mod trust;
mod uninstall;
mod visible;
mod watches;
