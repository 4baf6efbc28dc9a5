//! Rules about nodes and claims that exist: which take pods, what they will be, what volumes allow.

use outrigger_model::fixtures::unread;
use outrigger_model::{
    CapacityType, ClaimState, NominatedPod, PodState, Quantity, Requirement, Requirements, Taint,
    TaintEffect, Target, labels,
};
use serde_json::{Value, json};

use super::setup::{Case, Setup, case, volume};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";

pub(super) fn cases() -> Vec<Case> {
    [EXISTING, VOLUMES].concat()
}

/// A claim that may come up as two types in two zones, and a pod for it.
pub(super) fn on_claim() -> Setup {
    Setup::new()
        .plan_as("default-a", &["m6a.large", "m6a.xlarge"], CapacityType::OnDemand, &[A, B], &[])
        .launched()
        .wait("web", 1, json!({}))
        .place_on(Target::Claim("default-a".into()), &["web-0"])
}

fn on_node() -> Setup {
    on_node_with(json!({}))
}

fn tolerant_on_node() -> Setup {
    on_node_with(json!({"tolerations": [{"operator": "Exists"}]}))
}

/// A pod for a node that runs another.
fn on_node_with(pod: Value) -> Setup {
    Setup::new()
        .node("i-1", A, &[("old", json!({}))])
        .wait("web", 1, pod)
        .place_on(Target::Node("i-1".into()), &["web-0"])
}

/// A node that is still starting, with its claim.
fn on_starting_node() -> Setup {
    let mut setup = on_claim();
    setup.snapshot.claims[0].status.node_name = Some("i-1".into());
    setup.snapshot.claims[0].status.state = ClaimState::Registered;
    setup.plan.existing[0].target = Target::Node("i-1".into());
    let mut setup = setup.node("i-1", A, &[]);
    setup.snapshot.claims[0].spec.startup_taints = vec![Taint::new("start", "", TaintEffect::NoSchedule)];
    let node = &mut setup.snapshot.nodes[0];
    node.ready = false;
    for key in ["start", "node.kubernetes.io/not-ready", labels::UNREGISTERED_TAINT] {
        node.taints.push(Taint::new(key, "", TaintEffect::NoSchedule));
    }
    setup
}

fn with_volumes() -> Setup {
    let mut setup = on_node();
    setup.snapshot.volume_claims = vec![volume("data", &[A]), volume("logs", &[]), volume("old", &[])];
    setup.pod("old-0").volume_claims = vec!["old".into(), "logs".into()];
    setup.pod("web-0").volume_claims = vec!["data".into(), "logs".into()];
    setup.snapshot.nodes[0].volume_limits.insert("ebs.csi.aws.com".into(), 3);
    setup
}

/// A volume for either zone on a node that may come up in either.
fn with_regional_volume() -> Setup {
    let mut setup = Setup::new().wait("web", 1, json!({})).plan("default-a", &[A, B], &["web-0"]);
    setup.snapshot.volume_claims = vec![volume("data", &[A, B])];
    setup.pod("web-0").volume_claims = vec!["data".into()];
    setup
}

const CLAIM: &str = "default-a: pods are placed on it, but its claim takes no more pods";

const EXISTING: &[Case] = &[
    case(
        "a node exists",
        on_node,
        |setup| setup.plan.existing[0].target = Target::Node("i-2".into()),
        &["i-2: pods are placed on it, but there is no such node"],
    ),
    case(
        "a claim exists",
        on_claim,
        |setup| setup.plan.existing[0].target = Target::Claim("lost".into()),
        &["lost: pods are placed on it, but there is no such claim"],
    ),
    case(
        "a node that is being deleted takes no pods",
        on_node,
        |setup| setup.snapshot.nodes[0].deleting = true,
        &["i-1: pods are placed on it, but it is being deleted"],
    ),
    case(
        "a node that is being disrupted takes no pods, whatever they tolerate",
        tolerant_on_node,
        |setup| setup.snapshot.nodes[0].taints.push(Taint::disrupted()),
        &["i-1: pods are placed on it, but it is being disrupted"],
    ),
    case(
        "a cordoned node takes no pods",
        on_node,
        |setup| setup.snapshot.nodes[0].unschedulable = true,
        &["i-1: pods are placed on it, but it is cordoned"],
    ),
    case(
        "a node that cannot be read whole takes no pods",
        on_node,
        |setup| setup.snapshot.nodes[0].degraded = unread("Node/i-1"),
        &["i-1: pods are placed on it, but it cannot be read whole"],
    ),
    case(
        "a pod that cannot be read whole has no place",
        on_node,
        |setup| setup.pod("web-0").degraded = unread("Pod/default/web-0"),
        &["pod default/web-0: placed on i-1, but nobody knows what it asks for: \
           spec.tolerations[0].operator: found \"Gt\"; allowed: Equal or Exists"],
    ),
    case(
        "a node that is not ready takes no pods",
        on_node,
        |setup| setup.snapshot.nodes[0].ready = false,
        &["i-1: pods are placed on it, but it is not ready"],
    ),
    case(
        "a draining claim takes no pods",
        on_claim,
        |setup| setup.snapshot.claims[0].status.state = ClaimState::Draining,
        &[CLAIM],
    ),
    case(
        "a node whose claim is draining takes no pods",
        on_starting_node,
        |setup| setup.snapshot.claims[0].status.state = ClaimState::Draining,
        &["i-1: pods are placed on it, but its claim takes no more pods"],
    ),
    case(
        "a claim whose node has joined is not named",
        on_starting_node,
        |setup| setup.plan.existing[0].target = Target::Claim("default-a".into()),
        &["default-a: pods are placed on it, but its node has joined and must be named instead"],
    ),
    case(
        "a claim whose node is lost takes no pods",
        on_claim,
        |setup| setup.snapshot.claims[0].status.state = ClaimState::Registered,
        &["default-a: pods are placed on it, but its node had joined and is gone"],
    ),
    case(
        "a starting node loses startup and ephemeral taints, another does not",
        on_starting_node,
        |setup| {
            let node = &mut setup.snapshot.nodes[0];
            node.labels.insert(labels::INITIALIZED.into(), "true".into());
            node.ready = true;
        },
        &["pod default/web-0: placed on i-1, but the pod does not tolerate start:NoSchedule"],
    ),
    case(
        "before it is registered a node will get its claim's taints",
        on_starting_node,
        |setup| {
            setup.snapshot.claims[0].spec.taints = vec![Taint::new("batch", "", TaintEffect::NoSchedule)];
            setup.snapshot.claims[0].status.state = ClaimState::Launched;
        },
        &["pod default/web-0: placed on i-1, but the pod does not tolerate batch:NoSchedule"],
    ),
    case(
        "the pods of a claim fit every type that it may become",
        on_claim,
        |setup| {
            setup.snapshot.claims[0].instance_types.push("m6g.large".into());
            setup.respec("web", |spec| drop(spec.node_selector.insert(labels::ARCH.into(), "amd64".into())));
        },
        &[
            "pod default/web-0: placed on default-a, but the pod asks for kubernetes.io/arch In [amd64] against \
               kubernetes.io/arch arm64",
        ],
    ),
    case(
        "the pods of a claim may be in every zone that it may come up in",
        on_claim,
        |setup| {
            setup.respec("web", |spec| drop(spec.node_selector.insert(labels::ZONE.into(), A.into())));
        },
        &["pod default/web-0: placed on default-a, but the pod asks for topology.kubernetes.io/zone In \
               [us-east-1a] against topology.kubernetes.io/zone us-east-1b"],
    ),
    case(
        "the pods that its claim was planned for take resources of a node",
        || {
            let mut setup = on_starting_node().wait("first", 1, json!({"requests": {"cpu": "3"}}));
            let first = setup.pod("first-0");
            first.state = PodState::Waiting;
            let nominated = NominatedPod { pod: first.id.clone(), uid: first.uid.clone() };
            setup.snapshot.claims[0].status.nominated.push(nominated);
            setup
        },
        |setup| setup.respec("web", |spec| spec.requests.set("cpu", Quantity::units(1))),
        &["i-1: cpu 1 is asked of it; allowed: 920m as it is"],
    ),
    case(
        "a type that the catalogue lost is what was planned",
        on_claim,
        |setup| {
            setup.snapshot.claims[0].instance_types = vec!["x1.lost".into()];
            setup.snapshot.claims[0].status.allocatable.set("cpu", Quantity::millis(50));
        },
        &["default-a: cpu 100m is asked of it; allowed: 50m as it is"],
    ),
];

const VOLUMES: &[Case] = &[
    case(
        "a PersistentVolumeClaim is known",
        with_volumes,
        |setup| drop(setup.snapshot.volume_claims.remove(0)),
        &["pod default/web-0: placed on i-1, but its PersistentVolumeClaim data is not known"],
    ),
    case(
        "a PersistentVolumeClaim is usable",
        with_volumes,
        |setup| {
            setup.snapshot.volume_claims[0].problem =
                Some("PersistentVolumeClaim default/data: it is lost".into());
        },
        &["pod default/web-0: placed on i-1, but a volume of it cannot be had: PersistentVolumeClaim \
               default/data: it is lost"],
    ),
    case(
        "a volume is in its zone",
        with_volumes,
        |setup| setup.snapshot.volume_claims[0] = volume("data", &[B]),
        &["pod default/web-0: placed on i-1, but its PersistentVolumeClaim data asks for \
               topology.kubernetes.io/zone In [us-east-1b] against topology.kubernetes.io/zone us-east-1a"],
    ),
    case(
        "every zone that a node may come up in is one of the volume's",
        with_regional_volume,
        |setup| drop(setup.snapshot.volume_claims[0].alternatives.remove(0)),
        &["pod default/web-0: placed on default-a, but its PersistentVolumeClaim data asks for \
               topology.kubernetes.io/zone In [us-east-1b] against topology.kubernetes.io/zone us-east-1a"],
    ),
    case(
        "the driver's old name of the zone is the zone",
        with_regional_volume,
        |setup| {
            let only = Requirement::exactly(A);
            setup.snapshot.volume_claims[0].alternatives =
                vec![Requirements::new().with("topology.ebs.csi.aws.com/zone", only)];
        },
        &["pod default/web-0: placed on default-a, but its PersistentVolumeClaim data asks for \
               topology.kubernetes.io/zone In [us-east-1a] against topology.kubernetes.io/zone us-east-1b"],
    ),
    case(
        "a node attaches so many volumes; one that is shared counts once",
        with_volumes,
        |setup| {
            setup.snapshot.nodes[0].volume_limits.insert("ebs.csi.aws.com".into(), 2);
        },
        &["node i-1: 3 volumes of ebs.csi.aws.com attached after the plan; allowed: 2"],
    ),
    case(
        "a node with too many volumes takes pods that bring no more",
        || {
            let mut setup = with_volumes();
            setup.pod("web-0").volume_claims = vec!["logs".into()];
            setup.snapshot.nodes[0].volume_limits.insert("ebs.csi.aws.com".into(), 1);
            setup
        },
        |setup| setup.pod("web-0").volume_claims.push("data".into()),
        &["node i-1: 3 volumes of ebs.csi.aws.com attached after the plan; allowed: 1"],
    ),
];
