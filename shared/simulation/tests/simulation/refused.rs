//! What is refused: instances that may not be terminated, and NodeClaim objects that may not be
//! changed.

use std::collections::BTreeSet;

use outrigger_model::{ClaimState, NodeClaim};
use outrigger_simulation::EventKind::{DeleteNodes, Mishap};
use outrigger_simulation::Mishap::{LockNodeClaims, ProtectInstances};
use outrigger_simulation::{Ending, Event};

use crate::common::{self, at, minutes, seconds};

fn play(length: u64, events: &[Event]) -> Ending {
    common::small(1, minutes(length)).events(events.to_vec()).play_lawfully()
}

fn in_state(ending: &Ending, state: ClaimState) -> usize {
    ending.claims.iter().filter(|claim| claim.status.state == state).count()
}

#[test]
fn an_instance_that_cannot_be_terminated_holds_up_no_other_and_is_tried_again() {
    let events = [at(minutes(5), Mishap(ProtectInstances, 1)), at(seconds(310), DeleteNodes(2))];
    let refused = play(9, &events);
    let story = || common::timeline(&refused);
    assert_eq!(
        (in_state(&refused, ClaimState::Gone), in_state(&refused, ClaimState::Terminating)),
        (1, 1),
        "{}",
        story()
    );
    let claim = refused.claims.iter().find(|claim| claim.status.state == ClaimState::Terminating).unwrap();
    let why = claim.status.last_error.as_deref().unwrap_or_default();
    assert!(why.contains("its instance cannot be terminated: OperationNotPermitted"), "{why}");
    let nodes = refused.nodes.iter().filter(|node| Some(&node.name) == claim.status.node_name.as_ref());
    assert_eq!(nodes.count(), 1, "its node stays as long as it does: {}", story());
    let later = play(14, &events);
    let over = (in_state(&later, ClaimState::Gone), in_state(&later, ClaimState::Terminating));
    assert_eq!(over, (2, 0), "{}", common::timeline(&later));
    assert_eq!(later.summary.unexpected, Vec::<String>::new(), "{}", common::timeline(&later));
}

/// The claims whose objects do not show them as they are, and those that are over and still have an
/// object.
fn shown_wrongly(ending: &Ending) -> BTreeSet<&str> {
    let is_wrong = |claim: &&NodeClaim| {
        let shown = ending.mirrors.get(&claim.name);
        if claim.status.state.is_terminal() { shown.is_some() } else { shown != Some(&claim.version) }
    };
    ending.claims.iter().filter(is_wrong).map(|claim| claim.name.as_str()).collect()
}

#[test]
fn a_node_claim_that_may_not_be_changed_holds_up_no_other_and_is_written_later() {
    // The claim stays, since its instance may not be terminated, and changes all the same.
    let events = [
        at(minutes(5), Mishap(LockNodeClaims, 1)),
        at(minutes(5), Mishap(ProtectInstances, 1)),
        at(seconds(310), DeleteNodes(2)),
    ];
    let locked = play(9, &events);
    let story = || common::timeline(&locked);
    assert_eq!(in_state(&locked, ClaimState::Gone), 1, "{}", story());
    assert!(locked.claims.len() > play(5, &[]).claims.len(), "the nodes are replaced: {}", story());
    let stays = locked.claims.iter().filter(|claim| claim.status.state == ClaimState::Terminating);
    let stays: BTreeSet<&str> = stays.map(|claim| claim.name.as_str()).collect();
    assert_eq!((stays.len(), shown_wrongly(&locked)), (1, stays), "{}", story());
    let later = play(14, &events);
    assert_eq!(shown_wrongly(&later), BTreeSet::new(), "{}", common::timeline(&later));
}
