//! What unit tests are made of: one claim, its node, and pods.

use std::sync::Arc;

use jiff::Timestamp;
use outrigger_model::{Node, NodeClaim, NodeClassRef, Pod, PodRef, PodSpec, PodState, Snapshot, Taint};
use serde_json::json;

pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A launched claim of the pool `web`.
pub(crate) fn claim() -> NodeClaim {
    serde_json::from_value(json!({
        "name": "web-1", "state": "Launched", "version": 1, "intent": "i", "nodePool": "web",
        "nodeClass": NodeClassRef::instance_group("nodes"), "requirements": [], "instanceTypes": ["m5.large"],
        "labels": {}, "taints": [{"key": "dedicated", "value": "web", "effect": "NoSchedule"}],
        "startupTaints": [{"key": "cni", "effect": "NoSchedule"}], "expireAfter": "Never", "requests": {},
        "reserved": {}, "allocatable": {}, "nominated": [], "createdAt": "1970-01-01T00:00:00Z",
        "instance": {"id": "i-1", "instanceType": "m5.large", "zone": "us-east-1a", "capacityType": "spot"},
    }))
    .unwrap()
}

/// The node of [`claim`].
pub(crate) fn node(taints: Vec<Taint>) -> Node {
    let node: Node = serde_json::from_value(json!({
        "name": "i-1", "providerId": "aws:///us-east-1a/i-1", "labels": {}, "capacity": {}, "allocatable": {},
        "ready": true, "createdAt": "1970-01-01T00:00:00Z",
    }))
    .unwrap();
    Node { taints, ..node }
}

/// A pod on the node of [`claim`].
pub(crate) fn pod(owner_kind: &str, state: PodState) -> Pod {
    Pod {
        id: PodRef { namespace: "default".into(), name: "p".into() },
        uid: "p".into(),
        labels: Arc::default(),
        spec: Arc::new(PodSpec::default()),
        created_at: at(0),
        node_name: Some("i-1".into()),
        nominated_node: Some("i-1".into()),
        state,
        owner_kind: owner_kind.into(),
        daemon_set: None,
        volume_claims: Vec::new(),
        group: None,
        do_not_disrupt: None,
    }
}

/// A world of [`claim`] and its node.
pub(crate) fn snapshot() -> Snapshot {
    let mut snapshot = Snapshot::empty("c", at(0));
    snapshot.claims.push(claim());
    snapshot.nodes.push(node(Vec::new()));
    snapshot
}
