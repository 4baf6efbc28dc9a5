//! One object's failure is its own: in every loop over objects, what always fails is passed over
//! and the others go on.

use outrigger_model::{ClaimState, TerminationReason};
use outrigger_simulation::Ending;

use crate::common;

/// A loop over objects: what it does to the first of them never works.
struct Row {
    function: &'static str,
    /// The call that is stuck on the first object, from the sixth minute on where nodes end, and
    /// from the first else.
    call: &'static str,
    /// What brings the loop about.
    events: &'static str,
    /// Of what the loop gets done there would be so many.
    all: usize,
    /// So many are there all the same.
    least: usize,
    count: fn(&Ending) -> usize,
}

const DELETED: &str = "{at: 6m, kind: DeleteNodes, count: 3}";
const RECLAIMED: &str = "{at: 6m, kind: ReclaimInstances, count: 3}";
const WARNED: &str = "{at: 6m, kind: SpotWarning, count: 3}";
const UNRESOLVED: &str = "{at: 0s, kind: KillFunction, function: provision, after: CreateFleet}";
const UNSENT: &str = "{at: 0s, kind: KillFunction, function: provision, after: Prepare}";

#[rustfmt::skip]
const ROWS: [Row; 12] = [
    // The six claims of the launch that cannot be closed stay as they are; the pods that come later
    // get nodes.
    Row { function: "provision", call: "Resolve", events: UNRESOLVED, all: 8, least: 2, count: running },
    Row { function: "provision", call: "Abandon", events: UNSENT, all: 8, least: 2, count: running },
    Row { function: "provision", call: "WriteStatus", events: "", all: 2, least: 1, count: shown },
    Row { function: "lifecycle", call: "ChangeNode", events: "", all: 8, least: 7, count: ready },
    Row { function: "lifecycle", call: "UpdateClaim", events: "", all: 8, least: 7, count: ready },
    // kube-scheduler takes the pod that cannot be bound.
    Row { function: "lifecycle", call: "BindPod", events: "", all: 8, least: 8, count: running },
    Row { function: "lifecycle", call: "MirrorClaim", events: "", all: 8, least: 7, count: mirrored },
    Row { function: "lifecycle", call: "Evict", events: DELETED, all: 3, least: 2, count: gone },
    Row { function: "lifecycle", call: "ReleaseNode", events: DELETED, all: 3, least: 2, count: gone },
    Row { function: "lifecycle", call: "RemoveMirror", events: DELETED, all: 8, least: 9, count: mirrored },
    Row { function: "lifecycle", call: "UpdateClaim", events: RECLAIMED, all: 3, least: 2, count: gone },
    Row { function: "interrupt", call: "Interrupt", events: WARNED, all: 3, least: 2, count: interrupted },
];

impl Row {
    fn play(&self, is_stuck: bool) -> Ending {
        let from = if self.events.starts_with("{at: 6m") { "5m" } else { "0s" };
        let stuck = format!("{{at: {from}, kind: Stuck, for: 18m, call: {}}}", self.call);
        let events =
            [is_stuck.then_some(stuck.as_str()), Some(self.events).filter(|events| !events.is_empty())];
        common::run_one_pod_per_node("18m", &events.into_iter().flatten().collect::<Vec<_>>().join(", "))
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
        let Row { function, call, all, least, count, .. } = row;
        let (sound, stuck) = (row.play(false), row.play(true));
        let story = || format!("{function} {call}\n{}", common::timeline(&stuck));
        assert_eq!(count(&sound), *all, "nothing is stuck, {function} {call}\n{}", common::timeline(&sound));
        assert_eq!(count(&stuck), *least, "{}", story());
        assert_eq!(stuck.summary.broken_laws, Vec::<String>::new(), "{}", story());
    }
}
