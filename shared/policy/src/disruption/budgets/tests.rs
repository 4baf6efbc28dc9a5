//! Which nodes count against a budget, and which budget counts.

use outrigger_model::{ClaimState, Taint, labels};

use super::*;
use crate::disruption::fixtures::{World, budget};

#[test]
fn the_least_matching_budget_less_what_is_disrupted_already() {
    use DisruptionReason::{Drifted, Empty, Underutilized};
    let only = |nodes: &str, reason| Budget { reasons: Some(vec![reason]), ..budget(nodes) };
    // The budgets, the nodes, how many of them are not ready, the reason, and how many may be
    // disrupted.
    let table = [
        (vec![budget("10%")], 10, 0, Empty, 1),
        (vec![budget("10%")], 11, 0, Empty, 2),
        (vec![budget("10%")], 1, 0, Empty, 1),
        (vec![budget("10%")], 10, 1, Empty, 0),
        (vec![budget("10%")], 0, 0, Empty, 0),
        (vec![budget("100%")], 10, 3, Empty, 7),
        (vec![budget("5"), budget("3")], 10, 1, Empty, 2),
        (vec![only("5", Empty), only("3", Drifted)], 10, 0, Empty, 5),
        (vec![only("5", Empty), only("3", Drifted)], 10, 0, Drifted, 3),
        (vec![only("5", Empty), only("3", Drifted)], 10, 1, Underutilized, 9),
        (vec![only("0", Empty), budget("50%")], 10, 0, Empty, 0),
        (vec![], 10, 0, Empty, 10),
        (vec![budget("many")], 10, 0, Empty, 0),
    ];
    for (budgets, nodes, unready, reason, expected) in table {
        let mut world = World::of_nodes(nodes);
        world.pool().spec.disruption.budgets.clone_from(&budgets);
        world.snapshot.nodes.iter_mut().take(unready).for_each(|node| node.ready = false);
        let allowance = Budgets::new(&world.snapshot).allowance("web", reason);
        assert_eq!(allowance.remaining, expected, "{budgets:?} {nodes} {unready} {reason:?}");
    }
}

#[test]
fn a_pool_has_one_budget_of_ten_percent_unless_it_says_otherwise() {
    let world = World::of_nodes(21);
    let allowance = Budgets::new(&world.snapshot).allowance("web", DisruptionReason::Empty);
    assert_eq!(allowance, Allowance { remaining: 3, at_once: 3, disrupting: 0, closed: None });
    let unknown = Budgets::new(&world.snapshot).allowance("other", DisruptionReason::Empty);
    assert_eq!(unknown.remaining, 0);
}

#[test]
fn drift_comes_in_waves_where_its_pool_says_so() {
    use DisruptionReason::{Drifted, Empty};
    type Change = fn(&mut World);
    fn drifts(world: &mut World) {
        world.annotate(labels::NODE_POOL_HASH, "v1-1");
    }
    // What is true of one of ten nodes, of which any budget allows six at once; the wave, the
    // reason, and what is left.
    let table: [(&str, Change, &str, DisruptionReason, usize); 8] = [
        ("nothing", |_| {}, "2", Drifted, 2),
        ("nothing", |_| {}, "2", Empty, 6),
        ("nothing", |_| {}, "9", Drifted, 6),
        ("it has drifted", drifts, "2", Drifted, 2),
        ("it has drifted and is held", |world| (drifts(world), world.hold(0)).1, "2", Drifted, 1),
        (
            "it has drifted and drains",
            |world| (drifts(world), world.set_state(ClaimState::Draining)).1,
            "1",
            Drifted,
            0,
        ),
        ("it is held", |world| world.hold(0), "2", Drifted, 2),
        ("it has drifted and is held", |world| (drifts(world), world.hold(0)).1, "2", Empty, 5),
    ];
    for (what, change, wave, reason, expected) in table {
        let mut world = World::of_nodes(10);
        world.pool().spec.disruption.budgets = vec![budget("6")];
        world.pool().annotations.insert(labels::DRIFT_AT_ONCE.into(), wave.into());
        change(&mut world);
        let allowance = Budgets::new(&world.snapshot).allowance("web", reason);
        assert_eq!(allowance.remaining, expected, "{what} {wave} {reason:?}");
    }
}

#[test]
fn nodes_that_are_going_count_whatever_the_reason() {
    type Change = fn(&mut World);
    // What is true of one of ten nodes, and how many nodes and disrupted nodes there are then.
    let table: [(&str, Change, usize, usize); 9] = [
        ("nothing", |_| {}, 10, 0),
        ("it drains", |world| world.set_state(ClaimState::Draining), 10, 1),
        ("it terminates", |world| world.set_state(ClaimState::Terminating), 9, 1),
        ("it is deleted", |world| world.node().deleting = true, 10, 1),
        ("it is closed", |world| world.node().taints.push(Taint::disrupted()), 10, 1),
        ("a command holds it", |world| world.hold(0), 10, 1),
        ("an old command holds it", |world| world.hold(-3_600), 10, 0),
        ("it is another pool's", |world| world.set_label(labels::NODE_POOL, "other"), 9, 0),
        ("it starts", |world| world.uninitialize(), 9, 0),
    ];
    for (what, change, nodes, disrupting) in table {
        let mut world = World::of_nodes(10);
        world.pool().spec.disruption.budgets = vec![budget("100%")];
        change(&mut world);
        let allowance = Budgets::new(&world.snapshot).allowance("web", DisruptionReason::Drifted);
        assert_eq!((allowance.at_once, allowance.disrupting), (nodes, disrupting), "{what}");
    }
}

#[test]
fn a_budget_of_none_says_until_when() {
    let hours = |nodes: &str, schedule: &str, duration: &str| Budget {
        schedule: Some(schedule.into()),
        duration: Some(duration.into()),
        ..budget(nodes)
    };
    // The worlds of these tests are of 20 November 2026, noon.
    let until = |time: &str| Some(Closed::Until(format!("2026-11-{time}:00Z").parse().unwrap()));
    let table = [
        (vec![budget("1")], None, 1),
        (vec![budget("0")], Some(Closed::Always), 0),
        (vec![hours("0", "0 9 * * *", "8h")], until("20T17:00"), 0),
        (vec![hours("0", "0 13 * * *", "8h")], None, 10),
        (vec![hours("0", "0 9 * * *", "8h"), hours("0%", "0 6 * * *", "18h")], until("21T00:00"), 0),
        (vec![hours("0", "0 9 * * *", "8h"), budget("0")], Some(Closed::Always), 0),
        (vec![hours("0", "bad", "8h"), budget("0")], Some(Closed::Unreadable), 0),
        (vec![hours("5", "0 9 * * *", "8h"), budget("7")], None, 5),
    ];
    for (budgets, closed, at_once) in table {
        let mut world = World::of_nodes(10);
        world.pool().spec.disruption.budgets.clone_from(&budgets);
        let allowance = Budgets::new(&world.snapshot).allowance("web", DisruptionReason::Empty);
        assert_eq!((allowance.closed, allowance.at_once), (closed, at_once), "{budgets:?}");
        let kept = allowance.kept(world.snapshot.taken_at);
        assert_eq!(kept.is_none(), at_once > 0, "{kept:?}");
    }
}
