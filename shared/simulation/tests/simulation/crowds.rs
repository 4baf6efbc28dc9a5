//! Many machines that EC2 takes back in one second.

use std::collections::BTreeSet;

use outrigger_model::TerminationReason;
use outrigger_simulation::EventKind::Interruption;
use outrigger_simulation::Interruption::SpotWarning;
use outrigger_simulation::{Ending, Kind};

use crate::common::{self, Pool, Workload, World, minutes};

/// Ten full batches of the queue. More take longer to play; beyond 500 the cap of new nodes in a
/// minute holds.
const NODES: u32 = 100;

/// When things of a kind with a text happened after the warning, in whole seconds since then.
fn seconds(ending: &Ending, kind: Kind, text: &str) -> BTreeSet<u64> {
    let happenings = ending
        .summary
        .timeline
        .iter()
        .filter(|happening| happening.kind == kind && happening.text.contains(text));
    happenings.filter_map(|happening| happening.at.as_secs().checked_sub(180)).collect()
}

/// All nodes are closed within seconds, no message comes again, and one decision replaces all of
/// them.
#[test]
fn a_hundred_interruptions_at_once_are_marked_within_seconds_and_replaced_by_one_decision() {
    // EC2 has enough of so many types.
    let families = ["m5", "m5a", "m6a", "m6i", "m7a", "m7i", "c5", "c5a", "c6a", "c6i", "c7a", "c7i"];
    let nodes = NODES as usize;
    let ending = World::new("crowds", minutes(6))
        .seed(2)
        .pool(Pool::new("spot").spot().sizes(&["large"]).families(&families))
        .workload(Workload::new("web", NODES, "400m", "1Gi").grace(20).host_port())
        .event(minutes(3), Interruption(SpotWarning, nodes))
        .play();
    let story = || common::timeline(&ending);
    common::check_expected(&ending, "");
    let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    let interrupted = ends.filter(|end| end.reason == TerminationReason::Interrupted).count();
    assert_eq!((interrupted, ending.instances.len()), (nodes, nodes), "{}", story());
    let closed = seconds(&ending, Kind::Node, "is closed");
    assert!(closed.last().is_some_and(|last| *last <= 4), "{closed:?}");
    assert_eq!(seconds(&ending, Kind::Function, "to come again"), BTreeSet::new(), "{}", story());
    let written = ending.intents.iter().map(|intent| intent.prepared_at);
    let first = written.clone().min().expect("there are launches");
    let again = written.map(|at| at.duration_since(first).as_millis()).filter(|millis| *millis > 120_000);
    let again: BTreeSet<i128> = again.collect();
    // All launches of a decision are written down before the first is sent.
    let took = again.last().zip(again.first()).map(|(last, first)| last - first);
    assert!(took.is_some_and(|millis| millis < 500), "{again:?}: {}", story());
}
