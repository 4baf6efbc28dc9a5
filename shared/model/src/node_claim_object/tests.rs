//! What `kubectl get nodeclaims` shows at each point of a claim's life.

use serde_json::{Value, json};

use super::*;
use crate::{
    Instance, NodeCheck, NodeClaimSpec, NodeClaimStatus, OwnerReference, Quantity, Requirements, Termination,
    TerminationReason, fixtures,
};

fn claim() -> NodeClaim {
    NodeClaim {
        name: "default-7f4xk".into(),
        created_at: at("2026-11-21T10:00:00.75Z"),
        instance_types: vec!["m7g.large".into(), "c7g.xlarge".into()],
        spec: NodeClaimSpec {
            requirements: Requirements::new()
                .with(labels::ARCH, Requirement::exactly("arm64"))
                .with(labels::CAPACITY_TYPE, Requirement::any_of(["on-demand", "spot"])),
            labels: BTreeMap::from([("team".to_owned(), "red".to_owned())]),
            annotations: BTreeMap::from([("note".to_owned(), "kept".to_owned())]),
            termination_grace_period: Some(NillableDuration::seconds(600)),
            ..fixtures::spec("default")
        },
        status: NodeClaimStatus {
            requests: Resources::new().with("cpu", Quantity::millis(1_500)),
            reserved: Resources::new().with("cpu", Quantity::units(4)).with("nodes", Quantity::units(1)),
            allocatable: Resources::new().with("cpu", Quantity::units(2)),
            ..NodeClaimStatus::default()
        },
        ..fixtures::claim()
    }
}

fn launched() -> NodeClaim {
    claim().with_status(|status| {
        status.state = ClaimState::Launched;
        status.reserved = Resources::new().with("cpu", Quantity::units(2)).with("nodes", Quantity::units(1));
        status.launched_at = Some(at("2026-11-21T10:00:03Z"));
        status.instance = Some(Instance {
            instance_type: "m7g.large".into(),
            zone: "us-east-1b".into(),
            image_id: "ami-0def".into(),
            ..fixtures::instance("i-0abc")
        });
    })
}

fn failed() -> NodeClaim {
    claim().with_status(|status| {
        status.state = ClaimState::Failed;
        status.last_error = Some("no capacity".into());
    })
}

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

#[track_caller]
fn conditions(claim: &NodeClaim, expected: [(&str, &str, &str); 4]) {
    let object = serde_json::to_value(mirror(claim)).unwrap();
    let actual: Vec<(&str, &str, &str)> = object["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            let text = |key: &str| c[key].as_str().unwrap();
            (text("status"), text("reason"), text("lastTransitionTime"))
        })
        .collect();
    assert_eq!(actual, expected);
}

#[test]
fn conditions_follow_the_claim() {
    let created = "2026-11-21T10:00:00Z";
    conditions(
        &claim(),
        [
            ("Unknown", "AwaitingReconciliation", created),
            ("Unknown", "NodeNotFound", created),
            ("Unknown", "NodeNotFound", created),
            ("Unknown", "ReconcilingDependents", created),
        ],
    );
    conditions(
        &failed(),
        [
            ("False", "LaunchFailed", created),
            ("Unknown", "NodeNotFound", created),
            ("Unknown", "NodeNotFound", created),
            ("False", "UnhealthyDependents", created),
        ],
    );
    let registered = launched().with_status(|status| status.registered_at = Some(at("2026-11-21T10:01:00Z")));
    conditions(
        &registered,
        [
            ("True", "Launched", "2026-11-21T10:00:03Z"),
            ("True", "Registered", "2026-11-21T10:01:00Z"),
            ("Unknown", "NodeNotReady", created),
            ("Unknown", "ReconcilingDependents", created),
        ],
    );
    let initialized =
        registered.with_status(|status| status.initialized_at = Some(at("2026-11-21T10:01:20Z")));
    conditions(
        &initialized,
        [
            ("True", "Launched", "2026-11-21T10:00:03Z"),
            ("True", "Registered", "2026-11-21T10:01:00Z"),
            ("True", "Initialized", "2026-11-21T10:01:20Z"),
            ("True", "Ready", "2026-11-21T10:01:20Z"),
        ],
    );
}

#[test]
fn the_end_shows_how_far_it_has_come() {
    let since = at("2026-11-21T11:00:00Z");
    let begun = Termination::new(TerminationReason::Deleted, "its Node was deleted", since);
    let end = Termination { by: Some(at("2026-11-21T11:10:00.5Z")), ..begun };
    let conditions_of_end = |end: &Termination| {
        let claim = launched().with_status(|status| {
            status.state = ClaimState::Draining;
            status.registered_at = Some(since);
            status.termination = Some(end.clone());
        });
        let object = mirror(&claim);
        assert_eq!(object.metadata.annotations[labels::TERMINATION_TIMESTAMP], "2026-11-21T11:10:00Z");
        let conditions = object.status.conditions.into_iter().skip(4);
        conditions
            .map(|condition| format!("{} {:?} {}", condition.kind, condition.status, condition.reason))
            .collect::<Vec<_>>()
    };
    let begun = "DisruptionReason True Deleted";
    assert_eq!(conditions_of_end(&end), [begun, "Drained Unknown Draining"]);
    let gone =
        Termination { drained_at: Some(since), detached_at: Some(since), terminating_at: Some(since), ..end };
    let rest = [
        "Drained True Drained",
        "VolumesDetached True VolumesDetached",
        "InstanceTerminating True InstanceTerminating",
    ];
    assert_eq!(conditions_of_end(&gone), [&[begun][..], &rest].concat());
}

#[test]
fn why_it_failed_is_shown() {
    let status = mirror(&failed()).status;
    assert_eq!(status.conditions[3].message, "Launched is False: no capacity");
}

#[test]
fn labels_come_from_requirements_then_from_the_instance() {
    let labels = mirror(&claim()).metadata.labels;
    let expected = [("karpenter.sh/nodepool", "default"), ("kubernetes.io/arch", "arm64"), ("team", "red")];
    assert_eq!(labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(), expected);
    let labels = serde_json::to_value(mirror(&launched()).metadata.labels).unwrap();
    assert_eq!(
        labels,
        json!({
            "karpenter.sh/capacity-type": "spot", "karpenter.sh/nodepool": "default", "kubernetes.io/arch": "arm64",
            "node.kubernetes.io/instance-type": "m7g.large", "team": "red", "topology.kubernetes.io/zone": "us-east-1b",
        })
    );
}

#[test]
fn the_whole_object() {
    let object: Value = serde_json::to_value(mirror(&launched())).unwrap();
    insta::assert_json_snapshot!(object);
    let read: NodeClaimObject = serde_json::from_value(object).unwrap();
    assert_eq!(read, mirror(&launched()));
}

#[test]
fn karpenter_takes_no_object_for_one_of_its_own() {
    let of = |class: NodeClassRef| {
        let mut claim = launched();
        claim.spec.node_class = class;
        let shown = mirror(&claim).spec.node_class_ref;
        format!("{} {} {}", shown.group, shown.kind, shown.name)
    };
    assert_eq!(of(NodeClassRef::ec2("own")), "outrigger.dev EC2NodeClass own");
    assert_eq!(of(NodeClassRef::instance_group("nodes")), "kops.k8s.io InstanceGroup nodes");
}

#[test]
fn what_is_wrong_with_its_node_is_shown() {
    let since = at("2026-11-21T10:05:00Z");
    let conditions_of_check = |node_check: NodeCheck| {
        let claim = launched().with_status(|status| {
            status.state = ClaimState::Initialized;
            status.registered_at = Some(since);
            status.initialized_at = Some(since);
            status.node_check = node_check;
        });
        let conditions = mirror(&claim).status.conditions.into_iter().skip(1);
        conditions
            .map(|condition| format!("{} {:?} {}", condition.kind, condition.status, condition.reason))
            .collect::<Vec<_>>()
    };
    let expected = Resources::new().with("cpu", Quantity::units(2));
    let well = ["Registered True Registered", "Initialized True Initialized", "Ready True Ready"];
    assert_eq!(
        conditions_of_check(NodeCheck::default()),
        well,
        "a claim of an earlier version was not measured"
    );
    let measured = NodeCheck { expected, ..NodeCheck::default() };
    let consistent = "ConsistentStateFound True ConsistentStateFound";
    assert_eq!(conditions_of_check(measured.clone()), [&well[..], &[consistent]].concat());
    let shortfall = Some(crate::Shortfall { since, message: "it has cpu 1, expected 2".into() });
    let short = conditions_of_check(NodeCheck { shortfall, ..measured });
    assert_eq!(short, [&well[..], &["ConsistentStateFound False ConsistencyCheckFailed"]].concat());
    let double = NodeCheck { duplicates: vec!["a".into(), "b".into()], ..NodeCheck::default() };
    assert_eq!(
        conditions_of_check(double),
        [
            "Registered False MultipleNodesFound",
            "Initialized True Initialized",
            "Ready False UnhealthyDependents"
        ]
    );
}

// Kubernetes' garbage collector knows the pool by no other field, and the API server takes no
// other.
#[test]
fn the_pool_that_owns_an_object_stands_where_kubernetes_looks_for_it() {
    let mut object = mirror(&claim());
    object.metadata.owner_references.push(OwnerReference::node_pool("default", "uid-1"));
    let written = serde_json::to_value(&object).unwrap();
    let owner = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "default", "uid": "uid-1",
        "blockOwnerDeletion": true,
    });
    assert_eq!(written["metadata"]["ownerReferences"], json!([owner]));
}
