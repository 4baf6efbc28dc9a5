//! How a new node and its pods are handed to kube-scheduler.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::labels::OPENING_TAINT;
use crate::{Taint, TaintEffect};

/// Which of a node's planned pods are left to kube-scheduler, how much it is asked to spare the node at first, and when the node's
/// turn comes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Handover {
    /// The uids of the planned pods that are not nominated for the node, since nominations would make them refuse one
    /// another.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub crowded: BTreeSet<String>,
    /// With how many soft taints it is opened: pods that can go to a node with fewer should, until those that cannot are there.
    #[serde(skip_serializing_if = "is_default")]
    pub soft_taints: u8,
    /// Its place among the nodes of its plan when several are opened together, lowest first.
    #[serde(skip_serializing_if = "is_default")]
    pub turn: u32,
}

impl Handover {
    /// Whether there is nothing special about it: all pods are nominated.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The soft taints that a spared node is opened with; a key of its own for each, since kube-scheduler counts them.
    pub fn taints(&self) -> impl Iterator<Item = Taint> + use<> {
        (1..=self.soft_taints).map(|number| {
            let key =
                if number == 1 { OPENING_TAINT.to_owned() } else { format!("{OPENING_TAINT}-{number}") };
            Taint::new(key, "", TaintEffect::PreferNoSchedule)
        })
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_taint_is_known_as_ours() {
        let spared = Handover { soft_taints: 2, ..Handover::default() };
        let taints: Vec<Taint> = spared.taints().collect();
        let names: Vec<String> = taints.iter().map(ToString::to_string).collect();
        assert_eq!(
            names,
            ["outrigger.dev/opening:PreferNoSchedule", "outrigger.dev/opening-2:PreferNoSchedule"]
        );
        assert!(taints.iter().all(|taint| taint.is_opening() && !taint.is_hard()));
        let taint = taints[0].clone();
        let foreign = Taint { effect: TaintEffect::NoSchedule, ..taint };
        assert!(!foreign.is_opening(), "it keeps pods away for certain, which ours never does");
        assert!(Handover::default().is_plain() && !spared.is_plain());
        assert_eq!(Handover::default().taints().count(), 0);
        let other = Taint::new("outrigger.dev/opening-hours", "", TaintEffect::PreferNoSchedule);
        assert!(!other.is_opening(), "somebody's own");
    }
}
