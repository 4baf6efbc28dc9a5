//! Headroom: a node that is opened anyway grows for the pods that come next, where the demand of
//! its pool grows.

use std::sync::Arc;

use outrigger_model::{DemandSample, Plan, Quantity, Report, Resources, Snapshot, labels};
use outrigger_planning::provision;
use outrigger_policy::Options;
use outrigger_referee as referee;
use proptest::prelude::*;
use serde_json::json;

use crate::consolidation::{managed_node, world_of};
use crate::fixtures::{planned, pods, spec};
use crate::properties::any_snapshot;

/// Ten full nodes of 4 processors, to which some have come within the last hour, and so many pods
/// of one processor that wait.
fn growing(from_millis: u64, waiting: usize) -> Snapshot {
    let nodes = (0..10).map(|number| {
        let name = format!("n{number}");
        (managed_node(&name, "c6a.xlarge"), pods(&name, 3, spec(1_200, 1_024)))
    });
    let mut snapshot = world_of(json!({}), nodes.collect());
    snapshot.pods.extend(pods("new", waiting, spec(1_000, 1_024)));
    remember(&mut snapshot, "default", from_millis);
    snapshot
}

/// An hour ago a pool's pods asked for so much.
fn remember(snapshot: &mut Snapshot, pool: &str, cpu_millis: u64) {
    let at = snapshot.taken_at - jiff::SignedDuration::from_hours(1);
    snapshot.demand.insert(pool.to_owned(), vec![DemandSample { at, cpu_millis }]);
}

/// For how many pods more the nodes of a plan are bought.
fn headroom(report: &Report) -> u32 {
    report.nodes.iter().map(|node| node.headroom).sum()
}

fn without(snapshot: &Snapshot) -> (Plan, Report) {
    provision(snapshot, &Options { headroom: 0, ..Options::default() })
}

#[test]
fn a_node_for_one_pod_has_room_for_those_that_come_next() {
    let snapshot = growing(20_000, 1);
    let (plan, report) = planned(&snapshot);
    let (usual, _) = without(&snapshot);
    assert_eq!((plan.nodes.len(), usual.nodes.len()), (1, 1));
    assert_eq!(plan.nodes[0].pods, usual.nodes[0].pods, "nobody is nominated but the pod that waits");
    // An eighth of 36 processors are three pods of 1.2; two of them cost least on the node.
    assert_eq!(headroom(&report), 2, "{plan:#?}");
    let cpu = |plan: &Plan| plan.nodes[0].allocatable.get("cpu").milli_value();
    assert!(cpu(&plan) >= cpu(&usual) + 2_000, "{} {}", cpu(&plan), cpu(&usual));
    assert_eq!(plan.existing, usual.existing);
}

#[test]
fn nothing_is_bought_without_a_reason() {
    type Change = fn(&mut Snapshot);
    let table: [(&str, Change); 8] = [
        ("nobody remembers", |snapshot| snapshot.demand.clear()),
        ("it has not grown", |snapshot| remember(snapshot, "default", 36_000)),
        ("it has fallen", |snapshot| remember(snapshot, "default", 50_000)),
        ("another pool has grown", |snapshot| {
            snapshot.demand.clear();
            remember(snapshot, "other", 1_000);
        }),
        ("the pool wants none", |snapshot| {
            snapshot.node_pools[0].annotations.insert(labels::HEADROOM.into(), "0".into());
        }),
        ("the pool has no more", |snapshot| {
            snapshot.node_pools[0].spec.limits = Some(Resources::new().with("cpu", Quantity::units(42)));
        }),
        ("nodes have room", |snapshot| {
            let free = managed_node("free", "c6a.2xlarge");
            snapshot.nodes.push(free);
        }),
        ("pods ask for what few nodes have", |snapshot| {
            let requests = snapshot.pods[0].spec.requests.clone().with("nvidia.com/gpu", Quantity::units(1));
            let mut spec = (*snapshot.pods[0].spec).clone();
            spec.requests = requests;
            snapshot.pods[0].spec = Arc::new(spec);
        }),
    ];
    for (what, change) in table {
        let mut snapshot = growing(20_000, 1);
        change(&mut snapshot);
        let (plan, report) = planned(&snapshot);
        assert_eq!(headroom(&report), 0, "{what}");
        assert_eq!((plan, report), without(&snapshot), "{what}");
    }
    let (plan, _) = planned(&growing(20_000, 0));
    assert!(plan.nodes.is_empty(), "a forecast alone launches nothing");
}

#[test]
fn headroom_is_what_has_come_and_no_more_than_is_allowed() {
    for (from, annotation, expected) in
        [(35_000, None, 0), (33_000, None, 2), (0, None, 2), (0, Some("2"), 1)]
    {
        let mut snapshot = growing(from, 1);
        let pool = &mut snapshot.node_pools[0];
        pool.annotations.extend(annotation.map(|cpus| (labels::HEADROOM.to_owned(), cpus.to_owned())));
        let (_, report) = planned(&snapshot);
        assert_eq!(headroom(&report), expected, "{from} {annotation:?}");
    }
}

proptest! {
    /// Whatever a cluster holds: each pod goes where it would go without, no node is opened more,
    /// and what is bought is sound.
    #[test]
    fn headroom_moves_no_pod(mut snapshot in any_snapshot(), from in 0..20_000_u64) {
        for name in ["a", "b"] {
            remember(&mut snapshot, name, from);
        }
        let (plan, report) = provision(&snapshot, &Options { headroom: 1_000, ..Options::default() });
        let (plain, plain_report) = without(&snapshot);
        let broken: Vec<String> =
            referee::check_with_report(&snapshot, &plan, &report).iter().map(ToString::to_string).collect();
        prop_assert!(broken.is_empty(), "{broken:#?}");
        prop_assert_eq!(&plan.existing, &plain.existing);
        let mut with: Vec<_> = plan.nodes.iter().map(|node| &node.pods).collect();
        let mut alone: Vec<_> = plain.nodes.iter().map(|node| &node.pods).collect();
        with.sort();
        alone.sort();
        prop_assert_eq!(with, alone);
        prop_assert_eq!(report.unplaced().count(), plain_report.unplaced().count());
    }
}
