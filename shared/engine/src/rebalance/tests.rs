//! The rules as tables; whole replacements are played in the simulation.

use super::*;
use crate::leaving::tests::pod;
use crate::register::tests::{claim, node};
use outrigger_model::{ExistingPlacement, NominatedPod, Protection};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn marked(state: ClaimState, replacements: Option<&[&str]>) -> NodeClaim {
    let replacements = replacements.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    NodeClaim { state, rebalance: Some(Rebalance { since: at(0), replacements }), ..claim() }
}

#[test]
fn a_marked_claim_drains_when_all_that_replaces_it_is_ready_and_never_waits_for_long() {
    use ClaimState::{Draining, Initialized};
    let ready = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    let table = [
        (claim(), 0, "None"),
        (marked(Draining, Some(&["a"])), 0, "None"),
        (marked(Initialized, None), 599, "Wait"),
        (marked(Initialized, Some(&[])), 0, "Drain"),
        (marked(Initialized, Some(&["a", "b"])), 599, "Drain"),
        (marked(Initialized, Some(&["a", "c"])), 599, "Wait(\"c, which"),
        (marked(Initialized, Some(&["a"])), 600, "GiveUp"),
        (marked(Initialized, None), 600, "GiveUp"),
    ];
    for (claim, second, expected) in table {
        let found = step(&claim, &ready, at(second)).map_or("None".to_owned(), |step| format!("{step:?}"));
        assert!(found.starts_with(expected), "{found}: {:?} at {second}", claim.rebalance);
    }
}

#[test]
fn a_node_is_kept_by_its_own_wish_and_by_those_of_its_pods() {
    let staying = Staying { budgets: &[], now: at(0) };
    let shy = |owner: &str| Pod {
        do_not_disrupt: Some(Box::new(Protection { value: "true".into(), started_at: None })),
        ..pod(owner, PodState::Bound)
    };
    let (open, finished) = (node(Vec::new()), Pod { state: PodState::Finished, ..shy("ReplicaSet") });
    let mut own = open.clone();
    own.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    let table = [
        (&open, pod("ReplicaSet", PodState::Bound), false),
        (&open, shy("ReplicaSet"), true),
        (&open, shy("Node"), false),
        (&open, finished, false),
        (&own, pod("ReplicaSet", PodState::Bound), true),
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
    let replaced = marked(ClaimState::Initialized, None);
    snapshot.nodes = vec![old, place];
    snapshot.claims = vec![replaced.clone(), joining];
    snapshot.pods = vec![pod("ReplicaSet", PodState::Bound)];
    let staying = Staying { budgets: &[], now: at(0) };
    let found = |snapshot: &Snapshot, target: Option<Target>| {
        let who = NominatedPod { pod: snapshot.pods[0].id.clone(), uid: snapshot.pods[0].uid.clone() };
        let existing = target.map(|target| ExistingPlacement { target, pods: vec![who] });
        let plan = Plan { existing: existing.into_iter().collect(), ..Plan::nothing(at(0), 0) };
        replacements(&replaced, snapshot, &plan, &Outcome::default())
    };
    assert_eq!(found(&snapshot, None), None, "nobody has closed it");
    close_in(&mut snapshot, &staying);
    assert!(is_closed(&snapshot.nodes[0]) && !is_closed(&snapshot.nodes[1]));
    assert_eq!(found(&snapshot, None), Some(Vec::new()), "nobody leaves it");
    snapshot.pods[0].state = PodState::Leaving;
    assert_eq!(found(&snapshot, None), None, "the pod has no place");
    let on_node = || Some(Target::Node("i-2".into()));
    assert_eq!(found(&snapshot, on_node()), Some(vec!["new".into()]));
    assert_eq!(found(&snapshot, Some(Target::Claim("flying".into()))), Some(vec!["flying".into()]));
    snapshot.claims[1].state = ClaimState::Initialized;
    assert_eq!(found(&snapshot, on_node()), Some(Vec::new()));
}
