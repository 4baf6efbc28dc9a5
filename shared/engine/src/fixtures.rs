//! What tests are made of: one claim, its node, pods and a launch.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use outrigger_model::{
    CapacityType, ClaimState, FleetRequest, Instance, Intent, IntentState, NillableDuration, Node, NodeCheck,
    NodeClaim, NodeClassRef, NominatedPod, PlannedNode, Pod, PodRef, PodSpec, PodState, Price, Quantity,
    Requirements, Resources, Taint, TaintEffect,
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

/// A pod of this uid, on a node or unschedulable.
pub(crate) fn pod(uid: &str, node: Option<&str>, owner_kind: &str) -> Pod {
    Pod {
        id: PodRef { namespace: "default".into(), name: uid.into() },
        uid: uid.into(),
        labels: Arc::default(),
        spec: Arc::new(PodSpec::default()),
        created_at: Timestamp::UNIX_EPOCH,
        node_name: node.map(str::to_owned),
        nominated_node: None,
        state: if node.is_some() { PodState::Bound } else { PodState::Unschedulable },
        owner_kind: owner_kind.into(),
        daemon_set: None,
        volume_claims: Vec::new(),
        group: None,
        do_not_disrupt: None,
    }
}

/// A pod that a claim was planned for.
pub(crate) fn nominated(uid: &str) -> NominatedPod {
    NominatedPod { pod: PodRef { namespace: "default".into(), name: uid.into() }, uid: uid.into() }
}

/// A node that is planned for one pod.
pub(crate) fn planned(pool: &str, uid: &str) -> PlannedNode {
    let claim = claim();
    PlannedNode {
        claim: "new".into(),
        node_pool: pool.into(),
        node_class: claim.node_class,
        capacity_type: CapacityType::Spot,
        zones: Vec::new(),
        requirements: Requirements::new(),
        instance_types: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        expire_after: claim.expire_after,
        termination_grace_period: None,
        requests: Resources::new(),
        reserved: Resources::new(),
        allocatable: Resources::new(),
        pods: vec![nominated(uid)],
        price: Price::ZERO,
        node_price: Price::ZERO,
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
