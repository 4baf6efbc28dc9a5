//! The Lambda shell: configuration read once, logs, metrics, limits of time, and the wiring of
//! ports to ticks. The functions' `main` only call in here.

mod config;
mod connect;
mod doctor;
mod functions;
mod interrupt;
mod limits;
mod metrics;

pub use functions::{disrupt, lifecycle, provision, refresh};
pub use interrupt::interrupt;
pub use lambda_runtime::Error;
