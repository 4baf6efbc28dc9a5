//! Rules about nodes and claims that exist: which take pods, what they will be, what volumes allow.

use outrigger_model::{
    CapacityType, ClaimState, NominatedPod, PodState, Quantity, Requirement, Requirements, Taint,
    TaintEffect, Target, labels,
};
use serde_json::json;

use super::stage::{Case, Stage, case, volume};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";

pub(super) fn cases() -> Vec<Case> {
    [EXISTING, VOLUMES].concat()
}

/// A claim that may come up as two types in two zones, and a pod for it.
pub(super) fn on_claim() -> Stage {
    Stage::new()
        .plan_as("default-a", &["m6a.large", "m6a.xlarge"], CapacityType::OnDemand, &[A, B], &[])
        .launched()
        .wait("web", 1, json!({}))
        .place(Target::Claim("default-a".into()), &["web-0"])
}

fn on_node() -> Stage {
    Stage::new()
        .node("i-1", A, &[("old", json!({}))])
        .wait("web", 1, json!({}))
        .place(Target::Node("i-1".into()), &["web-0"])
}

/// A node that is still starting, with its claim.
fn on_young_node() -> Stage {
    let mut stage = on_claim();
    stage.snapshot.claims[0].node_name = Some("i-1".into());
    stage.snapshot.claims[0].state = ClaimState::Registered;
    stage.plan.existing[0].target = Target::Node("i-1".into());
    let mut stage = stage.node("i-1", A, &[]);
    stage.snapshot.claims[0].startup_taints = vec![Taint::new("start", "", TaintEffect::NoSchedule)];
    let node = &mut stage.snapshot.nodes[0];
    node.ready = false;
    for key in ["start", "node.kubernetes.io/not-ready", labels::UNREGISTERED_TAINT] {
        node.taints.push(Taint::new(key, "", TaintEffect::NoSchedule));
    }
    stage
}

fn with_volumes() -> Stage {
    let mut stage = on_node();
    stage.snapshot.volume_claims = vec![volume("data", &[A]), volume("logs", &[]), volume("old", &[])];
    stage.pod("old-0").volume_claims = vec!["old".into(), "logs".into()];
    stage.pod("web-0").volume_claims = vec!["data".into(), "logs".into()];
    stage.snapshot.nodes[0].volume_limits.insert("ebs.csi.aws.com".into(), 3);
    stage
}

/// A volume for either zone on a node that may come up in either.
fn with_regional_volume() -> Stage {
    let mut stage = Stage::new().wait("web", 1, json!({})).plan("default-a", &[A, B], &["web-0"]);
    stage.snapshot.volume_claims = vec![volume("data", &[A, B])];
    stage.pod("web-0").volume_claims = vec!["data".into()];
    stage
}

const CLAIM: &str = "default-a: pods are placed on it, but its claim takes no more pods";

const EXISTING: &[Case] = &[
    case(
        "a node must be there",
        on_node,
        |stage| stage.plan.existing[0].target = Target::Node("i-2".into()),
        &["i-2: pods are placed on it, but there is no such node"],
    ),
    case(
        "a claim must be there",
        on_claim,
        |stage| stage.plan.existing[0].target = Target::Claim("lost".into()),
        &["lost: pods are placed on it, but there is no such claim"],
    ),
    case(
        "a node that goes takes no pods",
        on_node,
        |stage| stage.snapshot.nodes[0].deleting = true,
        &["i-1: pods are placed on it, but it is being deleted"],
    ),
    case(
        "nor a cordoned one",
        on_node,
        |stage| stage.snapshot.nodes[0].unschedulable = true,
        &["i-1: pods are placed on it, but it is cordoned"],
    ),
    case(
        "nor one that is not ready",
        on_node,
        |stage| stage.snapshot.nodes[0].ready = false,
        &["i-1: pods are placed on it, but it is not ready"],
    ),
    case(
        "nor a claim that drains",
        on_claim,
        |stage| stage.snapshot.claims[0].state = ClaimState::Draining,
        &[CLAIM],
    ),
    case(
        "a node whose claim drains takes none",
        on_young_node,
        |stage| stage.snapshot.claims[0].state = ClaimState::Draining,
        &["i-1: pods are placed on it, but its claim takes no more pods"],
    ),
    case(
        "a claim whose node has joined is not named",
        on_young_node,
        |stage| stage.plan.existing[0].target = Target::Claim("default-a".into()),
        &["default-a: pods are placed on it, but its node has joined and must be named instead"],
    ),
    case(
        "a claim whose node is lost takes none",
        on_claim,
        |stage| stage.snapshot.claims[0].state = ClaimState::Registered,
        &["default-a: pods are placed on it, but its node had joined and is gone"],
    ),
    case(
        "a young node loses startup and ephemeral taints, another does not",
        on_young_node,
        |stage| {
            let node = &mut stage.snapshot.nodes[0];
            node.labels.insert(labels::INITIALIZED.into(), "true".into());
            node.ready = true;
        },
        &["pod default/web-0: placed on i-1, but the pod does not tolerate start:NoSchedule"],
    ),
    case(
        "before it is registered a node will get its claim's taints",
        on_young_node,
        |stage| {
            stage.snapshot.claims[0].taints = vec![Taint::new("batch", "", TaintEffect::NoSchedule)];
            stage.snapshot.claims[0].state = ClaimState::Launched;
        },
        &["pod default/web-0: placed on i-1, but the pod does not tolerate batch:NoSchedule"],
    ),
    case(
        "a claim serves as every type",
        on_claim,
        |stage| {
            stage.snapshot.claims[0].instance_types.push("m6g.large".into());
            stage.respec("web", |spec| drop(spec.node_selector.insert(labels::ARCH.into(), "amd64".into())));
        },
        &[
            "pod default/web-0: placed on default-a, but the pod asks for kubernetes.io/arch In [amd64] against \
               kubernetes.io/arch arm64",
        ],
    ),
    case(
        "a claim serves in every zone",
        on_claim,
        |stage| {
            stage.respec("web", |spec| drop(spec.node_selector.insert(labels::ZONE.into(), A.into())));
        },
        &["pod default/web-0: placed on default-a, but the pod asks for topology.kubernetes.io/zone In \
               [us-east-1a] against topology.kubernetes.io/zone us-east-1b"],
    ),
    case(
        "a node holds room for the pods that its claim was planned for",
        || {
            let mut stage = on_young_node().wait("first", 1, json!({"requests": {"cpu": "3"}}));
            let first = stage.pod("first-0");
            first.state = PodState::Waiting;
            let nominated = NominatedPod { pod: first.id.clone(), uid: first.uid.clone() };
            stage.snapshot.claims[0].nominated.push(nominated);
            stage
        },
        |stage| stage.respec("web", |spec| spec.requests.set("cpu", Quantity::units(1))),
        &["i-1: cpu 1 is asked of it; allowed: 920m as it is"],
    ),
    case(
        "a type that the catalogue lost is what was planned",
        on_claim,
        |stage| {
            stage.snapshot.claims[0].instance_types = vec!["x1.lost".into()];
            stage.snapshot.claims[0].allocatable.set("cpu", Quantity::millis(50));
        },
        &["default-a: cpu 100m is asked of it; allowed: 50m as it is"],
    ),
];

const VOLUMES: &[Case] = &[
    case(
        "a claim must be known",
        with_volumes,
        |stage| drop(stage.snapshot.volume_claims.remove(0)),
        &["pod default/web-0: placed on i-1, but its PersistentVolumeClaim data is not known"],
    ),
    case(
        "a claim must be usable",
        with_volumes,
        |stage| {
            stage.snapshot.volume_claims[0].problem =
                Some("PersistentVolumeClaim default/data: it is lost".into());
        },
        &["pod default/web-0: placed on i-1, but a volume of it cannot be had: PersistentVolumeClaim \
               default/data: it is lost"],
    ),
    case(
        "a volume is in its zone",
        with_volumes,
        |stage| stage.snapshot.volume_claims[0] = volume("data", &[B]),
        &["pod default/web-0: placed on i-1, but its PersistentVolumeClaim data asks for \
               topology.kubernetes.io/zone In [us-east-1b] against topology.kubernetes.io/zone us-east-1a"],
    ),
    case(
        "on every outcome one place of the volume serves",
        with_regional_volume,
        |stage| drop(stage.snapshot.volume_claims[0].alternatives.remove(0)),
        &["pod default/web-0: placed on default-a, but its PersistentVolumeClaim data asks for \
               topology.kubernetes.io/zone In [us-east-1b] against topology.kubernetes.io/zone us-east-1a"],
    ),
    case(
        "the driver's old name of the zone is the zone",
        with_regional_volume,
        |stage| {
            let only = Requirement::exactly(A);
            stage.snapshot.volume_claims[0].alternatives =
                vec![Requirements::new().with("topology.ebs.csi.aws.com/zone", only)];
        },
        &["pod default/web-0: placed on default-a, but its PersistentVolumeClaim data asks for \
               topology.kubernetes.io/zone In [us-east-1a] against topology.kubernetes.io/zone us-east-1b"],
    ),
    case(
        "a node attaches so many volumes; one that is shared counts once",
        with_volumes,
        |stage| {
            stage.snapshot.nodes[0].volume_limits.insert("ebs.csi.aws.com".into(), 2);
        },
        &["node i-1: 3 volumes of ebs.csi.aws.com attached after the plan; allowed: 2"],
    ),
    case(
        "a node with too many volumes takes pods that bring no more",
        || {
            let mut stage = with_volumes();
            stage.pod("web-0").volume_claims = vec!["logs".into()];
            stage.snapshot.nodes[0].volume_limits.insert("ebs.csi.aws.com".into(), 1);
            stage
        },
        |stage| stage.pod("web-0").volume_claims.push("data".into()),
        &["node i-1: 3 volumes of ebs.csi.aws.com attached after the plan; allowed: 1"],
    ),
];
