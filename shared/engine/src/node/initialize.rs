//! Whether a registered node is ready for pods: pure rules.

use std::collections::BTreeMap;
use std::fmt;

use outrigger_model::{Node, NodeClaim, Taint, TaintEffect, labels};

use crate::node::change::unchanged;
use crate::node::placing::opened;
use crate::ports::NodeChange;

/// Why a registered node is not ready for pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unready {
    /// Its Ready condition is not true.
    NotReady,
    /// It still has a taint that something must take off first.
    Tainted(Taint),
    /// It does not offer this extended resource, which its pods ask for.
    Lacks(String),
}

impl fmt::Display for Unready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady => f.write_str("its node is not Ready"),
            Self::Tainted(taint) => write!(f, "its node still has the taint {taint}"),
            Self::Lacks(resource) => write!(f, "its node does not offer {resource} yet"),
        }
    }
}

/// Why a registered node cannot run its planned pods yet, its being closed aside; `None` when it can. What it
/// offers is not looked at.
pub(crate) fn not_startable(claim: &NodeClaim, node: &Node) -> Option<Unready> {
    if !node.ready {
        return Some(Unready::NotReady);
    }
    let waits_for = |taint: &&Taint| {
        let is_its_own = claim.spec.taints.iter().any(|own| own.matches(taint));
        taint.key != labels::PLACING_TAINT && taint.is_ephemeral()
            || claim.spec.startup_taints.iter().any(|startup| startup.matches(taint))
            || taint.effect == TaintEffect::NoExecute && !is_its_own
    };
    node.taints.iter().find(waits_for).cloned().map(Unready::Tainted)
}

/// Why a registered node is not ready for pods yet; `None` when it is (Karpenter
/// `nodeclaim/lifecycle/initialization.go`).
pub(crate) fn not_initialized(claim: &NodeClaim, node: &Node) -> Option<Unready> {
    if !node.ready {
        return Some(Unready::NotReady);
    }
    let waits_for = |taint: &&Taint| {
        taint.is_ephemeral() || claim.spec.startup_taints.iter().any(|startup| startup.matches(taint))
    };
    if let Some(taint) = node.taints.iter().find(waits_for) {
        return Some(Unready::Tainted(taint.clone()));
    }
    let missing = claim.status.requests.iter().find(|(name, quantity)| {
        let extended = name.contains('/');
        extended && !quantity.is_zero() && node.allocatable.get(name).is_zero()
    });
    missing.map(|(name, _)| Unready::Lacks(name.to_owned()))
}

/// Whether a node is ready for pods but for being closed to those that were not planned for it.
pub(crate) fn awaits_only_pods(claim: &NodeClaim, node: &Node) -> bool {
    let opened = Node { taints: opened(node).taints, ..node.clone() };
    node.awaits_placing() && not_initialized(claim, &opened).is_none()
}

/// The change that says that a node is ready for pods.
pub(crate) fn initialization(node: &Node) -> NodeChange {
    let label = BTreeMap::from([(labels::INITIALIZED.to_owned(), "true".to_owned())]);
    NodeChange { labels: label, ..unchanged(node) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outrigger_model::Resources;
    use outrigger_model::fixtures::{claim, node};

    #[test]
    fn pods_are_placed_when_only_the_placing_holds_the_node_back() {
        let closed = |taints: Vec<Taint>| node([vec![Taint::placing()], taints].concat());
        assert_eq!(not_startable(&claim(), &closed(claim().spec.taints)), None);
        let no_gpu = Node { allocatable: Resources::new(), ..closed(vec![]) };
        assert_eq!(not_startable(&claim(), &no_gpu), None, "pods without a GPU need not wait for it");
        for (taint, word) in [
            (claim().spec.startup_taints[0].clone(), "cni"),
            (Taint::new("node.kubernetes.io/not-ready", "", TaintEffect::NoSchedule), "not-ready"),
            (Taint::new("example.com/broken", "", TaintEffect::NoExecute), "broken"),
        ] {
            assert!(
                not_startable(&claim(), &closed(vec![taint])).unwrap().to_string().contains(word),
                "{word}"
            );
        }
        assert!(awaits_only_pods(&claim(), &closed(claim().spec.taints)));
        assert!(!awaits_only_pods(&claim(), &node(vec![])), "it is open");
        assert!(
            !awaits_only_pods(&claim(), &Node { allocatable: Resources::new(), ..closed(vec![]) }),
            "no GPU"
        );
        let unready = Node { ready: false, ..closed(vec![]) };
        assert!(not_startable(&claim(), &unready).unwrap().to_string().contains("Ready"));
    }

    #[test]
    fn a_node_is_initialised_when_nothing_holds_it_back() {
        assert_eq!(not_initialized(&claim(), &node(vec![])), None);
        let startup = node(vec![Taint::new("cni", "", TaintEffect::NoSchedule)]);
        assert!(not_initialized(&claim(), &startup).unwrap().to_string().contains("cni:NoSchedule"));
        let unready = Node { ready: false, ..node(vec![]) };
        assert!(not_initialized(&claim(), &unready).unwrap().to_string().contains("Ready"));
        let no_gpu = Node { allocatable: Resources::new(), ..node(vec![]) };
        assert!(not_initialized(&claim(), &no_gpu).unwrap().to_string().contains("nvidia.com/gpu"));
    }
}
