//! Rules about planned nodes as purchases: what pool and class allow, and what is for sale.

use std::sync::Arc;

use outrigger_model::{
    CapacityType, InstanceType, KarpenterLease, NodeClassRef, Price, Quantity, Requirement, Taint,
    TaintEffect, UnavailableOffering, labels,
};
use serde_json::{Value, json};

use super::setup::{Case, Setup, case};
use crate::fixtures::{catalogue, taint};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";
const FAMILY: &str = "karpenter.k8s.aws/instance-family";

/// One pod on a node that may be one of two types in one of two zones.
pub(super) fn simple() -> Setup {
    with_pool(json!({}))
}

pub(super) fn with_pool(patch: Value) -> Setup {
    let types = ["m6a.large", "m6a.xlarge"];
    let pool = Setup::with_pool(patch).wait("web", 1, json!({}));
    pool.plan_as("default-a", &types, CapacityType::OnDemand, &[A, B], &["web-0"])
}

/// Changes the catalogue of the only class.
pub(super) fn change(setup: &mut Setup, change: impl FnOnce(&mut Vec<InstanceType>)) {
    let mut types = catalogue();
    change(&mut types);
    setup.snapshot.classes[0].instance_types = Arc::new(types);
}

pub(super) fn cases() -> Vec<Case> {
    [TEMPLATES, OFFERINGS].concat()
}

const OUT_OF_ORDER: &[&str] = &["claim default-a: its types are not in order of price"];

const TEMPLATES: &[Case] = &[
    case(
        "a planned node has its pool",
        simple,
        |setup| setup.plan.nodes[0].spec.node_pool = "lost".into(),
        &["claim default-a: there is no NodePool lost"],
    ),
    case(
        "its class is ready",
        simple,
        |setup| setup.snapshot.classes[0].class.not_ready = Some("no subnet".into()),
        &["claim default-a: its node class is not ready"],
    ),
    case(
        "its pool is ours",
        simple,
        |setup| {
            setup.snapshot.karpenter_lease = KarpenterLease::Unreadable("no answer".into());
            setup.snapshot.node_pools[0].spec.template.spec.node_class_ref = NodeClassRef::ec2("own");
            setup.snapshot.classes[0].class.reference = NodeClassRef::ec2("own");
            setup.plan.nodes[0].spec.node_class = NodeClassRef::ec2("own");
        },
        &["claim default-a: its pool is, or may be, a live Karpenter's"],
    ),
    case(
        "its class is its pool's",
        simple,
        |setup| setup.plan.nodes[0].spec.node_class = NodeClassRef::ec2("other"),
        &["claim default-a: its class is not its pool's"],
    ),
    case(
        "its name is a name",
        simple,
        |setup| setup.plan.nodes[0].claim = "x".repeat(64),
        &[
            "claim xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: its name is longer than 63 characters",
        ],
    ),
    case(
        "its name is new",
        || {
            simple().plan("default-b", &[A], &[]).launched().wait("api", 1, json!({})).plan(
                "default-c",
                &[A],
                &["api-0"],
            )
        },
        |setup| setup.plan.nodes[0].claim = "default-b".into(),
        &["claim default-b: its name is used twice"],
    ),
    case(
        "its pool's taints stay",
        || {
            let mut setup = with_pool(json!({"template": {"spec": {"taints": [taint("batch")]}}}));
            setup.respec("web", |spec| {
                spec.tolerations = serde_json::from_value(json!([{"operator": "Exists"}])).unwrap();
            });
            setup
        },
        |setup| setup.plan.nodes[0].spec.taints.clear(),
        &["claim default-a: it lacks a taint of its pool or class"],
    ),
    case(
        "its class's taints stay",
        simple,
        |setup| {
            let hot = Taint::new("hot", "", TaintEffect::PreferNoSchedule);
            setup.snapshot.classes[0].class.taints.push(hot);
        },
        &["claim default-a: it lacks a taint of its pool or class"],
    ),
    case(
        "its startup taints stay",
        || with_pool(json!({"template": {"spec": {"startupTaints": [taint("start")]}}})),
        |setup| setup.plan.nodes[0].spec.startup_taints.clear(),
        &["claim default-a: it lacks a startup taint of its pool"],
    ),
    case(
        "its labels are its pool's",
        || with_pool(json!({"template": {"metadata": {"labels": {"team": "red"}}}})),
        |setup| drop(setup.plan.nodes[0].spec.labels.insert("team".into(), "blue".into())),
        &[
            "claim default-a: it lacks a label of its pool",
            "claim default-a: its pool asks for team In [red] against team blue",
        ],
    ),
    case(
        "its labels are true",
        simple,
        |setup| drop(setup.plan.nodes[0].spec.labels.insert(labels::ARCH.into(), "arm64".into())),
        &[
            "claim default-a: its label kubernetes.io/arch arm64 is not that of m6a.large",
            "claim default-a: its label kubernetes.io/arch arm64 is not that of m6a.xlarge",
        ],
    ),
    case(
        "types are in order of price",
        simple,
        |setup| {
            let node = &mut setup.plan.nodes[0];
            node.instance_types.reverse();
            node.price = node.instance_types[0].price();
        },
        OUT_OF_ORDER,
    ),
    case(
        "its price is its cheapest's",
        simple,
        |setup| setup.plan.nodes[0].price = Price::ZERO,
        &["claim default-a: its price is not its cheapest's"],
    ),
    case(
        "offerings are in order of price",
        || {
            let setup = Setup::new().wait("web", 1, json!({}));
            setup.plan_as("default-a", &["m6a.large", "m6a.xlarge"], CapacityType::Spot, &[A, B], &["web-0"])
        },
        |setup| setup.plan.nodes[0].instance_types[1].offerings.reverse(),
        &["claim default-a: its offerings are not in order of price"],
    ),
    case(
        "a type is offered once",
        simple,
        |setup| {
            let first = setup.plan.nodes[0].instance_types[0].clone();
            setup.plan.nodes[0].instance_types.insert(0, first);
        },
        &["claim default-a: it offers a type twice"],
    ),
    case(
        "a node offers some type",
        simple,
        |setup| setup.plan.nodes[0].instance_types.clear(),
        &["claim default-a: it offers no type or more than 60"],
    ),
];

const NOT_FOR_SALE: &[&str] =
    &["claim default-a: m6a.large on-demand in us-east-1a cannot be had as offered"];
fn make_unavailable(setup: &mut Setup, instance_type: &str, zone: &str) {
    setup.snapshot.unavailable.push(UnavailableOffering {
        instance_type: instance_type.into(),
        zone: zone.into(),
        capacity_type: CapacityType::OnDemand,
        until: "2026-11-20T12:03:00Z".parse().unwrap(),
        reason: "InsufficientInstanceCapacity".into(),
        failures: 1,
    });
}

const OFFERINGS: &[Case] = &[
    case(
        "its class offers each type",
        simple,
        |setup| setup.plan.nodes[0].instance_types[1].name = "x1.huge".into(),
        &["claim default-a: its class does not offer x1.huge"],
    ),
    case(
        "each type has an offering",
        simple,
        |setup| setup.plan.nodes[0].instance_types[1].offerings.clear(),
        &[
            "claim default-a: its types are not in order of price",
            "claim default-a: m6a.xlarge has no offering",
        ],
    ),
    case(
        "each offering is in its zones",
        simple,
        |setup| drop(setup.plan.nodes[0].zones.pop()),
        &[
            "claim default-a: m6a.large on-demand in us-east-1b cannot be had as offered",
            "claim default-a: m6a.xlarge on-demand in us-east-1b cannot be had as offered",
        ],
    ),
    case(
        "its requirements allow its zones",
        simple,
        |setup| {
            setup.plan.nodes[0].spec.requirements.add(labels::ZONE, Requirement::exactly(A));
        },
        &["claim default-a: its requirements exclude its zone us-east-1b"],
    ),
    case(
        "its requirements allow its types",
        simple,
        |setup| {
            setup.plan.nodes[0]
                .spec
                .requirements
                .add(labels::INSTANCE_TYPE, Requirement::exactly("m6a.large"));
        },
        &["claim default-a: its requirements exclude m6a.xlarge"],
    ),
    case(
        "its requirements allow how it is bought",
        simple,
        |setup| {
            setup.plan.nodes[0].spec.requirements.add(labels::CAPACITY_TYPE, Requirement::exactly("spot"));
        },
        &["claim default-a: its requirements exclude its capacity type on-demand"],
    ),
    case(
        "an offering is not available that EC2 lately lacked",
        simple,
        |setup| make_unavailable(setup, "m6a.large", A),
        NOT_FOR_SALE,
    ),
    case(
        "an offering is not available while its whole zone is not",
        simple,
        |setup| make_unavailable(setup, "*", A),
        &[
            "claim default-a: m6a.large on-demand in us-east-1a cannot be had as offered",
            "claim default-a: m6a.xlarge on-demand in us-east-1a cannot be had as offered",
        ],
    ),
    case(
        "an offering is not available that the catalogue calls so",
        simple,
        |setup| {
            change(setup, |types| {
                let large = types.iter_mut().find(|t| t.name == "m6a.large").unwrap();
                large.offerings.iter_mut().filter(|o| o.zone == A).for_each(|o| o.available = false);
            });
        },
        NOT_FOR_SALE,
    ),
    case(
        "a price is the catalogue's",
        simple,
        |setup| {
            change(setup, |types| {
                let large = types.iter_mut().find(|t| t.name == "m6a.large").unwrap();
                large
                    .offerings
                    .iter_mut()
                    .filter(|o| o.zone == A)
                    .for_each(|o| o.price = Price::from_nanos(1));
            });
        },
        NOT_FOR_SALE,
    ),
    case(
        "a zone needs a subnet",
        simple,
        |setup| {
            let subnet = json!({"id": "subnet-b", "zone": B, "freeAddresses": 9});
            setup.snapshot.classes[0].class.subnets.push(serde_json::from_value(subnet).unwrap());
        },
        &[
            "claim default-a: m6a.large on-demand in us-east-1a cannot be had as offered",
            "claim default-a: m6a.xlarge on-demand in us-east-1a cannot be had as offered",
        ],
    ),
    case(
        "an architecture needs an image",
        simple,
        |setup| {
            let image = json!({"id": "ami-1", "arch": "arm64"});
            setup.snapshot.classes[0].class.images.push(serde_json::from_value(image).unwrap());
        },
        &[
            "claim default-a: its class has no image for m6a.large",
            "claim default-a: its class has no image for m6a.xlarge",
        ],
    ),
    case(
        "burstable types are for those who ask for them",
        simple,
        |setup| {
            change(setup, |types| {
                for kind in types.iter_mut().filter(|kind| kind.name == "m6a.large") {
                    kind.labels.insert(labels::INSTANCE_CATEGORY.into(), labels::BURSTABLE.into());
                }
            });
        },
        &["claim default-a: m6a.large is burstable, which neither pool nor class asks for"],
    ),
    case(
        "its image is for its architecture",
        simple,
        |setup| setup.plan.nodes[0].instance_types[0].arch = "arm64".into(),
        &["claim default-a: m6a.large is not arm64"],
    ),
    case(
        "a node meets the requirements of its pool",
        simple,
        |setup| {
            setup.snapshot.node_pools[0].spec.template.spec.requirements =
                serde_json::from_value(json!([{"key": labels::ZONE, "operator": "In", "values": [A]}]))
                    .unwrap();
        },
        &["claim default-a: its pool asks for topology.kubernetes.io/zone In [us-east-1a] against \
              topology.kubernetes.io/zone us-east-1b"],
    ),
    case(
        "a node meets the requirements of its class",
        simple,
        |setup| {
            setup.snapshot.classes[0].class.requirements.add(FAMILY, Requirement::exactly("c6a"));
        },
        &["claim default-a: its class asks for karpenter.k8s.aws/instance-family In [c6a] against \
              karpenter.k8s.aws/instance-family m6a"],
    ),
    case(
        "it reserves what its largest type has",
        simple,
        |setup| {
            setup.plan.nodes[0].reserved.set("cpu", Quantity::units(2));
        },
        &["claim default-a: it reserves less cpu than m6a.xlarge has"],
    ),
    case(
        "it promises what its smallest type has",
        simple,
        |setup| {
            setup.plan.nodes[0].allocatable.set("cpu", Quantity::units(2));
        },
        &["claim default-a: it promises more cpu than m6a.large has"],
    ),
];
