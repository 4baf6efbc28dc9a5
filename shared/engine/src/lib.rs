//! The loop of Outrigger: observe through three ports, plan, apply. Every function, the simulator
//! and the tests run this code; they differ in what stands behind the ports.
//!
//! The ticks (`provision`, `lifecycle`, `disrupt`, `interruption`, `refresh`) say what comes after
//! what. What they do stands in rooms: `observe` puts the Snapshot together, `launch` makes a Plan
//! come true, `claim` is a node's life, and `sweep` finds what is amiss between EC2, ledger and
//! cluster. `status` shows people what has become of the objects that they wrote. By `bell` the
//! ticks wake one another. `adopt` and `uninstall` are for the command: the way in for nodes that
//! others have launched, and the way out.

mod bell;
mod chain;
mod claim;
mod error;
mod guards;
mod identity;
mod launch;
mod lease_guard;
mod observe;
mod pause;
mod rate_limit;
mod status;
mod sweep;

pub mod adopt;
pub mod disrupt;
pub mod interruption;
pub mod lifecycle;
pub mod ports;
pub mod provision;
pub mod refresh;
pub mod uninstall;

pub use outrigger_planning::binding::DEFAULT_SCHEDULER;
pub use outrigger_policy::{MinValuesPolicy, Preferences};

pub use chain::chain;
pub use claim::placing::PlacePods;
pub use error::TickError;
pub use guards::{Guard, Guards};
pub use launch::fleet_errors;
pub use ports::{Clock, Ports, WallClock};
pub use rate_limit::{Rate, Rates};
