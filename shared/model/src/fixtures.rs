//! What the tests of all crates are made of: one claim, its instance and node, pods, a planned node
//! and a launch.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::selector::LabelSelector;
use crate::{
    CapacityType, ClaimState, FleetRequest, Instance, Intent, IntentState, Invalid, Node, NodeClaim,
    NodeClaimSpec, NodeClaimStatus, NodeClassRef, NodePool, NominatedPod, PlannedNode, Pod,
    PodDisruptionBudget, PodRef, PodSpec, PodState, Price, Quantity, Readiness, Requirements, Resources,
    SpotAllocation, Taint, TaintEffect, UnhealthyPods,
};

/// So many seconds after 1970 began.
pub const fn at(second: i64) -> Timestamp {
    Timestamp::constant(second, 0)
}

/// A node of this pool of which nothing is asked.
pub fn spec(pool: &str) -> NodeClaimSpec {
    let pool = NodePool::bare(pool, NodeClassRef::instance_group("nodes"));
    NodeClaimSpec::from_pool(&pool, Requirements::new())
}

/// A launched claim of the pool `web`.
pub fn claim() -> NodeClaim {
    NodeClaim {
        name: "web-1".into(),
        version: 1,
        intent: "i".into(),
        created_at: Timestamp::UNIX_EPOCH,
        instance_types: vec!["m5.large".into()],
        spec: NodeClaimSpec {
            labels: BTreeMap::from([("team".into(), "red".into())]),
            annotations: BTreeMap::from([("note".into(), "n".into())]),
            taints: vec![Taint::new("dedicated", "web", TaintEffect::NoSchedule)],
            startup_taints: vec![Taint::new("cni", "", TaintEffect::NoSchedule)],
            ..spec("web")
        },
        status: NodeClaimStatus {
            state: ClaimState::Launched,
            requests: Resources::new().with("nvidia.com/gpu", Quantity::units(1)),
            instance: Some(instance("i-1")),
            ..NodeClaimStatus::default()
        },
    }
}

/// A spot instance of this id.
pub fn instance(id: &str) -> Instance {
    Instance {
        id: id.into(),
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        image_id: "ami-1".into(),
        price: Price::from_nanos(40_000_000),
    }
}

/// The node of [`claim`].
pub fn node(taints: Vec<Taint>) -> Node {
    Node {
        name: "i-1".into(),
        uid: "u".into(),
        resource_version: "7".into(),
        provider_id: Some("aws:///us-east-1a/i-1".into()),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        finalizers: vec!["example.com/own".into()],
        taints,
        foreign_taints: Vec::new(),
        capacity: Resources::new(),
        allocatable: Resources::new().with("nvidia.com/gpu", Quantity::units(1)),
        volume_limits: BTreeMap::new(),
        conditions: BTreeMap::new(),
        ready: true,
        unschedulable: false,
        deleting: false,
        created_at: Timestamp::UNIX_EPOCH,
        claim_do_not_disrupt: None,
        degraded: None,
    }
}

/// A pod of this name, which is its uid too, on a node or unschedulable.
pub fn pod(name: &str, node: Option<&str>, owner_kind: &str) -> Pod {
    Pod {
        id: pod_ref(name),
        uid: name.into(),
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
        deletion_cost: None,
        readiness: Readiness::default(),
        degraded: None,
    }
}

/// What an object cannot be read whole for, named as `Kind/name`.
pub fn unread(object: &str) -> Option<Box<Invalid>> {
    let field = "spec.tolerations[0].operator";
    Some(Box::new(Invalid::new(object, field, "\"Gt\"", "Equal or Exists")))
}

/// A pod of the namespace `default`.
pub fn pod_ref(name: &str) -> PodRef {
    PodRef { namespace: "default".into(), name: name.into() }
}

/// A budget over all pods of the namespace `default`, which lets every one of them go.
pub fn budget(name: &str) -> PodDisruptionBudget {
    PodDisruptionBudget {
        id: pod_ref(name),
        selector: LabelSelector::default(),
        is_fully_blocking: false,
        disruptions_allowed: None,
        unhealthy_pods: UnhealthyPods::default(),
        healthy: None,
        unreadable: None,
    }
}

/// A pod that a claim was planned for; its name is its uid too.
pub fn nominated(name: &str) -> NominatedPod {
    NominatedPod { pod: pod_ref(name), uid: name.into() }
}

/// A spot node that is planned for one pod.
pub fn planned(pool: &str, pod: &str) -> PlannedNode {
    PlannedNode {
        claim: "new".into(),
        capacity_type: CapacityType::Spot,
        zones: Vec::new(),
        instance_types: Vec::new(),
        spec: spec(pool),
        requests: Resources::new(),
        reserved: Resources::new(),
        allocatable: Resources::new(),
        pods: vec![nominated(pod)],
        price: Price::ZERO,
        node_price: Price::ZERO,
    }
}

/// A request for spot instances, from no particular template or subnet.
pub fn request(count: u32) -> FleetRequest {
    FleetRequest {
        token: "t".into(),
        launch_template: "l".into(),
        launch_template_version: "1".into(),
        capacity_type: CapacityType::Spot,
        count,
        max_spot_price: None,
        spot_allocation: SpotAllocation::default(),
        prioritized: false,
        reservation: None,
        overrides: Vec::new(),
        tags: BTreeMap::new(),
    }
}

/// A launch of two instances for claims named by their numbers.
pub fn intent(state: IntentState, claims: usize) -> Intent {
    Intent {
        id: "i".into(),
        state,
        request: request(2),
        claims: (0..claims).map(|n| n.to_string()).collect(),
        prepared_at: Timestamp::UNIX_EPOCH,
        sent_at: (state == IntentState::Sent).then_some(Timestamp::UNIX_EPOCH),
        ended_at: None,
    }
}
