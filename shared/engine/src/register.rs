//! What a claim's node must still be given, and whether it is ready for pods: pure rules.

use std::collections::{BTreeMap, BTreeSet};

use outrigger_model::{Node, NodeClaim, Taint, TaintEffect, labels};

use crate::placing;
use crate::ports::NodeChange;

/// The change that makes a node that has joined the node of its claim: labels, annotations, taints (Karpenter
/// `nodeclaim/lifecycle/registration.go`). Where the taint `karpenter.sh/unregistered` was, there is the one that keeps other pods away until
/// the planned ones are bound. The user's labels win over those of the instance type.
pub(crate) fn registration(
    claim: &NodeClaim,
    node: &Node,
    type_labels: BTreeMap<String, String>,
) -> NodeChange {
    let mut node_labels = type_labels;
    node_labels.extend(claim.labels.clone());
    node_labels.remove(labels::HOSTNAME);
    node_labels.insert(labels::NODE_POOL.into(), claim.node_pool.clone());
    node_labels.insert(labels::REGISTERED.into(), "true".into());
    if let Some(instance) = &claim.instance {
        node_labels.insert(labels::CAPACITY_TYPE.into(), instance.capacity_type.to_string());
        node_labels.insert(labels::INSTANCE_TYPE.into(), instance.instance_type.clone());
        node_labels.insert(labels::ZONE.into(), instance.zone.clone());
    }
    let stays = |taint: &&Taint| taint.key != labels::UNREGISTERED_TAINT && !taint.is_opening();
    let mut taints: Vec<_> = node.taints.iter().filter(stays).cloned().collect();
    let was_gated = node.taints.iter().any(|taint| taint.key == labels::UNREGISTERED_TAINT);
    if was_gated && !placing::is_closed(node) {
        taints.push(placing::taint());
    }
    // A run that died before it wrote the claim has registered the node already; what has started since does
    // not start again.
    let is_new = !node.labels.contains_key(labels::REGISTERED);
    for taint in claim.taints.iter().chain(claim.startup_taints.iter().filter(|_| is_new)) {
        if !taints.iter().any(|present| same_place(present, taint)) {
            taints.push(taint.clone());
        }
    }
    let mut annotations = claim.annotations.clone();
    annotations.insert(labels::CLAIM.into(), claim.name.clone());
    NodeChange { labels: node_labels, annotations, taints, ..ours(node) }
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

/// The change that says that a node is ready for pods.
pub(crate) fn initialization(node: &Node) -> NodeChange {
    let label = BTreeMap::from([(labels::INITIALIZED.to_owned(), "true".to_owned())]);
    NodeChange { labels: label, ..unchanged(node) }
}

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
    }
}

fn same_place(a: &Taint, b: &Taint) -> bool {
    a.key == b.key && a.effect == b.effect
}

/// Why a registered node cannot run its planned pods yet, its being closed aside; `None` when it can. What it
/// offers is not looked at.
pub(crate) fn not_startable(claim: &NodeClaim, node: &Node) -> Option<String> {
    if !node.ready {
        return Some("its node is not Ready".into());
    }
    let waits_for = |taint: &&Taint| {
        let is_its_own = claim.taints.iter().any(|own| same_place(own, taint));
        taint.key != labels::PLACING_TAINT && taint.is_ephemeral()
            || claim.startup_taints.iter().any(|startup| same_place(startup, taint))
            || taint.effect == TaintEffect::NoExecute && !is_its_own
    };
    let taint = node.taints.iter().find(waits_for)?;
    Some(format!("its node still has the taint {taint}"))
}

/// Why a registered node is not ready for pods yet; `None` when it is (Karpenter
/// `nodeclaim/lifecycle/initialization.go`).
pub(crate) fn not_initialized(claim: &NodeClaim, node: &Node) -> Option<String> {
    if !node.ready {
        return Some("its node is not Ready".into());
    }
    let waits_for = |taint: &&Taint| {
        taint.is_ephemeral() || claim.startup_taints.iter().any(|startup| same_place(startup, taint))
    };
    if let Some(taint) = node.taints.iter().find(waits_for) {
        return Some(format!("its node still has the taint {taint}"));
    }
    let missing = claim.requests.iter().find(|(name, quantity)| {
        let extended = name.contains('/');
        extended && !quantity.is_zero() && node.allocatable.get(name).is_zero()
    });
    missing.map(|(name, _)| format!("its node does not offer {name} yet"))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use jiff::Timestamp;
    use outrigger_model::{
        CapacityType, ClaimState, Instance, NillableDuration, NodeCheck, NodeClassRef, Price, Quantity,
        Requirements, Resources, TaintEffect,
    };

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

    #[test]
    fn registration_gives_labels_and_taints_and_takes_the_gate_off() {
        let unregistered = Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
        let of_type = BTreeMap::from([
            ("karpenter.k8s.aws/instance-cpu".to_owned(), "2".to_owned()),
            ("team".to_owned(), "of the type".to_owned()),
        ]);
        let change = registration(&claim(), &node(vec![unregistered]), of_type);
        let taints: Vec<_> = change.taints.iter().map(ToString::to_string).collect();
        let expected = ["outrigger.dev/placing:NoSchedule", "dedicated=web:NoSchedule", "cni:NoSchedule"];
        assert_eq!(taints, expected);
        assert_eq!(change.resource_version, "7");
        assert_eq!(change.finalizers, ["example.com/own", labels::TERMINATION_FINALIZER]);
        assert_eq!(change.annotations[labels::CLAIM], "web-1");
        let expected = [
            ("karpenter.k8s.aws/instance-cpu", "2"),
            (labels::CAPACITY_TYPE, "spot"),
            (labels::NODE_POOL, "web"),
            (labels::REGISTERED, "true"),
            (labels::INSTANCE_TYPE, "m5.large"),
            ("team", "red"),
            (labels::ZONE, "us-east-1a"),
        ];
        let expected: BTreeMap<_, _> = expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        assert_eq!(change.labels, expected);
    }

    #[test]
    fn a_gated_node_is_closed_until_its_pods_are_placed() {
        let gate = Taint::new(labels::UNREGISTERED_TAINT, "", TaintEffect::NoExecute);
        let own = [claim().taints, claim().startup_taints].concat();
        let change = registration(&claim(), &node(vec![gate.clone()]), BTreeMap::new());
        assert_eq!(change.taints, [vec![placing::taint()], own.clone()].concat());
        // What a run that was killed has left is not doubled.
        let again =
            registration(&claim(), &node([vec![gate], change.taints.clone()].concat()), BTreeMap::new());
        assert_eq!(again.taints, change.taints);
        assert_eq!(placing::opened(&node(change.taints)).taints, own);
        let open = registration(&claim(), &node(vec![]), BTreeMap::new());
        assert_eq!(open.taints, own, "it was open before, and closing it would help nobody");
        let mut known = node(vec![]);
        known.labels.insert(labels::REGISTERED.into(), "true".into());
        let change = registration(&claim(), &known, BTreeMap::new());
        assert_eq!(change.taints, claim().taints, "what has started does not start again");
    }

    #[test]
    fn pods_are_placed_when_only_the_placing_holds_the_node_back() {
        let closed = |taints: Vec<Taint>| node([vec![placing::taint()], taints].concat());
        assert_eq!(not_startable(&claim(), &closed(claim().taints)), None);
        let no_gpu = Node { allocatable: Resources::new(), ..closed(vec![]) };
        assert_eq!(not_startable(&claim(), &no_gpu), None, "pods without a GPU need not wait for it");
        for (taint, word) in [
            (claim().startup_taints[0].clone(), "cni"),
            (Taint::new("node.kubernetes.io/not-ready", "", TaintEffect::NoSchedule), "not-ready"),
            (Taint::new("example.com/broken", "", TaintEffect::NoExecute), "broken"),
        ] {
            assert!(not_startable(&claim(), &closed(vec![taint])).unwrap().contains(word), "{word}");
        }
        let unready = Node { ready: false, ..closed(vec![]) };
        assert!(not_startable(&claim(), &unready).unwrap().contains("Ready"));
    }

    #[test]
    fn soft_taints_of_an_earlier_version_go() {
        let soft = ["outrigger.dev/opening", "outrigger.dev/opening-2"];
        let soft = soft.map(|key| Taint::new(key, "", TaintEffect::PreferNoSchedule));
        let own = [claim().taints, claim().startup_taints].concat();
        let opening = node([soft.as_slice(), &own].concat());
        assert!(is_opening(&opening));
        assert_eq!(opened(&opening).taints, own);
        assert_eq!(registration(&claim(), &opening, BTreeMap::new()).taints, own);
    }

    #[test]
    fn a_node_is_initialised_when_nothing_holds_it_back() {
        assert_eq!(not_initialized(&claim(), &node(vec![])), None);
        let startup = node(vec![Taint::new("cni", "", TaintEffect::NoSchedule)]);
        assert!(not_initialized(&claim(), &startup).unwrap().contains("cni:NoSchedule"));
        let unready = Node { ready: false, ..node(vec![]) };
        assert!(not_initialized(&claim(), &unready).unwrap().contains("Ready"));
        let no_gpu = Node { allocatable: Resources::new(), ..node(vec![]) };
        assert!(not_initialized(&claim(), &no_gpu).unwrap().contains("nvidia.com/gpu"));
    }
}
