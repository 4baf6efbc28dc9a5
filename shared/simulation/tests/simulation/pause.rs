//! An operator pauses the functions: nothing is launched, nothing is given up that could live on,
//! and all that has begun goes on; within one tick of being resumed they make up for it.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{ClaimState, NodeClaim, PauseScope, TerminationReason};
use outrigger_simulation::EventKind::{
    CloudDown, Interruption, KillFunction, LateInstances, Mishap, Pause, Resume,
};
use outrigger_simulation::Interruption::{Rebalance, SpotWarning};
use outrigger_simulation::Mishap::FailStatusChecks;
use outrigger_simulation::{Call, Ending, Event, Function};

use crate::common::{self, Pool, Workload, World, at, minutes, seconds};

/// Two spot nodes that are full of pods, and a third that is asked for later.
fn world(late: Duration) -> World {
    world_that_expires("Never", late)
}

fn world_that_expires(expire_after: &str, late: Duration) -> World {
    let workload = |name, replicas| Workload::new(name, replicas, "850m", "1Gi");
    World::new("pause", minutes(15))
        .set("rebalance", "drain")
        .pool(Pool::new("spot").template("expireAfter", expire_after).of_spot_large())
        .workload(workload("web", 4))
        .workload(workload("late", 2).at(late))
}

const fn pause(time: Duration, what: PauseScope) -> Event {
    at(time, Pause { what, length: None })
}

const SCOPES: [PauseScope; 2] = [PauseScope::Everything, PauseScope::Disruption];

/// From being resumed to what a paused tick left undone: a minute to the next tick, and the batch
/// of its pods.
const ONE_TICK: u64 = 75;

/// The second of the world in which something happened.
fn second(at: Timestamp) -> u64 {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    Duration::try_from(at.duration_since(begin)).expect("a time of the world").as_secs()
}

/// The seconds in which claims were made after the first two, in order.
fn bought_later(ending: &Ending) -> Vec<u64> {
    let mut seconds: Vec<u64> = ending.claims.iter().map(|claim| second(claim.created_at)).collect();
    seconds.sort_unstable();
    assert!(seconds[1] < 60, "two nodes are there from the beginning: {seconds:?}");
    seconds.split_off(2)
}

/// The seconds in which ends began for a reason, in order.
fn ends(ending: &Ending, reason: TerminationReason) -> Vec<u64> {
    let terminations = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    let of_it = terminations.filter(|end| end.reason == reason);
    let mut seconds: Vec<u64> = of_it.map(|end| second(end.since)).collect();
    seconds.sort_unstable();
    seconds
}

fn within_a_tick(seconds: &[u64], of: u64) -> bool {
    !seconds.is_empty() && seconds.iter().all(|second| (of..of + ONE_TICK).contains(second))
}

#[test]
fn nothing_is_launched_until_it_is_resumed_or_over() {
    let everything = PauseScope::Everything;
    let ends_by_itself = Pause { what: everything, length: Some(minutes(5)) };
    for events in
        [vec![pause(minutes(5), everything), at(minutes(10), Resume)], vec![at(minutes(5), ends_by_itself)]]
    {
        let ending = world(minutes(6)).events(events.clone()).play_as_expected();
        let bought = bought_later(&ending);
        assert_eq!(bought.len(), 1, "{events:?}\n{}", common::timeline(&ending));
        assert!(within_a_tick(&bought, 600), "{events:?}: {bought:?}\n{}", common::timeline(&ending));
        let published = |(about, reason, text): &&(String, &'static str, String)| {
            about.contains("late")
                && *reason == "FailedScheduling"
                && text.contains("everything is paused by somebody")
        };
        assert_eq!(ending.published.iter().filter(published).count(), 2, "{:?}", ending.published);
    }
}

/// A pause that comes while pods wait is heeded by the tick that is at work, not only by the next
/// one.
#[test]
fn a_tick_that_is_at_work_heeds_a_pause() {
    let paused = pause(seconds(355), PauseScope::Everything);
    let ending = world(minutes(6)).events([paused, at(minutes(10), Resume)]).play_as_expected();
    let bought = bought_later(&ending);
    assert!(within_a_tick(&bought, 600), "{bought:?}\n{}", common::timeline(&ending));
}

#[test]
fn a_spot_machine_that_is_taken_drains_all_the_same() {
    let world = world(seconds(1)).events([pause(minutes(4), PauseScope::Everything)]);
    let world = world.event(minutes(5), Interruption(SpotWarning, 1)).event(minutes(10), Resume);
    let ending = world.play_as_expected();
    let story = || common::timeline(&ending);
    let taken: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| claim.status.termination.is_some()).collect();
    let [taken] = taken[..] else { panic!("one machine is taken\n{}", story()) };
    let end = taken.status.termination.as_ref().expect("it ends");
    assert_eq!((end.reason, taken.status.state), (TerminationReason::Interrupted, ClaimState::Gone));
    let drained = end.drained_at.map(second).expect("its pods were asked to leave");
    assert!(second(end.since) < 310 && drained < 420, "begun {}, drained {drained}\n{}", end.since, story());
    let bought: Vec<u64> = bought_later(&ending).into_iter().filter(|second| *second > 60).collect();
    assert!(within_a_tick(&bought, 600), "{bought:?}\n{}", story());
}

#[test]
fn a_node_that_expires_stays_until_it_is_resumed() {
    for (what, launches) in [(PauseScope::Everything, false), (PauseScope::Disruption, true)] {
        let world = world_that_expires("9m", minutes(11)).duration(minutes(20));
        let world = world.events([pause(minutes(3), what), at(minutes(15), Resume)]);
        let ending = world.play_as_expected();
        let story = || format!("{what}\n{}", common::timeline(&ending));
        let expired = ends(&ending, TerminationReason::Expired);
        assert_eq!(expired.len(), 2, "{}", story());
        assert!(within_a_tick(&expired, 900), "{expired:?}\n{}", story());
        let meanwhile = bought_later(&ending).into_iter().filter(|second| *second < 900).count();
        assert_eq!(meanwhile, usize::from(launches), "{}", story());
    }
}

#[test]
fn no_node_is_replaced_on_a_recommendation_meanwhile() {
    for what in SCOPES {
        let world = world(seconds(1)).events([pause(minutes(4), what)]);
        let ending = world.event(minutes(5), Interruption(Rebalance, 2)).play_as_expected();
        let story = || format!("{what}\n{}", common::timeline(&ending));
        let published =
            |(_, reason, _): &&(String, &'static str, String)| *reason == "SpotRebalanceRecommendation";
        assert_eq!(ending.published.iter().filter(published).count(), 2, "{}", story());
        assert_eq!((ending.claims.len(), ending.nodes.len()), (3, 3), "{}", story());
    }
}

/// What a command waits for may be ready: its nodes stay open until it is resumed.
#[test]
fn a_command_that_was_issued_before_is_carried_out_after() {
    for what in SCOPES {
        let world = world(seconds(1)).event(minutes(5), Interruption(Rebalance, 1));
        let ending = world.events([pause(seconds(320), what), at(minutes(9), Resume)]).play_as_expected();
        let story = || format!("{what}\n{}", common::timeline(&ending));
        let begun = ends(&ending, TerminationReason::Rebalanced);
        assert!(within_a_tick(&begun, 540), "{begun:?}\n{}", story());
        assert_eq!(ending.claims.len(), 4, "one goes, one comes\n{}", story());
    }
}

/// EC2 does not answer until the pause has come, so that the command is there before its
/// replacement is planned.
#[test]
fn nothing_is_bought_for_a_command_while_disruption_is_paused() {
    let world = world(seconds(1))
        .duration(minutes(17))
        .event(seconds(290), CloudDown(seconds(40)))
        .event(minutes(5), Interruption(Rebalance, 1));
    let ending = world.clone().events([pause(seconds(320), PauseScope::Disruption)]).play_as_expected();
    assert_eq!(ending.claims.len(), 3, "{}", common::timeline(&ending));
    assert_eq!(ending.commands, Vec::new(), "it is given up\n{}", common::timeline(&ending));
    let published = |(_, reason, text): &(String, &'static str, String)| {
        *reason == "DisruptionBlocked" && text.contains("disruption is paused by somebody")
    };
    assert!(ending.published.iter().any(published), "{:?}", ending.published);
    let ending = world.event(seconds(320), Resume).play_as_expected();
    assert_eq!(ending.claims.len(), 4, "there is a command\n{}", common::timeline(&ending));
}

#[test]
fn what_is_broken_or_nobodys_is_ended_when_everything_is_resumed() {
    for (what, first, last) in
        [(PauseScope::Everything, 900, 900 + ONE_TICK), (PauseScope::Disruption, 240, 600)]
    {
        let world = world(seconds(1)).duration(minutes(20)).events([pause(minutes(3), what)]);
        let world = world.event(minutes(4), LateInstances(1));
        let world = world.event(minutes(4), Mishap(FailStatusChecks, 1)).event(minutes(15), Resume);
        let ending = world.play_as_expected();
        let story = || format!("{what}\n{}", common::timeline(&ending));
        let repaired = ends(&ending, TerminationReason::Unhealthy);
        assert_eq!(repaired.len(), 1, "{}", story());
        assert!((first..last).contains(&repaired[0]), "{repaired:?}\n{}", story());
        let mut happenings = ending.summary.timeline.iter();
        let orphan = happenings.find(|happening| happening.text.contains("1 orphan terminated"));
        let orphan = orphan.unwrap_or_else(|| panic!("the stray instance is terminated\n{}", story()));
        // The tick that has done it says so when it ends.
        assert!((first..last + 60).contains(&orphan.at.as_secs()), "{}", story());
    }
}

/// A request that EC2 may not have heard is not sent again; one that it has heard is accounted for.
#[test]
fn an_open_launch_is_accounted_for_and_not_sent_again() {
    for (after, is_heard) in [(Call::MarkSent, false), (Call::CreateFleet, true)] {
        let dies = at(seconds(0), KillFunction { function: Function::Provision, after });
        let paused = pause(seconds(15), PauseScope::Everything);
        let ending = world(seconds(3)).events([dies, paused, at(minutes(8), Resume)]).play_as_expected();
        let story = || format!("{after:?}\n{}", common::timeline(&ending));
        let launched = ending.claims.iter().filter_map(|claim| claim.status.launched_at);
        let meanwhile = launched.map(second).filter(|second| *second < 480).count();
        assert_eq!(meanwhile > 0, is_heard, "{}", story());
        let ready = ending.claims.iter().filter_map(|claim| claim.status.initialized_at);
        assert_eq!(ready.map(second).any(|second| second < 480), is_heard, "{}", story());
        assert_eq!(ending.summary.pods.running, 6, "{}", story());
    }
}
