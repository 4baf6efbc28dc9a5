//! The scenarios.

mod affinity;
mod capacity;
mod consolidation;
mod nodes;
mod objects;
mod sizes;
mod spread;
mod storage;

use crate::scenario::Scenario;

pub(crate) use consolidation::{consolidations, drawn_running};
pub(crate) use sizes::{SEED, drawn};

/// One for each rule of the planner, of twenty to eighty pods.
pub(crate) fn rules() -> Vec<Scenario> {
    [nodes::all(), spread::all(), affinity::all(), storage::all(), capacity::all()].concat()
}
