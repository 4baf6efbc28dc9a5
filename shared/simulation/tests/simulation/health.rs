//! Nodes that do not heal: replaced where that helps, left alone where too many are unwell at once.

use std::ops::RangeInclusive;

use outrigger_model::{ClaimState, TerminationReason};
use outrigger_simulation::EventKind::{ApiServerDown, DeleteDoubles, Mishap};
use outrigger_simulation::Mishap::{
    BreakHardware, CloseNodes, DuplicateNodes, FailStatusChecks, PlanRetirement, SilenceKubelets,
    StopInstances,
};
use outrigger_simulation::{Call, DisruptionBudget, Ending, Event, Function, Kill};

use crate::common::{self, Pool, Workload, World, at, max_unavailable, min_available, minutes, throttle};

/// One pool whose nodes are full with four pods each, and no repair.
fn unrepaired(budget: DisruptionBudget) -> World {
    World::new("health", minutes(12))
        .boot_time(25)
        .pool(Pool::new("general").of_m6a_large())
        .workload(Workload::new("web", 12, "500m", "1Gi").labelled())
        .budgets([budget])
}

/// The same with repair, and a budget that lets pods go one by one.
fn world() -> World {
    unrepaired(max_unavailable("web", 1)).set("nodeRepair", true)
}

/// Something befalls nodes after three minutes.
const fn befalls(mishap: outrigger_simulation::Mishap, count: usize) -> Event {
    at(minutes(3), Mishap(mishap, count))
}

/// Nothing was broken on the way, everything runs, and so many claims have ended for the reason.
fn check(ending: &Ending, reason: TerminationReason, count: usize) {
    let story = || common::timeline(ending);
    common::check_expected(ending, "");
    let over = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Gone);
    let for_it =
        over.filter(|claim| claim.status.termination.as_ref().is_some_and(|end| end.reason == reason));
    assert_eq!(for_it.count(), count, "{}", story());
    let living = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized).count();
    assert_eq!((living, living), (ending.nodes.len(), ending.instances.len()), "{}", story());
}

fn is_published(ending: &Ending, reason: &str, part: &str) -> bool {
    ending.published.iter().any(|(_, given, message)| *given == reason && message.contains(part))
}

#[test]
fn an_instance_whose_status_check_fails_is_replaced_whatever_its_pods_allow() {
    for budget in [max_unavailable("web", 1), min_available("web", 12)] {
        let ending = unrepaired(budget).events([befalls(FailStatusChecks, 1)]).play();
        check(&ending, TerminationReason::Unhealthy, 1);
        assert!(is_published(&ending, "Unhealthy", "system reachability"), "{:?}", ending.published);
    }
}

#[test]
fn an_instance_that_ec2_will_retire_is_drained_kindly() {
    let retiring = befalls(PlanRetirement, 2);
    check(&world().events([retiring.clone()]).play(), TerminationReason::Interrupted, 2);
    let held = unrepaired(min_available("web", 12)).set("nodeRepair", true).events([retiring]).play();
    let draining = held.claims.iter().filter(|claim| claim.status.state == ClaimState::Draining).count();
    assert_eq!(draining, 2, "{}", common::timeline(&held));
    assert!(is_published(&held, "FailedDraining", "budget web"), "{:?}", held.published);
}

#[test]
fn a_stopped_instance_is_lost_capacity() {
    let ending = world().duration(minutes(25)).events([befalls(StopInstances, 1)]).play();
    check(&ending, TerminationReason::Lost, 1);
}

#[test]
fn a_node_that_is_not_heard_of_is_repaired_after_half_an_hour() {
    let world = world().duration(minutes(42)).events([befalls(SilenceKubelets, 1)]);
    let ending = world.play();
    check(&ending, TerminationReason::Unhealthy, 1);
    let end = ending.claims.iter().find_map(|claim| claim.status.termination.clone()).unwrap();
    let after = end.since.duration_since("2026-01-01T00:00:00Z".parse().unwrap()).as_secs();
    assert!((33 * 60..36 * 60).contains(&after), "{after} s");
    let without = world.set("nodeRepair", false).play();
    assert!(without.claims.iter().all(|claim| claim.status.termination.is_none()), "repair is off");
}

#[test]
fn broken_accelerators_are_tolerated_for_ten_minutes() {
    let world = world().events([befalls(BreakHardware, 1)]);
    check(&world.clone().duration(minutes(17)).play(), TerminationReason::Unhealthy, 1);
    check(&world.play(), TerminationReason::Unhealthy, 0);
}

#[test]
fn many_unhealthy_nodes_of_a_pool_are_left_alone_and_named() {
    for mishap in [FailStatusChecks, BreakHardware] {
        let ending = world().duration(minutes(17)).events([befalls(mishap, 3)]).play();
        let story = common::timeline(&ending);
        assert!(ending.claims.iter().all(|claim| claim.status.termination.is_none()), "{story}");
        assert!(
            is_published(&ending, "NodeRepairBlocked", "3 of 3 nodes of NodePool general"),
            "{:?}",
            ending.published
        );
    }
}

#[test]
fn a_node_that_somebody_closed_and_left_is_opened_again() {
    let ending = world().events([befalls(CloseNodes, 2)]).play();
    let story = common::timeline(&ending);
    common::check_laws(&ending, "");
    assert!(ending.claims.iter().all(|claim| claim.status.termination.is_none()), "{story}");
    for node in &ending.nodes {
        assert!(node.taints.is_empty(), "{node:?}");
        assert!(!node.labels.contains_key("node.kubernetes.io/exclude-from-external-load-balancers"));
    }
}

#[test]
fn a_node_with_the_provider_id_of_another_is_told_of_and_its_deletion_ends_nothing() {
    let doubled = at(minutes(1), Mishap(DuplicateNodes, 1));
    let table = [vec![doubled.clone()], vec![doubled, at(minutes(5), DeleteDoubles)]];
    for events in table {
        let world = world().duration(minutes(25)).set("initializationTimeout", "5m");
        let ending = world.events(events).play();
        let story = common::timeline(&ending);
        common::check_laws(&ending, "");
        assert!(ending.claims.iter().all(|claim| claim.status.termination.is_none()), "{story}");
        assert!(is_published(&ending, "ForeignProviderID", "-again"), "{:?}", ending.published);
    }
}

#[test]
fn machines_with_less_memory_than_their_type_promises_are_told_of_and_learnt_from() {
    let fat = Workload::new("fat", 1, "100m", "2Gi").scale(&[(minutes(4), 7)]);
    let ending = world().set("memoryPercent", 80).workload(fat).play();
    let story = common::timeline(&ending);
    common::check_expected(&ending, "");
    assert!(is_published(&ending, "FailedConsistencyCheck", "memory"), "{:?}", ending.published);
    let short = |claim: &&outrigger_model::NodeClaim| claim.status.node_check.shortfall.is_some();
    assert_eq!(ending.claims.iter().filter(short).count(), ending.claims.len(), "{story}");
    let launches = ending.summary.timeline.iter().filter(|happening| happening.text.contains(": launched"));
    let late = launches.filter(|happening| happening.at.as_secs() > 60).count();
    assert_eq!(late, 1, "the second plan knows what the first nodes have\n{story}");
}

/// What has ended, and why, is the same whether or not lifecycle died, and so is what was learnt.
fn check_as(ending: &Ending, undisturbed: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    let over = |ending: &Ending| {
        let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.clone());
        ends.map(|end| end.reason).collect::<Vec<_>>()
    };
    common::check_expected(ending, what);
    assert_eq!(over(ending), over(undisturbed), "{}", story());
    let living = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized);
    let short = living.clone().filter(|claim| claim.status.node_check.shortfall.is_some()).count();
    let all_short = undisturbed.claims.iter().any(|claim| claim.status.node_check.shortfall.is_some());
    assert_eq!(short, if all_short { living.clone().count() } else { 0 }, "{}", story());
    assert_eq!(
        (living.clone().count(), living.count()),
        (ending.nodes.len(), ending.instances.len()),
        "{}",
        story()
    );
    assert!(ending.nodes.iter().all(|node| node.taints.is_empty()), "{}", story());
}

/// Lets lifecycle die after each call of these runs, one a minute or more, in which it happens.
fn die_anywhere(world: &World, runs: RangeInclusive<u32>) {
    let undisturbed = world.play();
    for run in runs {
        let play = |kills: &[Kill]| world.play_killing(kills);
        common::die_at_each_call(Function::Lifecycle, run, 1, play, |ending, died| {
            check_as(ending, &undisturbed, died);
        });
    }
}

#[test]
fn lifecycle_may_die_anywhere_while_it_replaces_unhealthy_nodes() {
    die_anywhere(&world().events([befalls(FailStatusChecks, 1)]), 6..=7);
}

#[test]
fn lifecycle_may_die_anywhere_while_it_replaces_broken_hardware() {
    let world = world().duration(minutes(16)).event(minutes(1), Mishap(BreakHardware, 1));
    die_anywhere(&world, 12..=13);
}

#[test]
fn lifecycle_may_die_anywhere_while_it_drains_what_ec2_retires() {
    die_anywhere(&world().events([befalls(PlanRetirement, 1)]), 4..=5);
}

#[test]
fn lifecycle_may_die_anywhere_while_it_opens_a_node_again() {
    die_anywhere(&world().events([befalls(CloseNodes, 1)]), 7..=7);
}

#[test]
fn lifecycle_may_die_anywhere_while_it_learns() {
    die_anywhere(&world().duration(minutes(5)).set("memoryPercent", 80), 1..=2);
}

/// Nobody hears of nodes for four minutes, in which sweeps would confirm one another. A list that
/// did not come is no list without nodes: no claim ends, and no node is bought.
#[test]
fn nothing_is_missed_while_the_api_server_is_down() {
    let ending = world().event(minutes(3), ApiServerDown(minutes(4))).play();
    check(&ending, TerminationReason::Lost, 0);
    let story = common::timeline(&ending);
    assert!(ending.claims.iter().all(|claim| claim.status.termination.is_none()), "{story}");
    assert_eq!(ending.claims.len(), ending.instances.len(), "{story}");
}

/// EC2 answers no describe call for eight minutes, and a node is not heard of meanwhile. Absence
/// from a list that did not come says nothing: the claim of the node does not end.
#[test]
fn nothing_is_missed_while_ec2_does_not_say_what_it_runs() {
    let world = common::one_pod_per_node(minutes(13)).events([befalls(SilenceKubelets, 1)]);
    let ending = world.event(minutes(3), throttle(Call::DescribeMachines, minutes(8))).play();
    let story = || common::timeline(&ending);
    common::check_laws(&ending, "");
    let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    assert_eq!(ends.map(|end| end.message.as_str()).collect::<Vec<_>>(), [""; 0], "{}", story());
    assert!(ending.nodes.iter().any(|node| !node.ready), "{}", story());
}
