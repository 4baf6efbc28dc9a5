//! Where pods lie among one another: spread, affinity and anti-affinity.
//!
//! `groups` says which pods each rule counts, `sites` on which nodes, `rules` what it asks of a
//! pod, `domains` which domains there are, `counts` how many pods are in each, and `hosts` the same
//! for one node.

pub(crate) mod counts;
pub(crate) mod domains;
pub(crate) mod groups;
pub(crate) mod hosts;
pub(crate) mod rules;
pub(crate) mod sites;

pub(crate) use counts::Counts;
pub(crate) use domains::{DomainMakers, Topology};
pub(crate) use groups::Groups;
pub(crate) use hosts::{Affinity, Host, HostRules, Spreads};
pub use rules::{Rule, RuleKind};
pub(crate) use sites::Standing;
