//! The rules as tables; whole replacements are played in the simulation.

use outrigger_model::fixtures::{at, claim, node, unread};
use outrigger_model::{
    ExistingPlacement, NillableDuration, NodePool, NominatedPod, Protection, Termination, TerminationReason,
    labels,
};

use super::*;
use crate::fixtures::{pod, snapshot};

fn command(replacements: Option<&[&str]>) -> Command {
    let replacements = replacements.map(|names| names.iter().map(|&name| name.to_owned()).collect());
    let new = Command::new(TerminationReason::Rebalanced, "test", vec![claim().name], at(0));
    Command { replacements, ..new }
}

fn held_by(command: &Command, state: ClaimState) -> NodeClaim {
    claim().with_status(|status| {
        status.state = state;
        status.command = Some(command.id.clone());
    })
}

#[test]
fn a_command_is_carried_out_when_all_that_replaces_its_nodes_is_ready_and_never_waits_for_long() {
    let ready = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    let missing = |name: &str| CommandStep::Wait(WaitsFor::Replacements(vec![name.to_owned()]));
    let table: [(Option<&[&str]>, i64, CommandStep); 7] = [
        (None, 599, CommandStep::Wait(WaitsFor::Places)),
        (Some(&[]), 0, CommandStep::Drain),
        (Some(&["a", "b"]), 599, CommandStep::Drain),
        (Some(&["a", "c"]), 599, missing("c")),
        (Some(&["a"]), 600, CommandStep::GiveUp),
        (None, 600, CommandStep::GiveUp),
        (Some(&[]), -1, CommandStep::Drain),
    ];
    for (replacements, second, expected) in table {
        let actual = step(&command(replacements), &ready, at(second));
        assert_eq!(actual, expected, "{replacements:?} at {second}");
    }
}

#[test]
fn a_claim_is_held_by_its_own_command_until_its_end_begins() {
    let (holder, other) = (command(None), Command { id: "other".into(), ..command(None) });
    let table = [
        (held_by(&holder, ClaimState::Initialized), 599, true),
        (held_by(&holder, ClaimState::Initialized), 600, false),
        (held_by(&holder, ClaimState::Draining), 0, false),
        (held_by(&other, ClaimState::Initialized), 0, false),
        (claim().with_status(|status| status.state = ClaimState::Initialized), 0, false),
    ];
    for (claim, second, expected) in table {
        let held_claims =
            held(std::slice::from_ref(&claim), std::slice::from_ref(&holder), at(second)).count();
        assert_eq!(
            held_claims == 1,
            expected,
            "{:?} {:?} at {second}",
            claim.status.state,
            claim.status.command
        );
    }
}

#[test]
fn what_replaces_nodes_awaits_their_pods_until_they_are_gone() {
    let command = command(Some(&["new"]));
    let ended = |state| {
        claim().with_status(|status| {
            status.state = state;
            let end = Termination::new(command.reason, "test", at(0));
            status.termination = Some(Termination { replaced_by: vec!["new".into()], ..end });
        })
    };
    let table = [
        (vec![], Some(&command), 599, true),
        (vec![], Some(&command), 600, false),
        (vec![ended(ClaimState::Draining)], None, 0, true),
        (vec![ended(ClaimState::Terminating)], None, 0, true),
        (vec![ended(ClaimState::Gone)], None, 0, false),
    ];
    for (claims, command, second, expected) in table {
        let commands: Vec<Command> = command.into_iter().cloned().collect();
        let is_awaited = awaiting(&claims, &commands, at(second)).any(|name| name == "new");
        assert_eq!(is_awaited, expected, "{claims:?} {commands:?} at {second}");
    }
}

#[test]
fn a_node_waits_until_each_of_its_pods_has_a_place() {
    let Pod { id, uid, .. } = pod("ReplicaSet", PodState::Bound);
    let holding = |name: &str| {
        let mut claim = NodeClaim { name: name.into(), ..claim() };
        claim.status.nominated.push(NominatedPod { pod: id.clone(), uid: uid.clone() });
        claim
    };
    let on_ready = Command { placed: vec![uid.clone()], ..command(Some(&[])) };
    let table = [
        (command(Some(&["new"])), holding("new"), pod("ReplicaSet", PodState::Bound), false),
        (command(Some(&["new"])), holding("other"), pod("ReplicaSet", PodState::Bound), true),
        (command(Some(&[])), holding("new"), pod("ReplicaSet", PodState::Bound), true),
        (on_ready, claim(), pod("ReplicaSet", PodState::Bound), false),
        (command(Some(&[])), claim(), pod("DaemonSet", PodState::Bound), false),
        (command(Some(&[])), claim(), pod("ReplicaSet", PodState::Terminating), false),
        (command(Some(&[])), claim(), pod("ReplicaSet", PodState::Finished), false),
    ];
    for (command, claim, pod, waits) in table {
        let rules = EvictionRules { budgets: &[], now: at(0) };
        let actual = unplaced(&placed(&command, &[claim]), [&pod], rules);
        let expected = waits.then(|| DisruptionBlocker::Unplaced(pod.id.clone()));
        assert_eq!(actual, expected, "{command:?} {pod:?}");
    }
}

#[test]
fn a_node_is_kept_by_its_own_wish_and_by_those_of_its_pods() {
    let rules = EvictionRules { budgets: &[], now: at(0) };
    let shy = |owner: &str| Pod {
        do_not_disrupt: Some(Box::new(Protection { value: "true".into(), started_at: None })),
        ..pod(owner, PodState::Bound)
    };
    let (open, finished) = (node(Vec::new()), Pod { state: PodState::Finished, ..shy("ReplicaSet") });
    let protected = kept(open.clone());
    let table = [
        (&open, pod("ReplicaSet", PodState::Bound), None),
        (&open, shy("ReplicaSet"), Some("the pod default/p asks not to be disrupted")),
        (&open, shy("Node"), Some("the pod default/p asks not to be disrupted")),
        (&open, finished, None),
        (&protected, pod("ReplicaSet", PodState::Bound), Some("the node i-1 asks not to be disrupted")),
    ];
    for (node, pod, expected) in table {
        let actual = blocker(node, [&pod], rules).map(|why| why.to_string());
        assert_eq!(actual.as_deref(), expected, "{:?} {pod:?}", node.annotations);
    }
}

#[test]
fn a_last_look_that_finds_what_cannot_be_read_keeps_the_node() {
    let rules = EvictionRules { budgets: &[], now: at(0) };
    let odd = |owner: &str| Pod { degraded: unread("Pod/default/p"), ..pod(owner, PodState::Bound) };
    let (open, unread_node) = (node(Vec::new()), Node { degraded: unread("Node/i-1"), ..node(Vec::new()) });
    let table = [
        (&open, pod("ReplicaSet", PodState::Bound), None),
        (&open, odd("ReplicaSet"), Some("Pod/default/p")),
        (&open, odd("DaemonSet"), None),
        (&unread_node, pod("ReplicaSet", PodState::Bound), Some("Node/i-1")),
    ];
    for (reason, table) in
        [TerminationReason::Underutilized, TerminationReason::Drifted].map(|reason| (reason, &table))
    {
        let command = Command::new(reason, "test", vec![claim().name], at(0));
        for (node, pod, expected) in table {
            let blocker = command_blocker(&command, &claim(), node, [pod], rules);
            let actual = blocker.map(|why| match why {
                DisruptionBlocker::Unreadable(problem) => problem.object,
                other => other.to_string(),
            });
            assert_eq!(actual.as_deref(), *expected, "{reason} {pod:?}");
        }
    }
}

/// The node, when it asks not to be disrupted.
fn kept(mut node: Node) -> Node {
    node.annotations.insert(labels::DO_NOT_DISRUPT.into(), "true".into());
    node
}

/// A world in which a command holds the claim of `i-1`, on which a pod runs, while `i-2` joins.
fn replacing() -> Snapshot {
    let (mut joining, mut joining_node, command) = (claim(), node(Vec::new()), command(None));
    (joining_node.name, joining_node.provider_id) = ("i-2".into(), Some("aws:///us-east-1a/i-2".into()));
    (joining.name, joining.status.state) = ("new".into(), ClaimState::Registered);
    joining.status.instance.as_mut().unwrap().id = "i-2".into();
    let mut snapshot = snapshot();
    snapshot.nodes[0].annotations.insert(labels::CLAIM.into(), "web-1".into());
    snapshot.nodes.push(joining_node);
    snapshot.claims = vec![held_by(&command, ClaimState::Initialized), joining];
    snapshot.commands = vec![command];
    snapshot.pods = vec![pod("ReplicaSet", PodState::Bound)];
    snapshot
}

/// What the pods of the command's nodes wait for when the pod is to go there.
fn waits_for(snapshot: &Snapshot, target: Option<Target>) -> Option<Vec<String>> {
    let who = NominatedPod { pod: snapshot.pods[0].id.clone(), uid: snapshot.pods[0].uid.clone() };
    let existing = target.map(|target| ExistingPlacement { target, pods: vec![who] });
    let plan = Plan { existing: existing.into_iter().collect(), ..Plan::nothing(at(0), 0) };
    let noted = noted(snapshot, &plan, |_| false);
    noted.into_iter().next().and_then(|command| command.replacements)
}

#[test]
fn what_pods_wait_for_is_what_is_not_ready_yet() {
    let mut snapshot = replacing();
    let on_node = || Some(Target::Node("i-2".into()));
    let flying = || Some(Target::Claim("flying".into()));
    assert_eq!(waits_for(&snapshot, None), None, "the pod has no place");
    assert_eq!(waits_for(&snapshot, on_node()), Some(vec!["new".into()]));
    assert_eq!(waits_for(&snapshot, flying()), Some(vec!["flying".into()]));
    snapshot.claims[1].status.state = ClaimState::Initialized;
    assert_eq!(waits_for(&snapshot, on_node()), Some(Vec::new()));
    snapshot.claims[1].status.command = Some(snapshot.commands[0].id.clone());
    assert_eq!(waits_for(&snapshot, flying()), Some(vec!["flying".into()]));
    snapshot.nodes[1] = kept(snapshot.nodes[1].clone());
    assert_eq!(waits_for(&snapshot, flying()), None, "the node of its second claim is kept");
}

#[test]
fn a_command_is_noted_once_and_not_where_its_node_is_kept() {
    let mut snapshot = replacing();
    snapshot.pods[0].state = PodState::Finished;
    assert_eq!(waits_for(&snapshot, None), Some(Vec::new()), "nobody leaves it");
    snapshot.commands[0].replacements = Some(Vec::new());
    let nothing = Plan::nothing(at(0), 0);
    assert!(noted(&snapshot, &nothing, |_| false).is_empty(), "that is known");
    snapshot.nodes[0] = kept(snapshot.nodes[0].clone());
    let noted = noted(&snapshot, &nothing, |_| false);
    assert_eq!(noted[0].replacements, None, "its node is kept now");
}

#[test]
fn a_node_of_a_static_pool_goes_once_another_has_taken_its_place() {
    let mut snapshot = replacing();
    snapshot.pods.clear();
    snapshot.commands[0].reason = TerminationReason::Drifted;
    let waits_for = |snapshot: &Snapshot| {
        let noted = noted(snapshot, &Plan::nothing(at(0), 0), |_| false);
        noted.into_iter().next().and_then(|command| command.replacements)
    };
    assert_eq!(waits_for(&snapshot), Some(Vec::new()), "no pool has a fixed number");
    let mut pool = NodePool::bare("web", claim().spec.node_class);
    pool.spec.replicas = Some(1);
    snapshot.node_pools.push(pool);
    assert_eq!(waits_for(&snapshot), Some(vec!["new".into()]), "the other one is yet to be ready");
    snapshot.claims[1].status.state = ClaimState::Initialized;
    assert_eq!(waits_for(&snapshot), Some(Vec::new()));
    snapshot.claims.pop();
    assert_eq!(waits_for(&snapshot), None, "there is no other one yet");
}

#[test]
fn what_a_command_heeds_on_its_nodes_hangs_on_its_reason() {
    use TerminationReason::{Drifted, Empty, Underutilized};
    let rules = EvictionRules { budgets: &[], now: at(0) };
    let shy = Pod {
        do_not_disrupt: Some(Box::new(Protection { value: "true".into(), started_at: None })),
        ..pod("ReplicaSet", PodState::Bound)
    };
    let (plain, daemon) = (pod("ReplicaSet", PodState::Bound), pod("DaemonSet", PodState::Bound));
    let ending = Pod { state: PodState::Terminating, ..shy.clone() };
    let of_set = pod("StatefulSet", PodState::Terminating);
    // The reason, whether the drain ends by a time, the pod on the node, and whether that keeps it.
    let table = [
        (Underutilized, false, &plain, false),
        (Underutilized, true, &shy, true),
        (Drifted, false, &shy, true),
        (Drifted, true, &shy, false),
        (Empty, false, &daemon, false),
        (Empty, false, &plain, true),
        (Empty, false, &ending, false),
        (Empty, false, &of_set, true),
        (Drifted, false, &ending, false),
    ];
    for (reason, ends, pod, keeps) in table {
        let command = Command { reason, ..command(None) };
        let mut claim = held_by(&command, ClaimState::Initialized);
        claim.spec.termination_grace_period = ends.then(|| NillableDuration::seconds(60));
        let blocker = command_blocker(&command, &claim, &node(Vec::new()), [pod], rules);
        assert_eq!(blocker.is_some(), keeps, "{reason} {ends} {pod:?}");
        let asked = command_blocker(&command, &claim, &kept(node(Vec::new())), [], rules);
        assert!(asked.is_some(), "its own wish counts whatever the reason");
    }
}
