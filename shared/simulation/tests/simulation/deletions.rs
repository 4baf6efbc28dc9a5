//! Many nodes that are deleted at once, by whomever: none ends before somebody says that it is
//! meant.

use outrigger_model::{ClaimState, TerminationReason};
use outrigger_simulation::Ending;

use crate::common;

/// Six nodes, of which events befall some after five minutes.
fn play(events: &str) -> Ending {
    let ending = common::run_one_pod_per_node("14m", events);
    assert_eq!(ending.summary.broken_laws, Vec::<String>::new(), "{}", common::timeline(&ending));
    ending
}

fn deleted(ending: &Ending) -> usize {
    let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    ends.filter(|end| end.reason == TerminationReason::Deleted).count()
}

/// How many claims were ever made: what replaces a node is one more.
fn launched(ending: &Ending) -> usize {
    ending.claims.iter().filter(|claim| claim.status.state != ClaimState::Failed).count()
}

fn told(ending: &Ending) -> usize {
    ending.told.iter().filter(|(_, reason, _)| *reason == "DeletionHeld").count()
}

#[test]
fn many_deletions_at_once_end_no_node_until_they_are_meant() {
    // What is deleted, how many nodes end by themselves, and how many once that is said to be
    // meant.
    let table = [
        ("{at: 5m, kind: DeleteNodes, count: 3}", 3, 3),
        ("{at: 5m, kind: DeleteNodes, count: 4}", 0, 4),
        ("{at: 5m, kind: DeleteNodeClaims, count: 3}", 3, 3),
        ("{at: 5m, kind: DeleteNodeClaims, count: 4}", 0, 4),
        ("{at: 5m, kind: DeleteNodes, count: 2}, {at: 5m, kind: DeleteNodeClaims, count: 3}", 0, 5),
        ("{at: 5m, kind: DeleteNodes, count: 3}, {at: 6m, kind: DeleteNodes, count: 3}", 3, 6),
        ("{at: 5m, kind: DeleteNodePools, count: 1}", 0, 6),
    ];
    for (events, ended, all) in table {
        let held = play(events);
        let story = || format!("{events}\n{}", common::timeline(&held));
        assert_eq!(deleted(&held), ended, "{}", story());
        assert_eq!(launched(&held), 8 + ended, "nothing is bought for nodes that stay: {}", story());
        assert_eq!(told(&held), all - ended, "{:?}", held.told);
        let meant = play(&format!("{events}, {{at: 8m, kind: ConfirmDeletions}}"));
        assert_eq!(deleted(&meant), all, "{events}\n{}", common::timeline(&meant));
    }
}

#[test]
fn a_definition_that_is_deleted_ends_no_node() {
    let ending = play("{at: 5m, kind: DeleteDefinition, for: 4m}");
    let story = || common::timeline(&ending);
    assert_eq!(deleted(&ending), 0, "{}", story());
    let ready = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized).count();
    assert_eq!((ready, ending.mirrors.len()), (8, 8), "the objects are there again: {}", story());
}

#[test]
fn a_pause_stops_what_people_have_deleted() {
    let events = "{at: 4m, kind: Pause, for: 8m}, {at: 5m, kind: DeleteNodes, count: 1}, \
                  {at: 5m, kind: DeleteNodeClaims, count: 1}";
    let paused = common::run_one_pod_per_node("11m50s", events);
    assert_eq!(deleted(&paused), 0, "{}", common::timeline(&paused));
    let resumed = play(events);
    assert!(deleted(&resumed) >= 1, "{}", common::timeline(&resumed));
}
