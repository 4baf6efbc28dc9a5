//! Rules about all planned nodes together: reservations, overlays, limits, fixed pools, buffers, minValues.

use std::sync::Arc;

use outrigger_model::pod::HostPort;
use outrigger_model::{
    CapacityBuffer, CapacityType, ClaimState, NodeClaim, NodeOverlay, Offering, Price, PriceOverlay,
    Quantity, Requirement, Requirements, Reservation, Resources, labels,
};
use serde_json::{Value, json};

use super::purchases::{change, simple, with_pool};
use super::stage::{Case, Stage, case};
use crate::fixtures::{daemon_set, spec};

const A: &str = "us-east-1a";
const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const FUSE: &str = "smarter-devices/fuse";

pub(super) fn cases() -> Vec<Case> {
    [RESERVATIONS_AND_OVERLAYS, WHOLES].concat()
}

/// Two pods on two reserved nodes, out of two reservations of one instance each.
fn reserved() -> Stage {
    let mut stage = Stage::new().wait("web", 2, json!({}));
    change(&mut stage, |types| {
        let large = types.iter_mut().find(|t| t.name == "m6a.large").unwrap();
        large.offerings.extend(["cr-1", "cr-2"].map(|id| Offering {
            zone: A.into(),
            capacity_type: CapacityType::Reserved,
            price: Price::from_nanos(1_000),
            available: true,
            reservation: Some(Reservation { id: id.into(), count: 1 }),
        }));
    });
    for (node, pod, id) in [("default-a", "web-0", "cr-1"), ("default-b", "web-1", "cr-2")] {
        stage = stage.plan_as(node, &["m6a.large"], CapacityType::Reserved, &[A], &[pod]);
        let planned = stage.plan.nodes.last_mut().unwrap();
        planned.instance_types[0].offerings.truncate(1);
        planned.requirements.add(labels::RESERVATION_ID, Requirement::exactly(id));
    }
    stage
}

fn overlay(name: &str, weight: u32, price: Option<i64>, fuses: i64) -> NodeOverlay {
    let requirements = Requirements::new().with(labels::INSTANCE_TYPE, Requirement::exactly("m6a.large"));
    let capacity = Resources::new().with(FUSE, Quantity::units(fuses));
    NodeOverlay { name: name.into(), weight, requirements, price: price.map(PriceOverlay::Add), capacity }
}

/// A pod that needs a device which only an overlay gives, on a type whose price another overlay changes.
fn overlaid() -> Stage {
    let mut stage = Stage::new().wait("web", 1, json!({"requests": {FUSE: "2"}})).plan_as(
        "default-a",
        &["m6a.large"],
        CapacityType::OnDemand,
        &[A],
        &["web-0"],
    );
    stage.snapshot.overlays =
        vec![overlay("b", 5, Some(7), 2), overlay("c", 5, Some(9), 3), overlay("a", 1, Some(1), 4)];
    let node = &mut stage.plan.nodes[0];
    node.price += Price::from_nanos(7);
    node.instance_types[0].offerings[0].price = node.price;
    node.reserved.set(FUSE, Quantity::units(2));
    stage
}

/// A pool of two nodes: one is there, one is planned.
fn fixed() -> Stage {
    let mut stage = Stage::with_pool(json!({"replicas": 2}))
        .plan("default-x", &[A], &[])
        .plan("default-y", &[A], &[])
        .launched();
    stage.snapshot.claims[1].state = ClaimState::Draining;
    stage.plan("default-a", &[A], &[]).wait("web", 1, json!({}))
}

/// A node for the pods of a buffer alone.
fn buffered() -> Stage {
    let mut stage = Stage::new().plan("default-a", &[A], &[]);
    let id = stage.clone().wait("spare", 1, json!({})).pod("spare-0").id.clone();
    let spec = Arc::new(spec(3_000, 128));
    stage.snapshot.buffers.push(CapacityBuffer { id, count: 1, spec, labels: Arc::default() });
    stage
}

const DEARER: &str = "claim default-a: m6a.large on-demand in us-east-1a cannot be had as offered";

const RESERVATIONS_AND_OVERLAYS: &[Case] = &[
    case(
        "a reservation has so much room",
        reserved,
        |stage| {
            let both = Requirement::any_of(["cr-1", "cr-2"]);
            stage.plan.nodes[0].requirements.remove(labels::RESERVATION_ID);
            stage.plan.nodes[0].requirements.add(labels::RESERVATION_ID, both);
        },
        &["capacity reservation cr-2: 2 planned nodes may draw on it; allowed: 1"],
    ),
    case(
        "the least that is said of its room counts",
        reserved,
        |stage| {
            let types = &mut stage.snapshot.classes[0].instance_types;
            let mut more = (**types).clone();
            let large = more.iter().find(|t| t.name == "m6a.large").unwrap();
            let mut smaller = large.offerings.iter().rfind(|o| o.reservation.is_some()).unwrap().clone();
            smaller.reservation = Some(Reservation { id: "cr-2".into(), count: 0 });
            more.last_mut().unwrap().offerings.push(smaller);
            *types = Arc::new(more);
        },
        &["capacity reservation cr-2: 1 planned nodes may draw on it; allowed: 0"],
    ),
    case(
        "a reserved node names its reservations",
        reserved,
        |stage| {
            stage.plan.nodes[0].requirements.remove(labels::RESERVATION_ID);
        },
        &[
            "claim default-a: it is reserved and names no reservation",
            "claim default-a: m6a.large reserved in us-east-1a cannot be had as offered",
        ],
    ),
    case(
        "it is bought out of those that it names",
        reserved,
        |stage| {
            stage.plan.nodes[0].requirements.remove(labels::RESERVATION_ID);
            stage.plan.nodes[0].requirements.add(labels::RESERVATION_ID, Requirement::exactly("cr-3"));
        },
        &[
            "capacity reservation cr-3: 1 planned nodes may draw on it; allowed: 0",
            "claim default-a: m6a.large reserved in us-east-1a cannot be had as offered",
        ],
    ),
    case(
        "the heaviest overlay's price counts",
        overlaid,
        |stage| stage.snapshot.overlays[2].weight = 9,
        &["claim default-a: it reserves less smarter-devices/fuse than m6a.large has", DEARER],
    ),
    case(
        "between equals the first by name",
        overlaid,
        |stage| {
            stage.snapshot.overlays[0].name = "d".into();
            stage.snapshot.overlays[0].capacity = Resources::new();
            stage.snapshot.overlays[1].capacity = Resources::new().with(FUSE, Quantity::units(2));
        },
        &[DEARER],
    ),
    case(
        "an overlay is for what it names",
        overlaid,
        |stage| {
            for overlay in &mut stage.snapshot.overlays {
                overlay.requirements.add(labels::NODE_POOL, Requirement::exactly("other"));
            }
        },
        &[DEARER, "default-a: smarter-devices/fuse 2 is asked of it; allowed: 0 as m6a.large"],
    ),
    case(
        "an overlay's devices are counted",
        overlaid,
        |stage| {
            stage.snapshot.overlays[0].capacity = Resources::new().with(FUSE, Quantity::units(1));
        },
        &["default-a: smarter-devices/fuse 2 is asked of it; allowed: 1 as m6a.large"],
    ),
];

const USELESS: &[&str] = &["claim default-a: it has no pods, and no pod of a capacity buffer needs it"];

const WHOLES: &[Case] = &[
    case(
        "limits hold for the largest types",
        || with_pool(json!({"limits": {"cpu": "4"}})),
        |stage| {
            stage.snapshot.node_pools[0].spec.limits = Some(Resources::new().with("cpu", Quantity::units(3)));
        },
        &["NodePool default: cpu 4 after the plan; allowed: 3"],
    ),
    case(
        "limits count nodes, claims and what is planned",
        || {
            let mut stage = with_pool(json!({"limits": {"nodes": "3"}})).node("i-1", A, &[]);
            stage.snapshot.nodes[0].labels.insert(labels::NODE_POOL.into(), "default".into());
            let other = simple().launched().snapshot.claims.remove(0);
            stage.snapshot.claims.push(NodeClaim { name: "default-b".into(), ..other });
            stage
        },
        |stage| {
            stage.snapshot.node_pools[0].spec.limits =
                Some(Resources::new().with("nodes", Quantity::units(2)));
        },
        &["NodePool default: nodes 3 after the plan; allowed: 2"],
    ),
    case(
        "a fixed pool has so many nodes",
        fixed,
        |stage| stage.snapshot.node_pools[0].spec.replicas = Some(1),
        &["NodePool default: 2 nodes after the plan; allowed: 1, its replicas"],
    ),
    case(
        "new nodes of a fixed pool carry no pods",
        fixed,
        |stage| {
            stage.plan.nodes = stage.clone().plan("default-a", &[A], &["web-0"]).plan.nodes.split_off(1);
        },
        &["claim default-a: it has pods, but its pool has a fixed number of nodes"],
    ),
    case("a node without pods is for a buffer", buffered, |stage| stage.snapshot.buffers.clear(), USELESS),
    case(
        "which its room serves",
        buffered,
        |stage| {
            stage.snapshot.buffers[0].spec = Arc::new(spec(5_000, 128));
        },
        USELESS,
    ),
    case(
        "and of which there are as many",
        || {
            let mut stage = buffered().plan("default-b", &[A], &[]);
            stage.snapshot.buffers[0].count = 2;
            stage
        },
        |stage| stage.snapshot.buffers[0].count = 1,
        &["claim default-b: it has no pods, and no pod of a capacity buffer needs it"],
    ),
    case(
        "a buffer's ports are its own",
        buffered,
        |stage| {
            let mut wanting = (*stage.snapshot.buffers[0].spec).clone();
            wanting.host_ports.push(HostPort { ip: String::new(), port: 80, protocol: "TCP".into() });
            stage.snapshot.daemon_sets.push(daemon_set("proxy", {
                let mut proxy = spec(1, 1);
                proxy.host_ports.clone_from(&wanting.host_ports);
                proxy
            }));
            stage.snapshot.buffers[0].spec = Arc::new(wanting);
        },
        USELESS,
    ),
    case(
        "minValues are kept",
        || with_pool(min_values(FAMILY, 1)),
        |stage| {
            stage.snapshot.node_pools[0].spec.template.spec.requirements[0].min_values = Some(2);
        },
        &["claim default-a: it keeps 1 values of karpenter.k8s.aws/instance-family; allowed: 2 or more"],
    ),
    case(
        "unless the claim says that they are not",
        || {
            let mut stage = with_pool(min_values(FAMILY, 3));
            stage.plan.nodes[0].annotations.insert(labels::MIN_VALUES_RELAXED.into(), "true".into());
            stage
        },
        |stage| {
            drop(stage.plan.nodes[0].annotations.insert(labels::MIN_VALUES_RELAXED.into(), "false".into()));
        },
        &["claim default-a: it keeps 1 values of karpenter.k8s.aws/instance-family; allowed: 3 or more"],
    ),
    case(
        "minValues of zones are those that the types are sold in",
        || with_pool(min_values(labels::ZONE, 3)),
        |stage| {
            change(stage, |types| {
                let sold = types.iter_mut().flat_map(|t| &mut t.offerings);
                sold.filter(|offering| offering.zone == "us-east-1c")
                    .for_each(|offering| offering.available = false);
            });
        },
        &["claim default-a: it keeps 2 values of topology.kubernetes.io/zone; allowed: 3 or more"],
    ),
    case(
        "and only those that the pool allows",
        || {
            let mut patch = min_values(labels::ZONE, 2);
            let requirement = &mut patch["template"]["spec"]["requirements"][0];
            requirement["operator"] = json!("In");
            requirement["values"] = json!([A, "us-east-1b"]);
            Stage::with_pool(patch).wait("web", 1, json!({})).plan("default-a", &[A], &["web-0"])
        },
        |stage| {
            change(stage, |types| {
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
