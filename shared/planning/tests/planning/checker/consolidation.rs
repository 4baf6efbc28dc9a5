//! Consolidations made by hand, broken in one way at a time: nothing here asks the planner.

mod ended;

use outrigger_model::node_pool::DisruptionReason;
use outrigger_model::{
    CapacityType, ClaimState, ExistingPlacement, Node, NodeClaim, NodeClaimStatus, NominatedPod, Pod,
    PodDisruptionBudget, Price, Snapshot, Taint, Target, fixtures, labels,
};
use outrigger_policy::Options;
use outrigger_policy::disruption::{Consolidation, ConsolidationCommand, NodeCost};
use outrigger_referee::check_consolidation;
use serde_json::{Value, json};

use super::setup::{Setup, anti_affinity};
use crate::fixtures::{merge, pool};

const A: &str = "us-east-1a";
const B: &str = "us-east-1b";
/// Nano-dollars per hour of an m6a.xlarge and an m6a.large on demand.
const XLARGE: u64 = 172_000_000;
const LARGE: u64 = 86_000_000;

/// A cluster and what is to become of it.
struct World {
    snapshot: Snapshot,
    consolidation: Consolidation,
}

/// The first command ends the empty node `i-d`, the second `i-a`, whose pods move to a new node and
/// to `i-c`, and the third `i-b`, whose pod moves to `i-c`, too.
fn world() -> World {
    let mut setup = Setup::with_pool(json!({"disruption": {"budgets": [{"nodes": "100%"}]}}))
        .node("i-a", A, &[("web", json!({})), ("api", json!({}))])
        .node("i-b", B, &[("db", json!({}))])
        .node("i-c", A, &[("old", json!({}))])
        .node("i-d", B, &[])
        .plan_as("default-x", &["m6a.large"], CapacityType::OnDemand, &[A], &["web-0"])
        .place_on(Target::Node("i-c".into()), &["api-0"])
        .place_on(Target::Node("i-c".into()), &["db-0"]);
    for node in &mut setup.snapshot.nodes {
        node.labels.insert(labels::NODE_POOL.into(), "default".into());
        node.labels.insert(labels::INITIALIZED.into(), "true".into());
    }
    let volume = setup.snapshot.classes[0].class.root_volume.price();
    setup.plan.nodes[0].node_price = volume;
    let [api, db] = &setup.plan.existing[..] else { panic!("two placements") };
    let saved = |nanos: u64| i64::try_from(nanos).unwrap();
    let commands = vec![
        command(DisruptionReason::Empty, "i-d", saved(XLARGE + volume.nanos())),
        ConsolidationCommand {
            replace_with: setup.plan.nodes.clone(),
            existing: vec![api.clone()],
            evictions: 2,
            ..command(DisruptionReason::Underutilized, "i-a", saved(XLARGE - LARGE))
        },
        ConsolidationCommand {
            existing: vec![db.clone()],
            evictions: 1,
            ..command(DisruptionReason::Underutilized, "i-b", saved(XLARGE + volume.nanos()))
        },
    ];
    let cost = |instances: u64, nodes: u64| NodeCost {
        instances: Price::from_nanos(instances),
        beside: Price::from_nanos(nodes * volume.nanos()),
    };
    let (before, after) = (cost(4 * XLARGE, 4), cost(XLARGE + LARGE, 2));
    World {
        snapshot: setup.snapshot,
        consolidation: Consolidation { before, after, commands, ..Consolidation::default() },
    }
}

fn command(reason: DisruptionReason, node: &str, saving_nanos: i64) -> ConsolidationCommand {
    ConsolidationCommand {
        reason,
        delete: vec![node.into()],
        replace_with: Vec::new(),
        existing: Vec::new(),
        saving_nanos,
        evictions: 0,
        lost: Vec::new(),
        causes: Vec::new(),
        starts_now: true,
        waits_for: None,
        patience: None,
        may_cost: None,
        proposed_since: None,
    }
}

impl World {
    fn violations(&self) -> Vec<String> {
        let violations = check_consolidation(&self.snapshot, &self.consolidation, &Options::default());
        violations.iter().map(ToString::to_string).collect()
    }

    /// A command by its number.
    fn command(&mut self, number: usize) -> &mut ConsolidationCommand {
        &mut self.consolidation.commands[number - 1]
    }

    fn node(&mut self, name: &str) -> &mut Node {
        self.snapshot.nodes.iter_mut().find(|node| node.name == name).unwrap()
    }

    fn pod(&mut self, name: &str) -> &mut Pod {
        self.snapshot.pods.iter_mut().find(|pod| pod.id.name == name).unwrap()
    }

    /// Gives a node a claim; its status.
    fn claim(&mut self, node: &str) -> &mut NodeClaimStatus {
        let planned = &self.consolidation.commands[1].replace_with[0];
        let mut claim = NodeClaim::planned(planned, "", self.snapshot.taken_at);
        claim.name = format!("default-of-{node}");
        claim.status.node_name = Some(node.into());
        claim.status.state = ClaimState::Initialized;
        self.snapshot.claims.push(claim);
        &mut self.snapshot.claims.last_mut().unwrap().status
    }

    /// Gives the pool `default` this patch over its spec.
    fn patch(&mut self, patch: Value) {
        let mut spec = json!({"disruption": {"budgets": [{"nodes": "100%"}]}});
        merge(&mut spec, patch);
        self.snapshot.node_pools[0] = pool("default", spec);
    }

    /// A budget that covers the pods of an app.
    fn budget(&mut self, app: &str, is_fully_blocking: bool, disruptions_allowed: Option<u32>) {
        let count = self.snapshot.disruption_budgets.len();
        self.snapshot.disruption_budgets.push(PodDisruptionBudget {
            selector: serde_json::from_value(json!({"matchLabels": {"app": app}})).unwrap(),
            is_fully_blocking,
            disruptions_allowed,
            ..fixtures::budget(&format!("budget-{count}"))
        });
    }
}

fn nominated(pod: &str) -> NominatedPod {
    NominatedPod { pod: fixtures::pod_ref(pod), uid: format!("uid-{}-00000", pod.trim_end_matches("-0")) }
}

/// A way to break it, and all that is found then.
type Fault = (&'static str, fn(&mut World), &'static [&'static str]);

#[track_caller]
fn check_faults(table: &[Fault]) {
    assert_eq!(world().violations(), [""; 0], "nothing is wrong with it as it is");
    let mut wrong = Vec::new();
    for (what, fault, expected) in table {
        let mut world = world();
        fault(&mut world);
        let violations = world.violations();
        if violations != *expected {
            wrong.push(format!("{what}: {violations:#?}, expected {expected:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_displaced_pod_has_one_place() {
    check_faults(&[
        (
            "no place",
            |world| world.command(2).existing.clear(),
            &["pod default/api-0: command 2 ends its node i-a and has no place for it; allowed: exactly one"],
        ),
        (
            "two places",
            |world| world.command(2).replace_with[0].pods.push(nominated("api-0")),
            &["pod default/api-0: found 2 times in the plan and its report; allowed: once"],
        ),
        (
            "a place in another command",
            |world| {
                let moved = world.command(3).existing.remove(0);
                world.command(2).existing.push(moved);
            },
            &[
                "command 2, which ends i-a: it places the pod default/db-0, which is on none of its nodes",
                "pod default/db-0: command 3 ends its node i-b and has no place for it; allowed: exactly one",
            ],
        ),
        (
            "a pod of a node that stays",
            |world| world.command(3).existing[0].pods.push(nominated("old-0")),
            &[
                "command 3, which ends i-b: it places the pod default/old-0, which is on none of its nodes",
                "pod default/old-0: placed on i-c; allowed: only pods of the snapshot that wait for a node",
            ],
        ),
        (
            "a number of evictions",
            |world| world.command(2).evictions = 3,
            &["command 2, which ends i-a: it tells of 3 evictions; found: 2"],
        ),
    ]);
}

#[test]
fn pods_move_to_nodes_that_stay_and_are_there_by_then() {
    check_faults(&[
        (
            "a node that an earlier command ends",
            |world| world.command(3).existing[0].target = Target::Node("i-d".into()),
            &[
                "command 3, which ends i-b: it places pods on i-d, which command 1 ends",
                "i-d: pods are placed on it, but there is no such node",
            ],
        ),
        (
            "a node that a later command ends",
            |world| world.command(2).existing[0].target = Target::Node("i-b".into()),
            &[
                "command 2, which ends i-a: it places pods on i-b, which command 3 ends",
                "i-b: pods are placed on it, but there is no such node",
            ],
        ),
        (
            "its own node",
            |world| world.command(3).existing[0].target = Target::Node("i-b".into()),
            &[
                "command 3, which ends i-b: it places pods on i-b, which command 3 ends",
                "i-b: pods are placed on it, but there is no such node",
            ],
        ),
        (
            "a node that is opened before",
            |world| world.command(3).existing[0].target = Target::Claim("default-x".into()),
            &[],
        ),
        (
            "a node that is opened later",
            |world| {
                world.command(3).existing[0].target = Target::Claim("default-x".into());
                world.consolidation.commands.swap(1, 2);
            },
            &["command 2, which ends i-b: it places pods on default-x, which command 3 opens only then"],
        ),
    ]);
}

#[test]
fn nothing_moves_to_a_node_that_is_leaving() {
    let mut world = world();
    world.node("i-c").taints.push(Taint::disrupted());
    let violations = world.violations();
    let expected = ["command 2, which ends i-a: it places pods on i-c, which is leaving"];
    assert!(expected.iter().all(|line| violations.contains(&(*line).to_owned())), "{violations:#?}");
}

#[test]
fn all_rules_hold_in_the_end() {
    check_faults(&[
        (
            "resources",
            |world| world.node("i-c").allocatable.set("cpu", outrigger_model::Quantity::millis(250)),
            &["i-c: cpu 200m is asked of it; allowed: 150m as it is"],
        ),
        (
            "pods about other pods",
            |world| {
                let spec = crate::fixtures::spec_with(100, 128, anti_affinity(labels::ZONE, "old"));
                world.pod("db-0").spec = spec.into();
            },
            &[
                "pod default/db-0: placed on i-c, against its pod anti-affinity over topology.kubernetes.io/zone: \
               1 such pods in us-east-1a",
            ],
        ),
        (
            "what is bought",
            |world| world.command(2).replace_with[0].zones = vec![B.into()],
            &[
                "claim default-x: its requirements exclude its zone us-east-1b",
                "claim default-x: m6a.large on-demand in us-east-1a cannot be had as offered",
            ],
        ),
        (
            "another place for what was there",
            |world| {
                let pods = vec![nominated("api-0")];
                let target = Target::Node("i-z".into());
                world.command(2).existing = vec![ExistingPlacement { target, pods }];
            },
            &["i-z: pods are placed on it, but there is no such node"],
        ),
    ]);
}

#[test]
fn the_savings_told_are_the_savings() {
    check_faults(&[
        (
            "of a command",
            |world| world.command(2).saving_nanos += 1,
            &[
                "command 2, which ends i-a: it tells of a saving of 86000001 nano-dollars per hour; found: 86000000",
            ],
        ),
        (
            "before",
            |world| world.consolidation.before.instances += Price::from_nanos(1),
            &["consolidation: the nodes before it are told to cost 688000001 and 56109588 nano-dollars per \
               hour beside; found: 688000000 and 56109588 nano-dollars per hour beside"],
        ),
        (
            "after",
            |world| world.consolidation.after.beside = Price::ZERO,
            &["consolidation: the nodes after it are told to cost 258000000 and 0 nano-dollars per hour \
               beside; found: 258000000 and 28054794 nano-dollars per hour beside"],
        ),
        (
            "a node is cheaper than it was",
            |world| drop(world.node("i-c").labels.insert(labels::CAPACITY_TYPE.into(), "spot".into())),
            &[
                "consolidation: the nodes after it are told to cost 258000000 and 28054794 nano-dollars per hour \
                 beside; found: 143333333 and 28054794 nano-dollars per hour beside",
                "consolidation: the nodes before it are told to cost 688000000 and 56109588 nano-dollars per hour \
                 beside; found: 573333333 and 56109588 nano-dollars per hour beside",
            ],
        ),
    ]);
}
