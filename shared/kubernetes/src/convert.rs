//! Pods, nodes and daemonsets of the API turned into the model's.
//!
//! An object that cannot be understood is refused with its name, the field, what stands there and what may; the caller
//! goes on without it.

mod affinity;
mod daemon_set;
mod interner;
mod node;
mod pod;
mod problem;
mod requests;
mod selector;
mod spec;
mod spread;
mod tolerations;

#[cfg(test)]
mod tests;

pub use daemon_set::daemon_set;
pub use interner::Interner;
pub use node::node;
pub use pod::pod;
