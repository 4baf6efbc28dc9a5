//! The loop of Outrigger: observe through three ports, plan, apply. Every function, the simulator and the tests run
//! this code; they differ in what stands behind the ports.

mod addresses;
mod adoption;
mod apply;
mod collect;
mod command;
mod consistency;
mod drain;
mod error;
mod evict;
mod fleet;
mod guards;
mod health;
mod in_vain;
mod keeper;
mod launch;
mod learning;
mod leaving;
mod liveness;
mod mirror;
mod nomination;
mod observe;
mod pace;
mod placing;
mod rate;
mod recover;
mod register;
mod release;
mod repair;
mod spot_in_vain;
mod staying;
mod templates;
mod watch;

pub mod fleet_errors;
pub mod interrupt;
pub mod lifecycle;
pub mod ports;
pub mod provision;
pub mod refresh;
pub mod terminate;
pub mod uninstall;

pub use error::TickError;
pub use guards::Guards;
pub use observe::chain;
pub use outrigger_planning::binding::DEFAULT_SCHEDULER;
pub use placing::PlacePods;
pub use ports::{Clock, Ports, WallClock};
pub use rate::{Rate, Rates};
