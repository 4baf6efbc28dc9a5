//! One object's failure is its own: in every loop over objects, what always fails is passed over
//! and the others go on.

use outrigger_model::{ClaimState, TerminationReason};
use outrigger_simulation::EventKind::{DeleteNodes, Interruption, KillFunction, ReclaimInstances, Stuck};
use outrigger_simulation::Interruption::SpotWarning;
use outrigger_simulation::{Call, Ending, Event, Function};

use crate::common::{self, at, minutes, seconds};

/// A loop over objects: what it does to the first of them never works.
struct Row {
    function: Function,
    /// The call that is stuck on the first object, from the sixth minute on where nodes end, and
    /// from the first else.
    call: Call,
    /// What brings the loop about.
    cause: Option<Event>,
    /// Of what the loop gets done there would be so many.
    most: usize,
    /// So many are there all the same.
    least: usize,
    count: fn(&Ending) -> usize,
}

const DELETED: Option<Event> = Some(at(minutes(6), DeleteNodes(3)));
const RECLAIMED: Option<Event> = Some(at(minutes(6), ReclaimInstances(3)));
const WARNED: Option<Event> = Some(at(minutes(6), Interruption(SpotWarning, 3)));
const UNRESOLVED: Option<Event> = Some(dead_provision(Call::CreateFleet));
const UNSENT: Option<Event> = Some(dead_provision(Call::Prepare));

const fn dead_provision(after: Call) -> Event {
    at(seconds(0), KillFunction { function: Function::Provision, after })
}

#[rustfmt::skip]
const ROWS: [Row; 12] = [
    // The six claims of the launch that cannot be closed stay as they are; the pods that come later
    // get nodes.
    Row { function: Function::Provision, call: Call::Resolve, cause: UNRESOLVED, most: 8, least: 2, count: running },
    Row { function: Function::Provision, call: Call::Abandon, cause: UNSENT, most: 8, least: 2, count: running },
    Row { function: Function::Provision, call: Call::WriteStatus, cause: None, most: 2, least: 1, count: shown },
    Row { function: Function::Lifecycle, call: Call::ChangeNode, cause: None, most: 8, least: 7, count: ready },
    Row { function: Function::Lifecycle, call: Call::UpdateClaim, cause: None, most: 8, least: 7, count: ready },
    // kube-scheduler takes the pod that cannot be bound.
    Row { function: Function::Lifecycle, call: Call::BindPod, cause: None, most: 8, least: 8, count: running },
    Row { function: Function::Lifecycle, call: Call::MirrorClaim, cause: None, most: 8, least: 7, count: mirrored },
    Row { function: Function::Lifecycle, call: Call::Evict, cause: DELETED, most: 3, least: 2, count: gone },
    Row { function: Function::Lifecycle, call: Call::ReleaseNode, cause: DELETED, most: 3, least: 2, count: gone },
    Row { function: Function::Lifecycle, call: Call::RemoveMirror, cause: DELETED, most: 8, least: 9, count: mirrored },
    Row { function: Function::Lifecycle, call: Call::UpdateClaim, cause: RECLAIMED, most: 3, least: 2, count: gone },
    Row { function: Function::Interrupt, call: Call::Interrupt, cause: WARNED, most: 3, least: 2, count: interrupted },
];

impl Row {
    fn play(&self, is_stuck: bool) -> Ending {
        let ends_nodes = self.cause.as_ref().is_some_and(|cause| cause.at == minutes(6));
        let from = if ends_nodes { minutes(5) } else { seconds(0) };
        let stuck = at(from, Stuck { call: self.call, length: minutes(18) });
        let events = is_stuck.then_some(stuck).into_iter().chain(self.cause.clone());
        common::one_pod_per_node(minutes(18)).events(events).play()
    }
}

fn running(ending: &Ending) -> usize {
    ending.pods.iter().filter(|pod| pod.node_name.is_some() && !pod.state.is_over()).count()
}

fn ready(ending: &Ending) -> usize {
    ending.nodes.iter().filter(|node| node.is_initialized()).count()
}

fn gone(ending: &Ending) -> usize {
    ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Gone).count()
}

fn interrupted(ending: &Ending) -> usize {
    let reasons = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    reasons.filter(|end| end.reason == TerminationReason::Interrupted).count()
}

fn mirrored(ending: &Ending) -> usize {
    ending.mirrors.len()
}

fn shown(ending: &Ending) -> usize {
    ending.configured.iter().filter(|object| !object.status.conditions.is_empty()).count()
}

#[test]
fn what_always_fails_holds_up_no_other() {
    for row in &ROWS {
        let Row { function, call, most, least, count, .. } = row;
        let (sound, stuck) = (row.play(false), row.play(true));
        let story = || format!("{function} {call:?}\n{}", common::timeline(&stuck));
        assert_eq!(
            count(&sound),
            *most,
            "nothing is stuck, {function} {call:?}\n{}",
            common::timeline(&sound)
        );
        assert_eq!(count(&stuck), *least, "{}", story());
        common::check_laws(&stuck, &format!("{function} {call:?}"));
    }
}
