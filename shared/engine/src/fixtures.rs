//! What tests are made of: one claim, its node and a launch.

use std::collections::BTreeMap;

use jiff::Timestamp;
use outrigger_model::{
    CapacityType, ClaimState, FleetRequest, Instance, Intent, IntentState, NillableDuration, Node, NodeCheck,
    NodeClaim, NodeClassRef, Price, Quantity, Requirements, Resources, Taint, TaintEffect,
};

/// A launched claim of the pool `web`.
pub(crate) fn claim() -> NodeClaim {
    NodeClaim {
        name: "web-1".into(),
        state: ClaimState::Launched,
        version: 1,
        intent: "i".into(),
        node_pool: "web".into(),
        node_class: NodeClassRef::instance_group("nodes"),
        requirements: Requirements::new(),
        instance_types: vec!["m5.large".into()],
        labels: BTreeMap::from([("team".into(), "red".into())]),
        annotations: BTreeMap::from([("note".into(), "n".into())]),
        taints: vec![Taint::new("dedicated", "web", TaintEffect::NoSchedule)],
        startup_taints: vec![Taint::new("cni", "", TaintEffect::NoSchedule)],
        expire_after: NillableDuration::NEVER,
        termination_grace_period: None,
        requests: Resources::new().with("nvidia.com/gpu", Quantity::units(1)),
        reserved: Resources::new(),
        allocatable: Resources::new(),
        nominated: Vec::new(),
        created_at: Timestamp::UNIX_EPOCH,
        instance: Some(Instance {
            id: "i-1".into(),
            instance_type: "m5.large".into(),
            zone: "us-east-1a".into(),
            capacity_type: CapacityType::Spot,
            image_id: "ami-1".into(),
            price: Price::ZERO,
        }),
        node_name: None,
        launched_at: None,
        registered_at: None,
        initialized_at: None,
        node_check: NodeCheck::default(),
        command: None,
        termination: None,
        last_error: None,
    }
}

/// The node of [`claim`].
pub(crate) fn node(taints: Vec<Taint>) -> Node {
    Node {
        name: "i-1".into(),
        uid: "u".into(),
        resource_version: "7".into(),
        provider_id: Some("aws:///us-east-1a/i-1".into()),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        finalizers: vec!["example.com/own".into()],
        taints,
        capacity: Resources::new(),
        allocatable: Resources::new().with("nvidia.com/gpu", Quantity::units(1)),
        volume_limits: BTreeMap::new(),
        conditions: BTreeMap::new(),
        ready: true,
        unschedulable: false,
        deleting: false,
        created_at: Timestamp::UNIX_EPOCH,
    }
}

/// A launch of two spot instances from no particular template or subnet, for some claims.
pub(crate) fn intent(state: IntentState, claims: usize) -> Intent {
    let request = FleetRequest {
        token: "t".into(),
        launch_template: "l".into(),
        launch_template_version: "1".into(),
        capacity_type: CapacityType::Spot,
        count: 2,
        overrides: Vec::new(),
        tags: BTreeMap::new(),
    };
    let sent_at = (state == IntentState::Sent).then_some(Timestamp::UNIX_EPOCH);
    let claims = (0..claims).map(|n| n.to_string()).collect();
    Intent {
        id: "i".into(),
        state,
        request,
        claims,
        prepared_at: Timestamp::UNIX_EPOCH,
        sent_at,
        ended_at: None,
    }
}
