//! The adapters on real servers: the ledger on DynamoDB Local, everything else on moto, which
//! checks the wire format.
//!
//! `cargo xtask test aws` starts both and names them in the environment.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod catalog;
mod classes;
mod launch_health;
mod ledger;
mod moto;
mod support;
