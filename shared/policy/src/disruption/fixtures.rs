//! What the tests of disruption are made of: a pool `web` whose nodes are initialised, a day old,
//! and have no pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use outrigger_model::node_pool::Budget;
use outrigger_model::{
    CapacityType, ClaimState, ClassOffer, Command, Instance, InstanceType, NillableDuration, Node, NodeClaim,
    NodeClaimStatus, NodeClass, NodeClassRef, NodePool, NominatedPod, Offering, Pod, PodState, Price,
    Resources, Snapshot, TerminationReason, labels,
};

use crate::fixtures;

/// Noon on 20 November 2026, a Friday.
pub(crate) fn now() -> Timestamp {
    "2026-11-20T12:00:00Z".parse().unwrap()
}

/// So many minutes before [`now`].
pub(crate) fn minutes_ago(minutes: i64) -> Timestamp {
    now() - SignedDuration::from_mins(minutes)
}

/// A budget that always holds, for all reasons.
pub(crate) fn budget(nodes: &str) -> Budget {
    Budget { nodes: nodes.into(), schedule: None, duration: None, reasons: None }
}

/// A world of nodes; its changes are to the first one.
pub(crate) struct World {
    pub(crate) snapshot: Snapshot,
}

impl World {
    /// One node.
    pub(crate) fn new() -> Self {
        Self::of_nodes(1)
    }

    /// So many nodes, `i-0` and on, each with its claim `web-0` and on.
    pub(crate) fn of_nodes(count: usize) -> Self {
        let mut snapshot = Snapshot::empty("c", now());
        snapshot.node_pools.push(NodePool::bare("web", NodeClassRef::instance_group("nodes")));
        let class = NodeClass::for_planning(NodeClassRef::instance_group("nodes"));
        snapshot.classes.push(ClassOffer { class, instance_types: Arc::new(vec![machine()]) });
        snapshot.nodes.extend((0..count).map(node));
        snapshot.claims.extend((0..count).map(claim));
        Self { snapshot }
    }

    /// The pool.
    pub(crate) fn pool(&mut self) -> &mut NodePool {
        &mut self.snapshot.node_pools[0]
    }

    /// The first node.
    pub(crate) fn node(&mut self) -> &mut Node {
        &mut self.snapshot.nodes[0]
    }

    /// Sets a label of the first node.
    pub(crate) fn set_label(&mut self, key: &str, value: &str) {
        self.node().labels.insert(key.into(), value.into());
    }

    /// Sets the state of the first claim.
    pub(crate) fn set_state(&mut self, state: ClaimState) {
        self.snapshot.claims[0].status.state = state;
    }

    /// Plans the first claim for a pod.
    pub(crate) fn nominate(&mut self, pod: NominatedPod) {
        self.snapshot.claims[0].status.nominated.push(pod);
    }

    /// Lets the pods of a command wait for the first claim.
    pub(crate) fn await_by_command(&mut self) {
        let name = self.snapshot.claims[0].name.clone();
        let command = Command::new(TerminationReason::Rebalanced, "test", Vec::new(), now());
        self.snapshot.commands.push(Command { replacements: Some(vec![name]), ..command });
    }

    /// Annotates the first claim.
    pub(crate) fn annotate(&mut self, key: &str, value: &str) {
        self.snapshot.claims[0].spec.annotations.insert(key.into(), value.into());
    }

    /// Removes all annotations of the first claim.
    pub(crate) fn unhash(&mut self) {
        self.snapshot.claims[0].spec.annotations.clear();
    }

    /// Moves all annotations of the first claim to its node.
    pub(crate) fn hash_on_node_alone(&mut self) {
        self.snapshot.nodes[0].annotations = std::mem::take(&mut self.snapshot.claims[0].spec.annotations);
    }

    /// Sets when the first claim was decided on.
    pub(crate) fn set_created(&mut self, at: Timestamp) {
        self.snapshot.claims[0].created_at = at;
    }

    /// Gives the first claim's drain an end, and lets it live for so many minutes.
    pub(crate) fn set_life(&mut self, minutes: u64) {
        let claim = &mut self.snapshot.claims[0];
        claim.spec.termination_grace_period = Some(NillableDuration::seconds(60));
        claim.spec.expire_after = NillableDuration::seconds(minutes * 60);
    }
    /// Removes all claims, and sets a label of the first node.
    pub(crate) fn forget(&mut self, key: &str, value: &str) {
        self.snapshot.claims.clear();
        self.set_label(key, value);
    }

    /// Takes back that the first node has finished starting.
    pub(crate) fn uninitialize(&mut self) {
        self.node().labels.remove(labels::INITIALIZED);
        self.set_state(ClaimState::Registered);
    }

    /// Lets a command hold the first claim that was decided on so many seconds from now.
    pub(crate) fn hold(&mut self, seconds: i64) {
        let since = now() + SignedDuration::from_secs(seconds);
        let claim = &mut self.snapshot.claims[0];
        let command = Command::new(TerminationReason::Rebalanced, "test", vec![claim.name.clone()], since);
        claim.status.command = Some(command.id.clone());
        self.snapshot.commands.push(command);
    }
}

/// The instance type of all nodes.
fn machine() -> InstanceType {
    let offering = |capacity_type, dollars| Offering {
        zone: "us-east-1a".into(),
        capacity_type,
        price: Price::from_dollars(dollars).unwrap(),
        available: true,
        reservation: None,
        interruption: None,
    };
    InstanceType {
        name: "m5.large".into(),
        labels: BTreeMap::from([(labels::ARCH.into(), "amd64".into())]),
        capacity: Resources::new(),
        allocatable: Resources::new(),
        ebs_volumes: None,
        offerings: vec![offering(CapacityType::Spot, 0.04), offering(CapacityType::OnDemand, 0.1)],
    }
}

fn node(index: usize) -> Node {
    let node_labels = [
        (labels::NODE_POOL, "web"),
        (labels::INITIALIZED, "true"),
        (labels::INSTANCE_TYPE, "m5.large"),
        (labels::ZONE, "us-east-1a"),
        (labels::CAPACITY_TYPE, "spot"),
    ];
    Node {
        name: format!("i-{index}"),
        provider_id: Some(format!("aws:///us-east-1a/i-{index}")),
        labels: node_labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
        created_at: minutes_ago(24 * 60),
        ..fixtures::node(Vec::new())
    }
}

fn claim(index: usize) -> NodeClaim {
    let claim = fixtures::claim();
    let instance = Instance {
        id: format!("i-{index}"),
        instance_type: "m5.large".into(),
        zone: "us-east-1a".into(),
        capacity_type: CapacityType::Spot,
        image_id: "ami-1".into(),
        price: Price::from_nanos(50_000_000),
    };
    NodeClaim {
        name: format!("web-{index}"),
        created_at: minutes_ago(24 * 60),
        status: NodeClaimStatus {
            state: ClaimState::Initialized,
            initialized_at: Some(minutes_ago(24 * 60)),
            instance: Some(instance),
            ..claim.status
        },
        ..claim
    }
}

/// A pod of a ReplicaSet on the first node, made a day ago.
pub(crate) fn pod(name: &str) -> Pod {
    let pod = fixtures::pod("ReplicaSet", PodState::Bound);
    let id = outrigger_model::PodRef { name: name.into(), ..pod.id.clone() };
    let (node_name, nominated_node) = (Some("i-0".into()), None);
    Pod { id, uid: name.into(), created_at: minutes_ago(24 * 60), node_name, nominated_node, ..pod }
}
