//! Rules about all planned nodes together: reservations, overlays, limits, fixed pools, buffers,
//! minValues.

use std::sync::Arc;

use outrigger_model::pod::HostPort;
use outrigger_model::{
    CapacityBuffer, CapacityType, ClaimState, NodeClaim, NodeOverlay, Offering, Price, PriceOverlay,
    Quantity, Requirement, Requirements, Reservation, Resources, labels,
};
use serde_json::{Value, json};

use super::planned_nodes::{change, simple, with_pool};
use super::setup::{Case, Setup, case};
use crate::fixtures::{daemon_set, spec};

const A: &str = "us-east-1a";
const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const FUSE: &str = "smarter-devices/fuse";

pub(super) fn cases() -> Vec<Case> {
    [RESERVATIONS_AND_OVERLAYS, POOLS_AND_BUFFERS].concat()
}

/// Two pods on two reserved nodes, out of two reservations of one instance each.
fn with_reservations() -> Setup {
    let mut setup = Setup::new().wait("web", 2, json!({}));
    change(&mut setup, |types| {
        let large = types.iter_mut().find(|t| t.name == "m6a.large").unwrap();
        large.offerings.extend(["cr-1", "cr-2"].map(|id| Offering {
            zone: A.into(),
            capacity_type: CapacityType::Reserved,
            price: Price::from_nanos(1_000),
            available: true,
            reservation: Some(Reservation { id: id.into(), count: 1, total: None }),
            interruption: None,
        }));
    });
    for (node, pod, id) in [("default-a", "web-0", "cr-1"), ("default-b", "web-1", "cr-2")] {
        setup = setup.plan_as(node, &["m6a.large"], CapacityType::Reserved, &[A], &[pod]);
        let planned = setup.plan.nodes.last_mut().unwrap();
        planned.instance_types[0].offerings.truncate(1);
        planned.spec.requirements.add(labels::RESERVATION_ID, Requirement::exactly(id));
    }
    setup
}

fn overlay(name: &str, weight: u32, price: Option<i64>, fuses: i64) -> NodeOverlay {
    let requirements = Requirements::new().with(labels::INSTANCE_TYPE, Requirement::exactly("m6a.large"));
    let capacity = Resources::new().with(FUSE, Quantity::units(fuses));
    NodeOverlay { name: name.into(), weight, requirements, price: price.map(PriceOverlay::Add), capacity }
}

/// A pod that needs a device which only an overlay gives, on a type whose price another overlay
/// changes.
fn with_overlays() -> Setup {
    let mut setup = Setup::new().wait("web", 1, json!({"requests": {FUSE: "2"}})).plan_as(
        "default-a",
        &["m6a.large"],
        CapacityType::OnDemand,
        &[A],
        &["web-0"],
    );
    setup.snapshot.overlays =
        vec![overlay("b", 5, Some(7), 2), overlay("c", 5, Some(9), 3), overlay("a", 1, Some(1), 4)];
    let node = &mut setup.plan.nodes[0];
    node.price += Price::from_nanos(7);
    node.instance_types[0].offerings[0].price = node.price;
    node.reserved.set(FUSE, Quantity::units(2));
    setup
}

/// A pool of two nodes: one is there, one is planned.
fn with_replicas() -> Setup {
    let mut setup = Setup::with_pool(json!({"replicas": 2}))
        .plan("default-x", &[A], &[])
        .plan("default-y", &[A], &[])
        .launched();
    setup.snapshot.claims[1].status.state = ClaimState::Draining;
    setup.plan("default-a", &[A], &[]).wait("web", 1, json!({}))
}

/// A node for the pods of a buffer alone.
fn with_buffer() -> Setup {
    let mut setup = Setup::new().plan("default-a", &[A], &[]);
    let id = setup.clone().wait("spare", 1, json!({})).pod("spare-0").id.clone();
    let spec = Arc::new(spec(3_000, 128));
    setup.snapshot.buffers.push(CapacityBuffer { id, count: 1, spec, labels: Arc::default() });
    setup
}

const NOT_FOR_SALE: &str = "claim default-a: m6a.large on-demand in us-east-1a cannot be had as offered";

const RESERVATIONS_AND_OVERLAYS: &[Case] = &[
    case(
        "a reservation has so many instances",
        with_reservations,
        |setup| {
            let both = Requirement::any_of(["cr-1", "cr-2"]);
            setup.plan.nodes[0].spec.requirements.remove(labels::RESERVATION_ID);
            setup.plan.nodes[0].spec.requirements.add(labels::RESERVATION_ID, both);
        },
        &["capacity reservation cr-2: 2 planned nodes may draw on it; allowed: 1"],
    ),
    case(
        "the lowest count of a reservation holds",
        with_reservations,
        |setup| {
            let types = &mut setup.snapshot.classes[0].instance_types;
            let mut more = (**types).clone();
            let large = more.iter().find(|t| t.name == "m6a.large").unwrap();
            let mut smaller = large.offerings.iter().rfind(|o| o.reservation.is_some()).unwrap().clone();
            smaller.reservation = Some(Reservation { id: "cr-2".into(), count: 0, total: None });
            more.last_mut().unwrap().offerings.push(smaller);
            *types = Arc::new(more);
        },
        &["capacity reservation cr-2: 1 planned nodes may draw on it; allowed: 0"],
    ),
    case(
        "a reserved node names its reservations",
        with_reservations,
        |setup| {
            setup.plan.nodes[0].spec.requirements.remove(labels::RESERVATION_ID);
        },
        &[
            "claim default-a: it is reserved and names no reservation",
            "claim default-a: m6a.large reserved in us-east-1a cannot be had as offered",
        ],
    ),
    case(
        "it is bought out of those that it names",
        with_reservations,
        |setup| {
            setup.plan.nodes[0].spec.requirements.remove(labels::RESERVATION_ID);
            setup.plan.nodes[0].spec.requirements.add(labels::RESERVATION_ID, Requirement::exactly("cr-3"));
        },
        &[
            "capacity reservation cr-3: 1 planned nodes may draw on it; allowed: 0",
            "claim default-a: m6a.large reserved in us-east-1a cannot be had as offered",
        ],
    ),
    case(
        "the heaviest overlay's price counts",
        with_overlays,
        |setup| setup.snapshot.overlays[2].weight = 9,
        &["claim default-a: it reserves less smarter-devices/fuse than m6a.large has", NOT_FOR_SALE],
    ),
    case(
        "between equals the first by name",
        with_overlays,
        |setup| {
            setup.snapshot.overlays[0].name = "d".into();
            setup.snapshot.overlays[0].capacity = Resources::new();
            setup.snapshot.overlays[1].capacity = Resources::new().with(FUSE, Quantity::units(2));
        },
        &[NOT_FOR_SALE],
    ),
    case(
        "an overlay is for what it names",
        with_overlays,
        |setup| {
            for overlay in &mut setup.snapshot.overlays {
                overlay.requirements.add(labels::NODE_POOL, Requirement::exactly("other"));
            }
        },
        &[NOT_FOR_SALE, "default-a: smarter-devices/fuse 2 is asked of it; allowed: 0 as m6a.large"],
    ),
    case(
        "an overlay's devices are counted",
        with_overlays,
        |setup| {
            setup.snapshot.overlays[0].capacity = Resources::new().with(FUSE, Quantity::units(1));
        },
        &["default-a: smarter-devices/fuse 2 is asked of it; allowed: 1 as m6a.large"],
    ),
];

const UNUSED: &[&str] = &["claim default-a: it has no pods, and no pod of a capacity buffer needs it"];

const POOLS_AND_BUFFERS: &[Case] = &[
    case(
        "limits hold for the largest types",
        || with_pool(json!({"limits": {"cpu": "4"}})),
        |setup| {
            setup.snapshot.node_pools[0].spec.limits = Some(Resources::new().with("cpu", Quantity::units(3)));
        },
        &["NodePool default: cpu 4 after the plan; allowed: 3"],
    ),
    case(
        "limits count nodes, claims and what is planned",
        || {
            let mut setup = with_pool(json!({"limits": {"nodes": "3"}})).node("i-1", A, &[]);
            setup.snapshot.nodes[0].labels.insert(labels::NODE_POOL.into(), "default".into());
            let other = simple().launched().snapshot.claims.remove(0);
            setup.snapshot.claims.push(NodeClaim { name: "default-b".into(), ..other });
            setup
        },
        |setup| {
            setup.snapshot.node_pools[0].spec.limits =
                Some(Resources::new().with("nodes", Quantity::units(2)));
        },
        &["NodePool default: nodes 3 after the plan; allowed: 2"],
    ),
    case(
        "a fixed pool has so many nodes",
        with_replicas,
        |setup| setup.snapshot.node_pools[0].spec.replicas = Some(1),
        &["NodePool default: 2 nodes after the plan; allowed: 1, its replicas"],
    ),
    case(
        "new nodes of a fixed pool carry the pods that fit them",
        || {
            let mut setup = with_replicas();
            setup.plan.nodes = setup.clone().plan("default-a", &[A], &["web-0"]).plan.nodes.split_off(1);
            setup
        },
        |setup| setup.respec("web", |spec| spec.requests.set("cpu", Quantity::units(9))),
        &["default-a: cpu 9 is asked of it; allowed: 3920m as m6a.xlarge"],
    ),
    case("a node without pods is for a buffer", with_buffer, |setup| setup.snapshot.buffers.clear(), UNUSED),
    case(
        "a node for a buffer fits one of its pods",
        with_buffer,
        |setup| {
            setup.snapshot.buffers[0].spec = Arc::new(spec(5_000, 128));
        },
        UNUSED,
    ),
    case(
        "there are no more nodes for buffers than pods of buffers",
        || {
            let mut setup = with_buffer().plan("default-b", &[A], &[]);
            setup.snapshot.buffers[0].count = 2;
            setup
        },
        |setup| setup.snapshot.buffers[0].count = 1,
        &["claim default-b: it has no pods, and no pod of a capacity buffer needs it"],
    ),
    case(
        "a buffer's ports are its own",
        with_buffer,
        |setup| {
            let mut wanting = (*setup.snapshot.buffers[0].spec).clone();
            wanting.host_ports.push(HostPort { ip: String::new(), port: 80, protocol: "TCP".into() });
            setup.snapshot.daemon_sets.push(daemon_set("proxy", {
                let mut proxy = spec(1, 1);
                proxy.host_ports.clone_from(&wanting.host_ports);
                proxy
            }));
            setup.snapshot.buffers[0].spec = Arc::new(wanting);
        },
        UNUSED,
    ),
    case(
        "minValues are kept",
        || with_pool(min_values(FAMILY, 1)),
        |setup| {
            setup.snapshot.node_pools[0].spec.template.spec.requirements[0].min_values = Some(2);
        },
        &["claim default-a: it keeps 1 values of karpenter.k8s.aws/instance-family; allowed: 2 or more"],
    ),
    case(
        "minValues need not be kept where the claim says that they are relaxed",
        || {
            let mut setup = with_pool(min_values(FAMILY, 3));
            setup.plan.nodes[0].spec.annotations.insert(labels::MIN_VALUES_RELAXED.into(), "true".into());
            setup
        },
        |setup| {
            drop(
                setup.plan.nodes[0]
                    .spec
                    .annotations
                    .insert(labels::MIN_VALUES_RELAXED.into(), "false".into()),
            );
        },
        &["claim default-a: it keeps 1 values of karpenter.k8s.aws/instance-family; allowed: 3 or more"],
    ),
    case(
        "minValues of zones are those that the types are sold in",
        || with_pool(min_values(labels::ZONE, 3)),
        |setup| {
            change(setup, |types| {
                let sold = types.iter_mut().flat_map(|t| &mut t.offerings);
                sold.filter(|offering| offering.zone == "us-east-1c")
                    .for_each(|offering| offering.available = false);
            });
        },
        &["claim default-a: it keeps 2 values of topology.kubernetes.io/zone; allowed: 3 or more"],
    ),
    case(
        "minValues of zones count only those that the pool allows",
        || {
            let mut patch = min_values(labels::ZONE, 2);
            let requirement = &mut patch["template"]["spec"]["requirements"][0];
            requirement["operator"] = json!("In");
            requirement["values"] = json!([A, "us-east-1b"]);
            Setup::with_pool(patch).wait("web", 1, json!({})).plan("default-a", &[A], &["web-0"])
        },
        |setup| {
            change(setup, |types| {
                let sold = types.iter_mut().flat_map(|t| &mut t.offerings);
                sold.filter(|offering| offering.zone == "us-east-1b")
                    .for_each(|offering| offering.available = false);
            });
        },
        &["claim default-a: it keeps 1 values of topology.kubernetes.io/zone; allowed: 2 or more"],
    ),
];

fn min_values(key: &str, count: u32) -> Value {
    json!({"template": {"spec": {"requirements": [{"key": key, "operator": "Exists", "minValues": count}]}}})
}
