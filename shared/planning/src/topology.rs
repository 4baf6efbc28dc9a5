//! Where pods lie among one another: spread, affinity and anti-affinity.
//!
//! `groups` says which pods each rule counts, `sites` on which nodes, `rules` what it asks of a pod, `counts` how many
//! there are in each domain, and `hosts` the same for one node that is being filled.

pub(crate) mod counts;
pub(crate) mod groups;
pub(crate) mod hosts;
pub(crate) mod rules;
pub(crate) mod sites;

pub(crate) use counts::Counts;
pub(crate) use groups::{GroupId, Groups};
pub(crate) use hosts::Host;
pub(crate) use rules::{Rule, RuleKind};
pub(crate) use sites::Standing;
