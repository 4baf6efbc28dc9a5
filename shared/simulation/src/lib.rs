//! A seeded world behind the engine's ports: EC2 with capacity pools, a ledger and a cluster, in
//! virtual time.
//!
//! [`Scenario::read`] reads what is to happen, [`play`] lets it happen under the very functions
//! that run in Lambda, and [`Summary`] says what came of it. No world reads a clock, the
//! environment or a source of randomness: the same scenario makes the same bytes.
//!
//! Each room knows only those before it. `scenario` says what is to happen. `cloud`, `cluster` and
//! `ledger` hold what is there, and `state` joins them. `laws` say what must hold of a state,
//! `course` is what happens to it, and `door` lets the functions' calls in.

pub mod functions;
pub mod judge;
pub mod play;
pub mod scenario;
pub mod summary;
pub mod tally;
pub mod timeline;
#[cfg(feature = "week")]
pub mod week;

mod agenda;
mod calls;
mod cloud;
mod cluster;
mod course;
mod demand;
mod door;
mod environment;
mod faults;
mod laws;
mod ledger;
mod looks;
mod names;
mod offers;
mod policy;
mod queue;
mod random;
mod state;
mod time;
mod world;

pub use calls::{Call, Crash};
pub use cloud::Market;
pub use functions::Kill;
pub use judge::{Failure, Worlds};
pub use looks::Listed;
pub use names::UnknownName;
pub use play::{Ending, Observer, PlayError, Unobserved, play};
pub use policy::Policy;
pub use scenario::{
    AccessMode, Cascade, DisruptionBudget, Event, EventKind, Expect, Function, Interruption, Lifetime,
    Mishap, Promises, Scale, Scenario, StaticPodOfNodes, Uninstall, Workload, WrittenBy,
};
pub use summary::{Figures, Summary};
pub use tally::Tally;
pub use timeline::{Happening, Kind};
