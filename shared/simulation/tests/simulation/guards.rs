//! Each guard is switched off once, and each promise of AWS that the engine builds on is broken
//! once: a world that it saved then breaks a law. Otherwise the simulation would be blind to what
//! the guard is for.

use std::time::Duration;

use outrigger_engine::{Guard, Guards};
use outrigger_model::labels;
use outrigger_simulation::EventKind::{
    Chaos, DeleteNodeClaims, DeleteNodes, Freeze, KillFunction, LateInstances, Mishap, PodsHang, UpdateImages,
};
use outrigger_simulation::Mishap::{CloseNodes, FailStatusChecks, SilenceKubelets};
use outrigger_simulation::{Call, Ending, Event, EventKind, Function, Promises};
use serde_json::json;

use crate::common::{self, Pool, Workload, World, at, minutes, seconds};

const KEPT: Promises = Promises { tokens: true, tags: true, epochs: true, versions: true };

/// A world in which a guard or a promise keeps a law.
struct Danger {
    world: World,
    /// What is said of the law.
    law: &'static str,
}

/// Two pods at first, and nodes so many of which may be given up at once.
fn world_within(nodes: &str, scale: &[(Duration, u32)]) -> World {
    let disruption = json!({"budgets": [{"nodes": nodes}]});
    let pool = Pool::new("general").annotate(labels::PATIENCE, "0").annotate(labels::DRIFT_DEADLINE, "0");
    World::new("guards", minutes(6))
        .sold(&["m6a"])
        .boot_time(25)
        .pool(pool.spec("disruption", disruption).of_m6a_large())
        .workload(Workload::new("web", 2, "400m", "1Gi").scale(scale))
}

fn world(scale: &[(Duration, u32)]) -> World {
    world_within("100%", scale)
}

/// The next run of a function stands still before a call.
const fn freeze(function: Function, before: Call, length: u64) -> EventKind {
    Freeze { function, before, length: seconds(length) }
}

/// For ten seconds EC2 shows only later what it has done.
const SHOWN_LATE: EventKind = Chaos { percent: 0, length: seconds(10) };

impl Danger {
    fn play(&self, seed: u64, (guards, promises): (Guards, Promises)) -> Ending {
        self.world.clone().seed(seed).guards(guards).promises(promises).play()
    }

    fn breaks(&self, ending: &Ending) -> bool {
        ending.summary.broken_laws.iter().any(|broken| broken.contains(self.law))
    }

    /// With the guards `on` no seed breaks the law, and with those `off` one does.
    fn check(&self, seeds: u64, on: &[Guards], off: Guards) {
        let on: Vec<_> = on.iter().map(|guards| (*guards, KEPT)).collect();
        self.compare(seeds, &on, (off, KEPT));
    }

    /// As [`Danger::check`], for what the engine builds on and does not do itself.
    fn check_promise(&self, seeds: u64, on: &[Promises], off: Promises) {
        let on: Vec<_> = on.iter().map(|promises| (Guards::default(), *promises)).collect();
        self.compare(seeds, &on, (Guards::default(), off));
    }

    fn compare(&self, seeds: u64, on: &[(Guards, Promises)], off: (Guards, Promises)) {
        for guards in on {
            for seed in 1..=seeds {
                let ending = self.play(seed, *guards);
                assert!(!self.breaks(&ending), "seed {seed}: {}", common::timeline(&ending));
            }
        }
        let broken = (1..=seeds).find(|seed| self.breaks(&self.play(*seed, off)));
        assert!(
            broken.is_some(),
            "no seed of {seeds} breaks a law: {}",
            common::timeline(&self.play(1, off))
        );
    }
}

#[test]
fn the_wait_after_the_taint_keeps_pods_off_machines_that_end() {
    // The node is empty when it is deleted, and pods come before the scheduler has noticed.
    let world = world(&[(seconds(150), 0), (seconds(181), 2)]).duration(minutes(5));
    let danger = Danger { world: world.event(minutes(3), DeleteNodes(1)), law: "which was given up" };
    danger.check(3, &[Guards::default()], Guards::default().without(Guard::TaintWait));
}

#[test]
fn a_claim_is_not_closed_while_its_instance_may_only_be_late() {
    let world = world(&[]).duration(minutes(9)).event(seconds(0), SHOWN_LATE);
    let world = world.event(minutes(1), DeleteNodes(1));
    let danger = Danger { world, law: "was closed while its instance lives" };
    danger.check(10, &[Guards::default()], Guards::default().without(Guard::AbsenceWait));
}

#[test]
fn what_was_launched_a_moment_ago_is_no_orphan() {
    // Nodes are launched while lifecycle stands still between its two looks.
    let frozen = freeze(Function::Lifecycle, Call::DescribeMachines, 15);
    let world = world(&[(seconds(121), 12)]).event(seconds(119), frozen);
    let danger = Danger { world, law: "was terminated while its claim lives" };
    let either = [
        Guards::default(),
        Guards::default().without(Guard::TwoSweeps),
        Guards::default().without(Guard::CloudFirst),
    ];
    danger.check(5, &either, Guards::default().without(Guard::CloudFirst).without(Guard::TwoSweeps));
}

#[test]
fn the_breaker_stops_a_sweep_that_would_end_too_much() {
    let world = world(&[]).event(minutes(2), LateInstances(6));
    let danger = Danger { world, law: "were terminated at once" };
    danger.check(2, &[Guards::default()], Guards::default().without(Guard::Breaker));
}

#[test]
fn who_has_lost_the_lease_writes_no_sweep() {
    let world = world(&[]).event(minutes(1), freeze(Function::Lifecycle, Call::PutSweep, 70));
    let world = world.event(seconds(115), DeleteNodes(1));
    let danger = Danger { world, law: "under somebody else's lease" };
    danger.check(2, &[Guards::default()], Guards::default().without(Guard::Fence));
}

/// Provision dies with the answer of EC2 still on its way, and the next run sees nothing of the
/// instance yet.
const UNANSWERED: Event =
    at(seconds(0), KillFunction { function: Function::Provision, after: Call::CreateFleet });

#[test]
fn a_launch_that_is_sent_again_under_its_token_is_not_doubled() {
    let world = world(&[]).events([UNANSWERED]).event(seconds(0), SHOWN_LATE);
    let danger = Danger { world, law: "instances for" };
    danger.check_promise(10, &[KEPT], Promises { tokens: false, ..KEPT });
}

#[test]
fn a_launch_that_is_found_by_its_tag_is_not_sent_again() {
    let danger = Danger { world: world(&[]).events([UNANSWERED]), law: "instances for" };
    // Nobody knows for how long EC2 remembers a token.
    let either = [KEPT, Promises { tokens: false, ..KEPT }, Promises { tags: false, ..KEPT }];
    danger.check_promise(5, &either, Promises { tokens: false, tags: false, ..KEPT });
}

#[test]
fn who_has_lost_the_lease_launches_nothing() {
    // The first run stands still with its plan in hand until the second has begun.
    let world = world(&[]).duration(minutes(4));
    let world = world.event(seconds(0), freeze(Function::Provision, Call::Prepare, 57));
    let danger = Danger { world, law: "wrote a launch under somebody else's lease" };
    danger.check_promise(2, &[KEPT], Promises { epochs: false, ..KEPT });
}

#[test]
fn repair_stops_where_the_fault_is_not_the_nodes() {
    let world = world(&[(seconds(121), 12)]).duration(minutes(9));
    let world = world.event(minutes(4), Mishap(FailStatusChecks, 4));
    let danger = Danger { world, law: "nodes were unhealthy" };
    danger.check(2, &[Guards::default()], Guards::default().without(Guard::RepairBreaker));
}

#[test]
fn nothing_is_concluded_while_most_nodes_are_not_heard_of() {
    let world = world(&[(seconds(20), 20)]).duration(minutes(9));
    let world = world.event(minutes(3), Mishap(SilenceKubelets, 4)).event(minutes(5), LateInstances(2));
    let danger = Danger { world, law: "nodes were not heard of" };
    danger.check(2, &[Guards::default()], Guards::default().without(Guard::Partition));
}

#[test]
fn nodes_are_opened_again_when_nobody_drains_them_and_not_before() {
    let world = world(&[]).duration(minutes(8)).event(minutes(2), Mishap(CloseNodes, 1));
    let danger = Danger { world, law: "was opened" };
    danger.check(2, &[Guards::default()], Guards::default().without(Guard::TwoSweeps));
}

#[test]
fn who_saw_a_node_before_its_drain_began_does_not_open_it_any_more() {
    // The run that would open it stands still until another has begun to drain it.
    let world = world(&[])
        .duration(minutes(9))
        .event(minutes(2), Mishap(CloseNodes, 1))
        .event(seconds(170), freeze(Function::Lifecycle, Call::ChangeNode, 90))
        .event(minutes(3), PodsHang(minutes(5)))
        .event(minutes(4), DeleteNodeClaims(1));
    let danger = Danger { world, law: "was opened too soon" };
    danger.check(3, &[Guards::default()], Guards::default().without(Guard::DrainMark));
}

/// All pods go after two and a half minutes, so that disrupt proposes the node at 3 min and commits
/// it at 4 min.
const GONE: (Duration, u32) = (seconds(150), 0);

#[test]
fn what_is_given_up_is_found_twice() {
    let danger = Danger { world: world(&[GONE]).disrupts(), law: "no earlier run had found it" };
    danger.check(2, &[Guards::default()], Guards::default().without(Guard::Validation));
}

#[test]
fn no_node_is_drained_before_what_replaces_it_is_ready() {
    let world = world(&[]).disrupts().duration(minutes(9)).event(minutes(3), UpdateImages);
    let danger = Danger { world, law: "was carried out before" };
    danger.check(2, &[Guards::default()], Guards::default().without(Guard::Replacements));
}

/// Lifecycle hears of the command only when pods have come to the node.
#[test]
fn an_empty_node_to_which_pods_have_come_stays() {
    let world = world(&[GONE, (seconds(242), 2)]).disrupts();
    let world = world.event(seconds(239), freeze(Function::Lifecycle, Call::Load, 10));
    let danger = Danger { world, law: "who minds" };
    danger.check(2, &[Guards::default()], Guards::default().without(Guard::LastLook));
}

/// Somebody deletes a NodeClaim while provision stands still with a pod in hand that has found room
/// on its node.
#[test]
fn no_claim_is_written_over_what_was_written_meanwhile() {
    let frozen = freeze(Function::Provision, Call::UpdateClaim, 20);
    let world = world(&[(seconds(10), 3)]).event(seconds(9), frozen);
    let danger = Danger { world: world.event(seconds(15), DeleteNodeClaims(1)), law: "went from" };
    danger.check_promise(2, &[KEPT], Promises { versions: false, ..KEPT });
}

/// One node may go at once. Disrupt stands still with its command for the first in hand while pods
/// come to that node, and to a second one, which the next run gives up once it is empty.
#[test]
fn no_command_of_an_old_run_breaks_a_budget() {
    let scale = [(seconds(60), 0), (seconds(125), 10), (seconds(172), 5)];
    let world = world_within("1", &scale).disrupts().duration(minutes(10));
    let world = world.event(seconds(119), freeze(Function::Disrupt, Call::WriteCommand, 140));
    let danger = Danger { world, law: "go by choice" };
    danger.check_promise(5, &[KEPT], Promises { epochs: false, ..KEPT });
}
