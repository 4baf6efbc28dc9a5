//! Many nodes that are deleted at once, by whomever: none ends before somebody says that it is
//! meant.

use outrigger_model::{ClaimState, PauseScope, TerminationReason};
use outrigger_simulation::EventKind::{
    ConfirmDeletions, DeleteDefinition, DeleteNodeClaims, DeleteNodePools, DeleteNodes, Pause,
};
use outrigger_simulation::{Cascade, Ending, Event};

use crate::common::{self, at, minutes, seconds};

/// Six nodes, of which events befall some after five minutes.
fn play(events: &[Event]) -> Ending {
    common::one_pod_per_node(minutes(14)).events(events.to_vec()).play_lawfully()
}

fn deleted(ending: &Ending) -> usize {
    let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    ends.filter(|end| end.reason == TerminationReason::Deleted).count()
}

/// How many claims were ever made: what replaces a node is one more.
fn launched(ending: &Ending) -> usize {
    ending.claims.iter().filter(|claim| claim.status.state != ClaimState::Failed).count()
}

fn deletions_held(ending: &Ending) -> usize {
    ending.published.iter().filter(|(_, reason, _)| *reason == "DeletionHeld").count()
}

#[test]
fn many_deletions_at_once_end_no_node_until_they_are_meant() {
    // What is deleted, how many nodes end by themselves, and how many once that is said to be
    // meant.
    let table = [
        (vec![at(minutes(5), DeleteNodes(3))], 3, 3),
        (vec![at(minutes(5), DeleteNodes(4))], 0, 4),
        (vec![at(minutes(5), DeleteNodeClaims(3))], 3, 3),
        (vec![at(minutes(5), DeleteNodeClaims(4))], 0, 4),
        (vec![at(minutes(5), DeleteNodes(2)), at(minutes(5), DeleteNodeClaims(3))], 0, 5),
        (vec![at(minutes(5), DeleteNodes(3)), at(minutes(6), DeleteNodes(3))], 3, 6),
        (vec![at(minutes(5), DeleteNodePools(1, Cascade::Background))], 0, 6),
    ];
    for (events, ended, deletions) in table {
        let held = play(&events);
        let story = || format!("{events:?}\n{}", common::timeline(&held));
        assert_eq!(deleted(&held), ended, "{}", story());
        assert_eq!(launched(&held), 8 + ended, "nothing is bought for nodes that stay: {}", story());
        assert_eq!(deletions_held(&held), deletions - ended, "{:?}", held.published);
        let meant = play(&[events.clone(), vec![at(minutes(8), ConfirmDeletions)]].concat());
        assert_eq!(deleted(&meant), deletions, "{events:?}\n{}", common::timeline(&meant));
    }
}

#[test]
fn a_definition_that_is_deleted_ends_no_node() {
    let ending = play(&[at(minutes(5), DeleteDefinition(minutes(4)))]);
    let story = || common::timeline(&ending);
    assert_eq!(deleted(&ending), 0, "{}", story());
    let ready = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Initialized).count();
    assert_eq!((ready, ending.mirrors.len()), (8, 8), "the objects are there again: {}", story());
}

#[test]
fn a_pause_stops_what_people_have_deleted() {
    let events = [
        at(minutes(4), Pause { what: PauseScope::Everything, length: Some(minutes(8)) }),
        at(minutes(5), DeleteNodes(1)),
        at(minutes(5), DeleteNodeClaims(1)),
    ];
    let paused = common::one_pod_per_node(seconds(710)).events(events.clone()).play();
    assert_eq!(deleted(&paused), 0, "{}", common::timeline(&paused));
    let resumed = play(&events);
    assert!(deleted(&resumed) >= 1, "{}", common::timeline(&resumed));
}
