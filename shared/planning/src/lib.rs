//! The judgement: a Snapshot becomes a Plan and a Report.
//!
//! No IO, no clock (`snapshot.taken_at` is now), no environment, no randomness: the same snapshot gives the same bytes.
//! What may go where follows Karpenter's rules; which nodes are opened follows the price.
//!
//! The way through [`provision`]: `queue` says which pods and groups equal ones into `classes`; `templates` say what
//! each pool can launch and `limits` how much; `existing` fills the room that is there; `packing` opens nodes, with
//! `fill` trying one machine at a time, `shadow_prices` saying what room is worth and `offers` choosing the types that
//! a node offers; `result` writes the Plan and the Report, with `explain` for every pod that found no place.

mod amounts;
pub mod check;
mod choices;
mod classes;
mod columns;
mod daemons;
mod existing;
mod explain;
mod fill;
mod limits;
mod naming;
mod offers;
mod options;
mod packing;
mod ports;
mod provision;
mod queue;
mod result;
mod rooms;
mod selection;
mod shadow_prices;
mod templates;

pub use options::{MinValuesPolicy, Options, Preferences};
pub use provision::provision;
