//! The whole system on real parts: real control plane, ledger and function binaries.
//!
//! Each test starts its own stack and ends it. They run one at a time (`--test-threads=1`): the machine has two cores.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod admission;
mod aws_faults;
mod carriers;
mod crashes;
mod definitions;
mod ending;
mod evictions;
mod faults;
mod interruption;
mod main_job;
mod outages;
mod refresh;
mod refused;
mod rogue;
mod trust;
mod uninstall;
