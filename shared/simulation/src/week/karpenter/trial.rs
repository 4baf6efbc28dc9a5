//! A snapshot as if some nodes had never been and their pods waited, for as long as that is tried.

use std::collections::BTreeSet;
use std::sync::Arc;

use outrigger_model::taint::TolerationOperator;
use outrigger_model::{Node, NodeClaim, Pod, PodState, Snapshot, Taint, TaintEffect, Toleration};
use outrigger_policy::disruption::Candidate;

/// What keeps moved pods from nodes that have changed lately, in the world that is tried.
const CHANGED_TAINT: &str = "rival.example.com/changed";

/// What a trial has taken out of a snapshot or written over, by index.
pub(super) struct Trial {
    nodes: Vec<(usize, Node)>,
    claims: Vec<(usize, NodeClaim)>,
    pods: Vec<(usize, Pod)>,
    closed: Vec<usize>,
    before: Vec<(usize, Pod)>,
}

impl Trial {
    /// Takes the nodes out of the snapshot and lets their pods wait, which may not go to `closed`
    /// ones.
    ///
    /// Pods that waited before, and those of `drained` nodes, may go there.
    pub(super) fn begin(
        snapshot: &mut Snapshot,
        nodes: &[&Candidate<'_>],
        moved: &BTreeSet<&str>,
        drained: &BTreeSet<&str>,
        closed: &BTreeSet<&str>,
    ) -> Self {
        let gone: BTreeSet<&str> = nodes.iter().map(|node| node.node.name.as_str()).collect();
        let claims: BTreeSet<&str> =
            nodes.iter().filter_map(|node| node.claim).map(|claim| claim.name.as_str()).collect();
        let is_left = |pod: &Pod| {
            !moved.contains(pod.uid.as_str())
                && pod.node_name.as_deref().is_some_and(|name| gone.contains(name))
        };
        let mut trial = Self {
            nodes: take_out(&mut snapshot.nodes, |node| gone.contains(node.name.as_str())),
            claims: take_out(&mut snapshot.claims, |claim| claims.contains(claim.name.as_str())),
            pods: take_out(&mut snapshot.pods, is_left),
            closed: Vec::new(),
            before: Vec::new(),
        };
        for (index, pod) in snapshot.pods.iter_mut().enumerate() {
            let stays = pod.node_name.as_deref().is_some_and(|node| !drained.contains(node));
            if moved.contains(pod.uid.as_str()) {
                trial.before.push((index, pod.clone()));
                pod.node_name = None;
                pod.nominated_node = None;
                pod.state = PodState::Unschedulable;
            } else if !stays && !closed.is_empty() {
                trial.before.push((index, pod.clone()));
                Arc::make_mut(&mut pod.spec).tolerations.push(tolerated());
            }
        }
        for (index, node) in snapshot.nodes.iter_mut().enumerate() {
            if closed.contains(node.name.as_str()) {
                node.taints.push(Taint::new(CHANGED_TAINT, "", TaintEffect::NoSchedule));
                trial.closed.push(index);
            }
        }
        trial
    }

    /// The snapshot is as it was.
    pub(super) fn end(self, snapshot: &mut Snapshot) {
        for index in self.closed {
            snapshot.nodes[index].taints.pop();
        }
        for (index, pod) in self.before {
            snapshot.pods[index] = pod;
        }
        put_back(&mut snapshot.nodes, self.nodes);
        put_back(&mut snapshot.claims, self.claims);
        put_back(&mut snapshot.pods, self.pods);
    }
}

fn tolerated() -> Toleration {
    Toleration { key: CHANGED_TAINT.into(), operator: TolerationOperator::Exists, ..Toleration::default() }
}

/// Takes some items out of a list, with the index of each.
fn take_out<T>(list: &mut Vec<T>, is_taken: impl Fn(&T) -> bool) -> Vec<(usize, T)> {
    let (taken, rest): (Vec<_>, Vec<_>) =
        std::mem::take(list).into_iter().enumerate().partition(|(_, item)| is_taken(item));
    *list = rest.into_iter().map(|(_, item)| item).collect();
    taken
}

/// Puts items back that [`take_out`] has taken.
fn put_back<T>(list: &mut Vec<T>, taken: Vec<(usize, T)>) {
    let mut rest = std::mem::take(list).into_iter();
    list.reserve(rest.len() + taken.len());
    for (index, item) in taken {
        list.extend(rest.by_ref().take(index - list.len()));
        list.push(item);
    }
    list.extend(rest);
}
