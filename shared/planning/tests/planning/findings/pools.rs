//! Pools with a fixed number of nodes, and pools that overflow into others.

use std::sync::Arc;

use jiff::SignedDuration;
use outrigger_model::fixtures::instance;
use outrigger_model::resources::CPU;
use outrigger_model::{
    ClaimState, Command, Plan, PlannedNode, Quantity, Snapshot, TerminationReason, labels,
};
use serde_json::{Value, json};

use super::all_placed;
use crate::fixtures::{cluster, machine, node, planned, pods, pool, requiring, spec, with_plan};

const FAMILY: &str = "karpenter.k8s.aws/instance-family";

/// A cluster with one pool of three nodes that has this patch over its spec.
fn with_static_pool(patch: Value) -> Snapshot {
    let mut snapshot = cluster();
    let mut fixed = pool("fixed", patch);
    fixed.spec.replicas = Some(3);
    snapshot.node_pools.push(fixed);
    snapshot
}

/// What a pool may require of its types, each with the types that meet it.
fn narrowings() -> Vec<(Value, &'static [&'static str])> {
    vec![
        (requiring(&[(labels::INSTANCE_TYPE, "In", &["m6a.large"])]), &["m6a.large"]),
        (requiring(&[(FAMILY, "In", &["g5"])]), &["g5.xlarge"]),
        (requiring(&[(FAMILY, "In", &["r6a"])]), &["r6a.large", "r6a.xlarge", "r6a.2xlarge"]),
        (requiring(&[(labels::ARCH, "In", &["arm64"])]), &["m6g.large", "m6g.xlarge"]),
        (
            requiring(&[(FAMILY, "In", &["c6a"]), (labels::CAPACITY_TYPE, "In", &["on-demand"])]),
            &["c6a.large", "c6a.xlarge", "c6a.2xlarge"],
        ),
    ]
}

#[track_caller]
fn assert_types(plan: &Plan, allowed: &[&str]) {
    let offered = plan.nodes.iter().flat_map(|node| &node.instance_types);
    let strange: Vec<&str> =
        offered.map(|kind| kind.name.as_str()).filter(|name| !allowed.contains(name)).collect();
    assert_eq!(strange, Vec::<&str>::new());
}

// F2
#[test]
fn a_static_pool_has_its_replicas_however_its_types_are_narrowed() {
    let mut counts = Vec::new();
    for (patch, types) in narrowings() {
        let (plan, _) = planned(&with_static_pool(patch));
        assert_types(&plan, types);
        counts.push((plan.nodes.len(), types));
    }
    assert!(counts.iter().all(|(nodes, _)| *nodes == 3), "{counts:?}");
}

// F2: whether or not pods wait for other pools.
#[test]
fn a_narrow_static_pool_has_its_replicas_beside_a_pool_for_pods() {
    let mut counts = Vec::new();
    for (patch, types) in narrowings() {
        let mut snapshot = with_static_pool(patch);
        snapshot.node_pools.push(pool("default", json!({})));
        snapshot.pods = pods("web", 2, spec(500, 512));
        counts.push((of_pool(&all_placed(&snapshot), "fixed").len(), types));
    }
    assert!(counts.iter().all(|(nodes, _)| *nodes == 3), "{counts:?}");
}

// F2: Karpenter counts what is there and launches the rest.
#[test]
fn a_narrow_static_pool_gets_only_the_nodes_that_it_lacks() {
    let mut snapshot = with_static_pool(requiring(&[(labels::INSTANCE_TYPE, "In", &["m6a.large"])]));
    let mut there = node("i-1", "m6a.large");
    there.labels.insert(labels::NODE_POOL.into(), "fixed".into());
    snapshot.nodes.push(there);
    assert_eq!(planned(&snapshot).0.nodes.len(), 2);
}

type Change<'c> = &'c dyn Fn(&mut Snapshot);

// Karpenter counts no node that is on its way out; one that a command is to replace is replaced
// before it goes.
#[test]
fn a_static_pool_has_its_replicas_beside_the_nodes_that_go() {
    let hold = |snapshot: &mut Snapshot| {
        let claims = vec![snapshot.claims[0].name.clone()];
        let command = Command::new(TerminationReason::Rebalanced, "test", claims, snapshot.taken_at);
        snapshot.claims[0].status.command = Some(command.id.clone());
        snapshot.commands.push(command);
    };
    // What becomes of one of three nodes, and how many are launched.
    let table: [(&str, Change<'_>, usize); 6] = [
        ("nothing", &|_| {}, 0),
        ("it drains", &|snapshot| snapshot.claims[0].status.state = ClaimState::Draining, 1),
        ("its instance ends", &|snapshot| snapshot.claims[0].status.state = ClaimState::Terminating, 1),
        ("its node is deleted", &|snapshot| snapshot.nodes[0].deleting = true, 1),
        ("a command holds it", &hold, 1),
        (
            "a command held it",
            &|snapshot| {
                hold(snapshot);
                snapshot.commands[0].since -= SignedDuration::from_mins(10);
            },
            0,
        ),
    ];
    for (what, change, expected) in table {
        let mut snapshot = joined(&with_static_pool(json!({})));
        change(&mut snapshot);
        let (plan, _) = planned(&snapshot);
        assert_eq!(plan.nodes.len(), expected, "{what}");
    }
}

/// The world once all that is planned has joined.
fn joined(snapshot: &Snapshot) -> Snapshot {
    let mut next = with_plan(snapshot, &planned(snapshot).0);
    for (at, claim) in next.claims.iter_mut().enumerate() {
        let mut node = node(&format!("i-{at}"), "m6a.large");
        node.labels.insert(labels::NODE_POOL.into(), claim.spec.node_pool.clone());
        node.labels.insert(labels::INITIALIZED.into(), "true".into());
        node.annotations.insert(labels::CLAIM.into(), claim.name.clone());
        claim.status.state = ClaimState::Initialized;
        claim.status.node_name = Some(node.name.clone());
        claim.status.instance = Some(instance(&node.name));
        next.nodes.push(node);
    }
    next
}

/// A pool of weight 100 with a limit, one of weight 1 without, both of one family up to 96 cpus,
/// and pods of one cpu.
fn overflowing(limits: &Value, count: usize) -> Snapshot {
    let mut snapshot = cluster();
    let sizes = [("large", 2), ("xlarge", 4), ("2xlarge", 8), ("4xlarge", 16), ("24xlarge", 96)];
    let machines = sizes.map(|(size, cpus)| {
        machine(&format!("m5.{size}"), "amd64", cpus, cpus * 4, 48 * cpus.unsigned_abs())
    });
    snapshot.classes[0].instance_types = Arc::new(machines.into());
    let mut heavy = pool("heavy", json!({"limits": limits}));
    heavy.spec.weight = Some(100);
    let mut light = pool("light", json!({}));
    light.spec.weight = Some(1);
    snapshot.node_pools = vec![heavy, light];
    snapshot.pods = pods("web", count, spec(1_000, 512));
    snapshot
}

fn of_pool<'p>(plan: &'p Plan, pool: &str) -> Vec<&'p PlannedNode> {
    plan.nodes.iter().filter(|node| node.spec.node_pool == pool).collect()
}

/// How many pods are on a pool's new nodes.
fn carried(plan: &Plan, pool: &str) -> usize {
    of_pool(plan, pool).iter().map(|node| node.pods.len()).sum()
}

// F3: machines of 16 and 4 cpus carry 18 pods beside what the kubelet keeps.
#[test]
fn a_heavier_pool_is_filled_up_to_its_limit_before_a_lighter_one_is_used() {
    for count in [30, 100, 190] {
        let plan = all_placed(&overflowing(&json!({"cpu": "20"}), count));
        let cpus: Quantity = of_pool(&plan, "heavy").iter().map(|node| node.reserved.get(CPU)).sum();
        assert!(cpus > Quantity::units(18), "of {count} pods: {cpus} of 20 are used, and a machine has 2");
        let carried = carried(&plan, "heavy");
        assert!(carried >= 15, "{carried} of {count} pods are in the heavier pool");
    }
}

// F3
#[test]
fn a_heavier_pool_has_as_many_nodes_as_its_limit_allows() {
    for count in [200, 300] {
        let plan = all_placed(&overflowing(&json!({"nodes": "2"}), count));
        assert_eq!(of_pool(&plan, "heavy").len(), 2);
        assert_eq!(carried(&plan, "heavy"), 190, "two machines of 96 cpus carry 95 of {count} pods each");
    }
}

// F3: a limit that does not bind changes nothing.
#[test]
fn a_lighter_pool_is_not_used_while_the_heavier_one_has_room() {
    let plan = all_placed(&overflowing(&json!({"cpu": "20"}), 12));
    assert_eq!(of_pool(&plan, "light").len(), 0);
}

// F3: 7 pods fit a machine of 8 cpus, 15 one of 16; smaller machines carry fewer.
#[test]
fn pools_overflow_in_the_order_of_their_weights() {
    let mut snapshot = overflowing(&json!({"cpu": "8"}), 100);
    let mut middle = pool("middle", json!({"limits": {"cpu": "16"}}));
    middle.spec.weight = Some(50);
    snapshot.node_pools.push(middle);
    let plan = all_placed(&snapshot);
    assert_eq!((carried(&plan, "heavy"), carried(&plan, "middle"), carried(&plan, "light")), (7, 15, 78));
}
