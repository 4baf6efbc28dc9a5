//! The loop of Outrigger: observe through three ports, plan, apply. Every function, the simulator and the tests run
//! this code; they differ in what stands behind the ports.

mod apply;
mod error;
mod fleet;
mod keeper;
mod observe;
mod opening;
mod recover;
mod register;
mod watch;

pub mod fleet_errors;
pub mod lifecycle;
pub mod ports;
pub mod provision;
pub mod refresh;

pub use error::TickError;
pub use ports::{Clock, Ports, WallClock};
