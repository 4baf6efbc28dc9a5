//! The rules as tables; whole replacements are played in the simulation.

use super::*;
use crate::fixtures::pod_on_node;
use crate::fixtures::{claim, node};
use outrigger_model::{ExistingPlacement, NominatedPod, Protection};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn command(replacements: Option<&[&str]>) -> Command {
    let replacements = replacements.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    let new = Command::new(TerminationReason::Rebalanced, "test", vec![claim().name], at(0));
    Command { replacements, ..new }
}

fn held_by(command: &Command, state: ClaimState) -> NodeClaim {
    NodeClaim { state, command: Some(command.id.clone()), ..claim() }
}

#[test]
fn a_command_is_carried_out_when_all_that_replaces_its_nodes_is_ready_and_never_waits_for_long() {
    let ready = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    let table: [(Option<&[&str]>, i64, &str); 7] = [
        (None, 599, "Wait"),
        (Some(&[]), 0, "Drain"),
        (Some(&["a", "b"]), 599, "Drain"),
        (Some(&["a", "c"]), 599, "Wait(\"c, which"),
        (Some(&["a"]), 600, "GiveUp"),
        (None, 600, "GiveUp"),
        (Some(&[]), -1, "Drain"),
    ];
    for (replacements, second, expected) in table {
        let found = format!("{:?}", step(&command(replacements), &ready, at(second)));
        assert!(found.starts_with(expected), "{found}: {replacements:?} at {second}");
    }
}

#[test]
fn a_claim_is_held_by_its_own_command_until_its_end_begins() {
    let (own, other) = (command(None), Command { id: "other".into(), ..command(None) });
    let table = [
        (held_by(&own, ClaimState::Initialized), 599, true),
        (held_by(&own, ClaimState::Initialized), 600, false),
        (held_by(&own, ClaimState::Draining), 0, false),
        (held_by(&other, ClaimState::Initialized), 0, false),
        (NodeClaim { state: ClaimState::Initialized, ..claim() }, 0, false),
    ];
    for (claim, second, expected) in table {
        let found = held(std::slice::from_ref(&claim), std::slice::from_ref(&own), at(second)).count();
        assert_eq!(found == 1, expected, "{:?} {:?} at {second}", claim.state, claim.command);
    }
}

#[test]
fn a_node_is_kept_by_its_own_wish_and_by_those_of_its_pods() {
    let staying = Staying { budgets: &[], now: at(0) };
    let shy = |owner: &str| Pod {
        do_not_disrupt: Some(Box::new(Protection { value: "true".into(), started_at: None })),
        ..pod_on_node(owner, PodState::Bound)
    };
    let (open, finished) = (node(Vec::new()), Pod { state: PodState::Finished, ..shy("ReplicaSet") });
    let mut own = open.clone();
    own.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    let table = [
        (&open, pod_on_node("ReplicaSet", PodState::Bound), false),
        (&open, shy("ReplicaSet"), true),
        (&open, shy("Node"), false),
        (&open, finished, false),
        (&own, pod_on_node("ReplicaSet", PodState::Bound), true),
    ];
    for (node, pod, kept) in table {
        assert_eq!(kept_by(node, [&pod], &staying).is_some(), kept, "{:?} {pod:?}", node.annotations);
    }
}

#[test]
fn what_pods_wait_for_is_what_is_not_ready_yet() {
    let (mut place, mut joining) = (node(Vec::new()), claim());
    (place.name, place.provider_id) = ("i-2".into(), Some("aws:///us-east-1a/i-2".into()));
    (joining.name, joining.state) = ("new".into(), ClaimState::Registered);
    joining.instance.as_mut().unwrap().id = "i-2".into();
    let mut old = node(Vec::new());
    old.annotations.insert(labels::CLAIM.into(), "web-1".into());
    let mut snapshot = Snapshot::empty("c", at(0));
    let command = command(None);
    snapshot.nodes = vec![old, place];
    snapshot.claims = vec![held_by(&command, ClaimState::Initialized), joining];
    snapshot.commands = vec![command.clone()];
    snapshot.pods = vec![pod_on_node("ReplicaSet", PodState::Bound)];
    let staying = Staying { budgets: &[], now: at(0) };
    let found = |snapshot: &Snapshot, target: Option<Target>| {
        let who = NominatedPod { pod: snapshot.pods[0].id.clone(), uid: snapshot.pods[0].uid.clone() };
        let existing = target.map(|target| ExistingPlacement { target, pods: vec![who] });
        let plan = Plan { existing: existing.into_iter().collect(), ..Plan::nothing(at(0), 0) };
        replacements(&command, snapshot, &places(snapshot, &plan, &Outcome::default()))
    };
    assert_eq!(found(&snapshot, None), None, "nobody has closed it");
    close_in(&mut snapshot, &staying);
    assert!(snapshot.nodes[0].is_disrupted() && !snapshot.nodes[1].is_disrupted());
    assert_eq!(found(&snapshot, None), Some(Vec::new()), "nobody leaves it");
    snapshot.pods[0].state = PodState::Leaving;
    assert_eq!(found(&snapshot, None), None, "the pod has no place");
    let on_node = || Some(Target::Node("i-2".into()));
    assert_eq!(found(&snapshot, on_node()), Some(vec!["new".into()]));
    assert_eq!(found(&snapshot, Some(Target::Claim("flying".into()))), Some(vec!["flying".into()]));
    snapshot.claims[1].state = ClaimState::Initialized;
    assert_eq!(found(&snapshot, on_node()), Some(Vec::new()));
    snapshot.claims[1].command = Some(command.id.clone());
    let flying = || Some(Target::Claim("flying".into()));
    assert_eq!(found(&snapshot, flying()), None, "the node of its second claim is open");
    close_in(&mut snapshot, &staying);
    assert_eq!(found(&snapshot, flying()), Some(vec!["flying".into()]));
}
