//! What unit tests are made of, beside the fixtures of the model.

pub(crate) use outrigger_model::fixtures::{at, claim, node};
use outrigger_model::{Pod, PodState, Snapshot, fixtures};

/// A pod on the node of [`claim`].
pub(crate) fn pod(owner_kind: &str, state: PodState) -> Pod {
    Pod { nominated_node: Some("i-1".into()), state, ..fixtures::pod("p", Some("i-1"), owner_kind) }
}

/// A world of [`claim`] and its node.
pub(crate) fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::empty("c", at(0));
    snapshot.claims.push(claim());
    snapshot.nodes.push(node(Vec::new()));
    snapshot
}
