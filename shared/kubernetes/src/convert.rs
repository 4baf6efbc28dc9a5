//! Objects of the API turned into the model's.
//!
//! An object that cannot be read whole says so with its name, the field, what stands there and what
//! may. Of pods, nodes and daemonsets as much is read as can be, since each of them takes or gives
//! room. What is refused altogether has no name; the caller goes on without it.

mod affinity;
mod bounds;
mod csi_node;
mod daemon_set;
mod disruption_budget;
mod interner;
mod namespace;
mod node;
mod part;
mod pod;
mod problem;
mod readable;
mod requests;
mod selector;
mod spec;
mod spread;
mod static_pod;
mod template;
mod tolerations;
mod volume;

#[cfg(test)]
mod tests;

pub use csi_node::csi_node;
pub use daemon_set::daemon_set;
pub use disruption_budget::{disruption_budget, unreadable_budget};
pub use interner::Interner;
pub use namespace::{namespace, unlabelled_namespace};
pub use node::node;
pub(crate) use part::{daemon_set_in_part, node_in_part, pod_in_part};
pub use pod::pod;
pub use static_pod::static_pod;
pub use template::{Template, Templated, capacity_buffer, template};
pub use volume::Volumes;
