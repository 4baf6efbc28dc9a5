//! Whatever chance does to calls and functions for a while: nothing leaks, nothing is launched
//! twice, limits hold, and once it is over every pod runs and nothing more is launched.

use outrigger_simulation::{Call, Crash, Ending, Function, Kill, Kind};

use crate::common;

/// How many worlds are played; a failing seed is named, and is replayed by its number.
const SEEDS: u64 = 40;

fn check(seed: u64, ending: &Ending) {
    let story = || format!("seed {seed}\n{}", common::timeline(ending));
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", story());
    assert_eq!(ending.summary.unexpected, Vec::<String>::new(), "{}", story());
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
        let events = format!("  events: [{{at: 1s, kind: Chaos, percent: {percent}, for: 5m}}]");
        check(seed, &common::run(seed, "20m", &events, &[]));
    }
}

#[test]
fn outages_break_no_law() {
    let outages = ["ApiServerDown", "LedgerDown", "CloudDown", "Throttle"];
    for (seed, kind) in (100_u64..).zip(outages.iter().cycle().take(8)) {
        let at = 1 + seed % 7;
        let events =
            format!("  events: [{{at: {at}s, kind: {kind}, for: 70s}}, {{at: 3m, kind: {kind}, for: 40s}}]");
        check(seed, &common::run(seed, "20m", &events, &[]));
    }
}

#[test]
fn a_spot_drought_is_waited_out_within_limits() {
    let events = "  events: [{at: 1s, kind: InsufficientCapacity, for: 5m, capacityType: spot}]";
    check(7, &common::run(7, "20m", events, &[]));
}

/// Describe calls may show one instance of a fleet and not yet the other. A fleet that was sent a
/// second time is as young as its second sending.
#[test]
fn a_fleet_that_was_sent_again_is_not_adopted_in_part() {
    let dies = |run, call| Kill { function: Function::Provision, run, crash: Crash::After(call) };
    let kills = [dies(4, Call::MarkSent), dies(5, Call::Acquire), dies(6, Call::CreateFleet)];
    for seed in 1..=SEEDS {
        let events = "  events: [{at: 1s, kind: Chaos, percent: 0, for: 8m}]";
        check(seed, &common::run_unlimited(seed, "20m", events, &kills));
    }
}

/// That EC2 refuses a second sending says nothing about the first.
#[test]
fn a_refused_second_sending_does_not_undo_the_first() {
    let kills = [Kill { function: Function::Provision, run: 4, crash: Crash::After(Call::CreateFleet) }];
    let events = "  events: [{at: 1s, kind: Chaos, percent: 0, for: 8m}, {at: 3m30s, kind: Throttle, call: CreateFleet, for: 40s}]";
    for seed in 1..=SEEDS {
        let ending = common::run_unlimited(seed, "20m", events, &kills);
        check(seed, &ending);
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        assert_eq!(ending.deaths, 1, "{}", story());
        assert_eq!(ending.tally.launched, ending.instances.len(), "what was launched is kept\n{}", story());
    }
}
