//! Changes of a Node that several steps of its life make.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{Node, Taint, labels};

use crate::ports::NodeChange;

/// The change that leaves a node as it is.
pub(crate) fn unchanged(node: &Node) -> NodeChange {
    NodeChange {
        name: node.name.clone(),
        resource_version: node.resource_version.clone(),
        labels: BTreeMap::new(),
        gone_labels: BTreeSet::new(),
        annotations: BTreeMap::new(),
        finalizers: node.finalizers.clone(),
        taints: node.taints.clone(),
        foreign_taints: node.foreign_taints.clone(),
    }
}

/// The change that makes a node's deletion wait for us, and nothing else.
pub(crate) fn ours(node: &Node) -> NodeChange {
    let mut finalizers = node.finalizers.clone();
    // The API server takes no new finalizer once an object is being deleted.
    if !node.deleting && !node.has_our_finalizer() {
        finalizers.push(labels::TERMINATION_FINALIZER.into());
    }
    NodeChange { finalizers, ..unchanged(node) }
}

/// Whether a node still has a soft taint that an earlier version opened it with.
pub(crate) fn is_opening(node: &Node) -> bool {
    node.taints.iter().any(Taint::is_opening)
}

/// The change that takes off the soft taints that an earlier version opened a node with.
pub(crate) fn opened(node: &Node) -> NodeChange {
    let mut change = unchanged(node);
    change.taints.retain(|taint| !taint.is_opening());
    change
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::start::registration;
    use outrigger_model::TaintEffect;
    use outrigger_model::fixtures::{claim, node};

    #[test]
    fn soft_taints_of_an_earlier_version_go() {
        let soft = ["outrigger.dev/opening", "outrigger.dev/opening-2"];
        let soft = soft.map(|key| Taint::new(key, "", TaintEffect::PreferNoSchedule));
        let planned = [claim().spec.taints, claim().spec.startup_taints].concat();
        let opening = node([soft.as_slice(), &planned].concat());
        assert!(is_opening(&opening));
        assert_eq!(opened(&opening).taints, planned);
        assert_eq!(registration(&claim(), &opening, BTreeMap::new()).taints, planned);
    }
}
