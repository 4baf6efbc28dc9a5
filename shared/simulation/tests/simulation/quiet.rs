//! What is read of the cluster: all of it only while there is something to decide, and nothing is
//! lost by that.

use std::time::Duration;

use outrigger_engine::ports::Scope;
use outrigger_simulation::EventKind::{DeleteNodes, Freeze, Interruption, ReclaimInstances};
use outrigger_simulation::Interruption::SpotWarning;
use outrigger_simulation::{Call, Ending, Event, Function, Kind, Listed};

use crate::common::{self, at, seconds};

const fn time(minutes: u64, of_minute: u64) -> Duration {
    seconds(minutes * 60 + of_minute)
}

/// The small cluster, which has settled by the sixth minute; no law is broken, and in the end every
/// pod runs.
fn play(events: impl IntoIterator<Item = Event>) -> Ending {
    let ending = common::small(3, time(16, 0)).events(events).play_as_expected();
    let waiting = ending.pods.iter().filter(|pod| pod.node_name.is_none()).count();
    assert_eq!(waiting, 0, "{}", common::timeline(&ending));
    ending
}

fn lists(ending: &Ending, function: Function, from: Duration, to: Duration) -> Vec<&Listed> {
    let within = |list: &&Listed| list.function == function && (from..to).contains(&list.at);
    ending.lists.iter().filter(within).collect()
}

/// When provision read the whole cluster between two times.
fn whole_reads(ending: &Ending, from: Duration, to: Duration) -> Vec<Duration> {
    let lists = lists(ending, Function::Provision, from, to);
    lists.iter().filter(|list| list.scope == Scope::Everything).map(|list| list.at).collect()
}

#[test]
fn a_quiet_minute_reads_no_pod_that_has_a_node() {
    let ending = play([]);
    let quiet = lists(&ending, Function::Provision, time(6, 0), time(16, 0));
    assert!(quiet.len() >= 9, "it looks each minute: {quiet:?}");
    assert!(quiet.iter().all(|list| list.scope == Scope::Unscheduled), "{quiet:?}");
    let sweeps = lists(&ending, Function::Lifecycle, time(6, 0), time(16, 0));
    assert!((9..=11).contains(&sweeps.len()), "nodes are listed for a sweep: {sweeps:?}");
    assert!(sweeps.iter().all(|list| list.scope == Scope::Nodes), "{sweeps:?}");
}

#[test]
fn the_cluster_is_read_once_in_a_window_in_which_pods_find_no_node() {
    let ending = play([]);
    // The pods of `late` come at 3 min, and the batch closes a second later.
    let read = whole_reads(&ending, time(2, 50), time(4, 0));
    assert_eq!(read.len(), 1, "{:?}", ending.lists);
    assert!((time(3, 1)..time(3, 8)).contains(&read[0]), "{read:?}");
}

#[test]
fn a_pod_that_comes_between_list_and_watch_is_seen() {
    let (function, before) = (Function::Provision, Call::Watch);
    let ending = play([at(time(2, 59), Freeze { function, before, length: seconds(10) })]);
    let listed = lists(&ending, Function::Provision, time(2, 59), time(4, 0));
    let first = listed.first().expect("provision has looked");
    assert_eq!(first.scope, Scope::Unscheduled);
    assert!(first.at < time(3, 1), "{listed:?}");
    let read = whole_reads(&ending, time(3, 0), time(4, 0));
    assert!(read.iter().any(|read| (time(3, 10)..time(3, 18)).contains(read)), "{listed:?}");
}

#[test]
fn a_drain_that_begins_in_a_quiet_window_is_planned_for_at_once() {
    let ending = play([at(time(10, 20), Interruption(SpotWarning, 1))]);
    let read = whole_reads(&ending, time(6, 0), time(11, 0));
    assert_eq!(read.len(), 1, "{:?}", ending.lists);
    assert!((time(10, 20)..time(10, 30)).contains(&read[0]), "{read:?}\n{}", common::timeline(&ending));
    let mut launches = ending.summary.timeline.iter().filter(|happening| happening.kind == Kind::Launch);
    assert!(launches.any(|launch| (time(10, 20)..time(10, 35)).contains(&launch.at)));
}

#[test]
fn a_node_that_somebody_deletes_in_a_quiet_window_is_replaced() {
    let ending = play([at(time(10, 20), DeleteNodes(1))]);
    let read = whole_reads(&ending, time(6, 0), time(12, 0));
    assert!(!read.is_empty() && read[0] > time(10, 20), "{read:?}\n{}", common::timeline(&ending));
}

#[test]
fn pods_whose_planned_node_goes_before_it_joins_are_planned_for_again() {
    // The nodes of `late` boot from 3:03 on for half a minute.
    let ending = play([at(time(3, 20), ReclaimInstances(5))]);
    let read = whole_reads(&ending, time(3, 20), time(6, 0));
    assert!(!read.is_empty(), "{}", common::timeline(&ending));
}
