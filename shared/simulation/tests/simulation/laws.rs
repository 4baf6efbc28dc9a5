//! Whatever chance does to calls and functions for a while: nothing leaks, nothing is launched
//! twice, limits hold, and once it is over every pod runs and nothing more is launched.

use std::time::Duration;

use outrigger_model::CapacityType;
use outrigger_simulation::EventKind::{ApiServerDown, Chaos, CloudDown, LedgerDown, Throttle};
use outrigger_simulation::{Call, Crash, Ending, EventKind, Function, Kill, Kind};

use crate::common::{self, drought, minutes, seconds, throttle};

/// How many worlds are played; a failing seed is named, and is replayed by its number.
const SEEDS: u64 = 40;

fn check(seed: u64, ending: &Ending) {
    let story = || format!("seed {seed}\n{}", common::timeline(ending));
    common::check_expected(ending, &format!("seed {seed}"));
    let open = ending.intents.iter().filter(|intent| intent.ended_at.is_none()).count();
    assert_eq!(open, 0, "no launch stays open\n{}", story());
    // Demand is fixed from 3 minutes on and trouble is over at 6; recovery has 15 minutes at most
    // by then.
    let launches = ending.summary.timeline.iter().filter(|happening| happening.kind == Kind::Launch);
    let latest = launches.map(|launch| launch.at.as_secs()).max();
    let in_time = latest.is_some_and(|at| (1..16 * 60).contains(&at));
    assert!(in_time, "the latest launch was at {latest:?} s\n{}", story());
}

#[test]
fn chance_breaks_no_law() {
    for seed in 1..=SEEDS {
        let percent = if seed % 2 == 0 { 7 } else { 12 };
        let chaos = Chaos { percent, length: minutes(5) };
        check(seed, &common::small(seed, minutes(20)).event(seconds(1), chaos).play());
    }
}

#[test]
fn outages_break_no_law() {
    let outages: [fn(Duration) -> EventKind; 4] =
        [ApiServerDown, LedgerDown, CloudDown, |length| Throttle { call: None, length }];
    for (seed, outage) in (100_u64..).zip(outages.iter().cycle().take(8)) {
        let world = common::small(seed, minutes(20)).event(seconds(1 + seed % 7), outage(seconds(70)));
        check(seed, &world.event(minutes(3), outage(seconds(40))).play());
    }
}

#[test]
fn a_spot_drought_is_waited_out_within_limits() {
    let drought = drought(Some(CapacityType::Spot), minutes(5));
    check(7, &common::small(7, minutes(20)).event(seconds(1), drought).play());
}

/// For eight minutes EC2 shows only later what it has done.
const SHOWN_LATE: EventKind = Chaos { percent: 0, length: minutes(8) };

/// Describe calls may show one instance of a fleet and not yet the other. A fleet that was sent a
/// second time is as young as its second sending.
#[test]
fn a_fleet_that_was_sent_again_is_not_adopted_in_part() {
    let dies = |run, call| Kill { function: Function::Provision, run, crash: Crash::After(call) };
    let kills = [dies(4, Call::MarkSent), dies(5, Call::Acquire), dies(6, Call::CreateFleet)];
    for seed in 1..=SEEDS {
        let world = common::small_unlimited(seed, minutes(20)).event(seconds(1), SHOWN_LATE);
        check(seed, &world.play_killing(&kills));
    }
}

/// That EC2 refuses a second sending says nothing about the first.
#[test]
fn a_refused_second_sending_does_not_undo_the_first() {
    let kills = [Kill { function: Function::Provision, run: 4, crash: Crash::After(Call::CreateFleet) }];
    let refused = throttle(Call::CreateFleet, seconds(40));
    for seed in 1..=SEEDS {
        let world = common::small_unlimited(seed, minutes(20)).event(seconds(1), SHOWN_LATE);
        let ending = world.event(seconds(210), refused.clone()).play_killing(&kills);
        check(seed, &ending);
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(ending.deaths, 1, "{}", story());
        assert_eq!(ending.tally.launched, ending.instances.len(), "what was launched is kept\n{}", story());
    }
}
