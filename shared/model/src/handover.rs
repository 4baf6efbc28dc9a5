//! How a new node and its pods are handed to kube-scheduler.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::labels::OPENING_TAINT;
use crate::{Taint, TaintEffect};

/// Which of a node's planned pods are left to kube-scheduler, and whether it is asked to spare the node at first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Handover {
    /// The uids of the planned pods that are not nominated for the node, since nominations would make them refuse one
    /// another.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub crowded: BTreeSet<String>,
    /// Whether pods that can go elsewhere should, until those that cannot are there.
    pub spared: bool,
}

impl Handover {
    /// Whether there is nothing special about it: all pods are nominated.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The soft taint that a spared node is opened with.
    pub fn taint(&self) -> Option<Taint> {
        self.spared.then(|| Taint::new(OPENING_TAINT, "", TaintEffect::PreferNoSchedule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_taint_is_known_as_ours() {
        let spared = Handover { spared: true, ..Handover::default() };
        let taint = spared.taint().unwrap();
        assert_eq!(taint.to_string(), "outrigger.dev/opening:PreferNoSchedule");
        assert!(taint.is_opening() && !taint.is_hard());
        let foreign = Taint { effect: TaintEffect::NoSchedule, ..taint };
        assert!(!foreign.is_opening(), "it keeps pods away for certain, which ours never does");
        assert!(Handover::default().is_plain() && !spared.is_plain());
        assert_eq!(Handover::default().taint(), None);
    }
}
