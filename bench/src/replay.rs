//! The scenarios that the replay gives to a real kube-scheduler, and of whose plans `digests` keeps
//! the bytes.

mod affinity;
mod capacity;
mod consolidation;
mod nodes;
mod objects;
mod scenario;
mod sizes;
mod spread;
mod storage;

pub use consolidation::{consolidations, drawn_running};
pub use objects::daemon_pod;
pub use scenario::Scenario;
pub use sizes::{SEED, drawn};

/// One for each rule of the planner, of twenty to eighty pods.
pub fn rules() -> Vec<Scenario> {
    [nodes::all(), spread::all(), affinity::all(), storage::all(), capacity::all()].concat()
}
