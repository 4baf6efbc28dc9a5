//! A Snapshot becomes a Plan and a Report.
//!
//! No IO, no clock (`snapshot.taken_at` is now), no environment, no randomness: the same snapshot
//! gives the same bytes. What may go where follows Karpenter's rules; which nodes are opened
//! follows the price.
//!
//! [`provision`] asks the policy which pods must leave their node, and `moves` where those go whose
//! node is ended for money. It gives all that wait to the optimiser. `report` writes its solution
//! down as Plan and Report, and `rate` puts off what may not be launched now. [`consolidate`] says
//! which nodes are to be ended by choice. Once planned nodes are ready, [`binding`] says which of
//! their pods may be bound.

pub mod binding;
mod consolidation;
mod moves;
mod provision;
mod rate;
mod report;

pub use consolidation::consolidate;
pub use provision::provision;
