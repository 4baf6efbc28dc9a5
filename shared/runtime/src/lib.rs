//! The Lambda shell: configuration read once, logs, metrics, the deadline, and the wiring of ports to ticks. The
//! functions' `main` only call in here.

mod config;
mod connect;
mod deadline;
mod functions;
mod interrupt;
mod metrics;

pub use functions::{disrupt, lifecycle, provision, refresh};
pub use interrupt::interrupt;
pub use lambda_runtime::Error;
