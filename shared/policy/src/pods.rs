//! Which pods a decision is about, and what comes with them.
//!
//! `queue` says which pods wait for a node, `virtual_pods` which stand for room that nobody asks
//! for yet, and `fill_pods` how much of that room follows from what has come. `daemons` and
//! `static_pods` say what a node runs beside them, `volumes` where their volumes let them be, and
//! `ports` which of them clash.

pub mod daemons;
pub mod fill_pods;
pub mod ports;
pub mod queue;
pub mod static_pods;
pub mod virtual_pods;
pub mod volumes;
