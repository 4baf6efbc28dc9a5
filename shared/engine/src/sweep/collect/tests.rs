//! Small worlds that do not agree with themselves, and what a sweep makes of each.

use outrigger_model::fixtures::{claim, instance, intent, node};
use outrigger_model::{IntentState, Taint};

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(10_000 + second).unwrap()
}

fn machine(id: &str, state: InstanceState) -> Machine {
    Machine::tagged(id, state, |key| (key == labels::INTENT).then(|| "over".to_owned()))
}

fn claim_of(id: &str, state: ClaimState) -> NodeClaim {
    let claim = NodeClaim { name: format!("claim-{id}"), ..claim() };
    claim.with_status(|status| {
        status.state = state;
        status.instance = Some(instance(id));
    })
}

fn node_of(id: &str, claim: Option<&str>, ready: bool) -> Node {
    let annotations = claim.map(|claim| (labels::CLAIM.to_owned(), claim.to_owned()));
    Node {
        name: id.into(),
        uid: format!("uid-{id}"),
        provider_id: Some(format!("aws:///us-east-1a/{id}")),
        annotations: annotations.into_iter().collect(),
        ready,
        ..node(Vec::new())
    }
}

fn open_intent(id: &str) -> Intent {
    Intent { id: id.into(), prepared_at: at(0), sent_at: Some(at(0)), ..intent(IntentState::Sent, 0) }
}

struct World {
    machines: Vec<Machine>,
    claims: Vec<NodeClaim>,
    intents: Vec<Intent>,
    /// The launch that the tags of all machines name, as far as the ledger knows it.
    launch: Option<Intent>,
    nodes: Vec<Node>,
    guards: Guards,
}

impl Default for World {
    fn default() -> Self {
        Self {
            machines: Vec::new(),
            claims: Vec::new(),
            intents: Vec::new(),
            launch: Some(open_intent("over")),
            nodes: Vec::new(),
            guards: Guards::default(),
        }
    }
}

impl World {
    /// Sweeps at these seconds, one after the other; what the last one does, in words.
    fn swept(&self, seconds: &[i64]) -> Vec<String> {
        let Self { machines, claims, intents, launch, nodes, guards } = self;
        let nodes = Nodes::new(nodes.iter(), claims, machines);
        let launches = [("over".to_owned(), launch.clone())].into();
        let seen = Seen { machines, claims, intents, launches: &launches, nodes: &nodes };
        let mut before = Sweep::default();
        let mut actions = Vec::new();
        for second in seconds {
            let findings = sweep(&seen, &before, *guards, at(*second));
            let orphans = findings.orphans.iter().map(|id| format!("terminate {id}"));
            let ending = findings.ending.iter().map(|end| format!("{} {}", end.cause.reason, end.claim));
            let nodes = findings.abandoned.iter().map(|node| format!("release {}", node.name));
            let breaker = findings.sweep.breaker.map(|count| format!("breaker {count}"));
            let closed = findings.closed.iter().map(|(claim, node)| format!("open {} of {claim}", node.name));
            actions = orphans.chain(ending).chain(nodes).chain(closed).chain(breaker).collect();
            before = findings.sweep;
        }
        actions
    }
}

#[test]
fn an_orphan_is_terminated_once_two_sweeps_agree() {
    let orphan = || World { machines: vec![machine("i-1", InstanceState::Running)], ..World::default() };
    assert_eq!(orphan().swept(&[0]), [""; 0]);
    assert_eq!(orphan().swept(&[0, 54]), [""; 0]);
    assert_eq!(orphan().swept(&[0, 30, 60]), ["terminate i-1"]);
    assert_eq!(orphan().swept(&[0, 150]), ["terminate i-1"]);
    assert_eq!(orphan().swept(&[0, 151]), [""; 0], "the table may have been restored in between");
    let hasty = Guards::default().without(Guard::TwoSweeps);
    assert_eq!(World { guards: hasty, ..orphan() }.swept(&[0]), ["terminate i-1"]);
}

#[test]
fn what_is_accounted_for_or_is_not_ours_is_no_orphan() {
    let running = || vec![machine("i-1", InstanceState::Running)];
    let worlds = [
        World {
            claims: vec![claim_of("i-1", ClaimState::Launched)],
            machines: running(),
            ..World::default()
        },
        World { intents: vec![open_intent("over")], machines: running(), ..World::default() },
        World {
            machines: vec![Machine { intent: None, ..machine("i-1", InstanceState::Running) }],
            ..World::default()
        },
        World {
            machines: vec![Machine { foreign_tag: Some("k8s.io/role/master"), ..running().remove(0) }],
            ..World::default()
        },
        World { machines: vec![machine("i-1", InstanceState::ShuttingDown)], ..World::default() },
        World { nodes: vec![node_of("i-1", Some("lost"), true)], machines: running(), ..World::default() },
    ];
    for (index, world) in worlds.iter().enumerate() {
        assert_eq!(world.swept(&[0, 60, 120]), [""; 0], "world {index}");
    }
    let deleted = Node { deleting: true, ..node_of("i-1", Some("lost"), true) };
    let wanted_gone = World { nodes: vec![deleted], machines: running(), ..World::default() };
    assert_eq!(wanted_gone.swept(&[0, 60]), ["terminate i-1"]);
}

#[test]
fn claims_end_when_their_instance_has() {
    use InstanceState::{Running, ShuttingDown, Stopped, Terminated};
    // Claim, what EC2 shows, the node's readiness (none: no node), seconds of the sweeps, what the
    // last one does.
    let table = [
        (ClaimState::Launched, Some(Terminated), None, vec![0], vec!["InstanceGone claim-i-1"]),
        (ClaimState::Initialized, Some(ShuttingDown), Some(true), vec![0], vec!["InstanceGone claim-i-1"]),
        (ClaimState::Draining, Some(Terminated), Some(false), vec![0], vec!["InstanceGone claim-i-1"]),
        (ClaimState::Terminating, Some(Terminated), Some(false), vec![0], vec![]),
        (ClaimState::Initialized, Some(Stopped), Some(false), vec![0], vec!["Lost claim-i-1"]),
        (ClaimState::Draining, Some(Stopped), Some(false), vec![0], vec![]),
        (ClaimState::Initialized, Some(Running), None, vec![0], vec![]),
        (ClaimState::Initialized, Some(Running), None, vec![0, 60], vec!["Lost claim-i-1"]),
        (ClaimState::Launched, Some(Running), None, vec![0, 60], vec![]),
        (ClaimState::Initialized, None, Some(false), vec![0, 150, 299], vec![]),
        (ClaimState::Initialized, None, Some(false), vec![0, 150, 300], vec!["InstanceGone claim-i-1"]),
        (ClaimState::Initialized, None, Some(true), vec![0, 150, 300], vec![]),
        (ClaimState::Launched, None, None, vec![0, 150, 300], vec![]),
    ];
    for (state, shown, ready, seconds, expected) in table {
        let world = World {
            machines: shown.map(|state| machine("i-1", state)).into_iter().collect(),
            claims: vec![claim_of("i-1", state)],
            nodes: ready.map(|ready| node_of("i-1", Some("claim-i-1"), ready)).into_iter().collect(),
            ..World::default()
        };
        assert_eq!(world.swept(&seconds), expected, "{state:?} {shown:?} {ready:?}");
    }
}

#[test]
fn what_turned_up_again_was_never_missed() {
    let claims = vec![claim_of("i-1", ClaimState::Initialized)];
    let nodes = [node_of("i-1", Some("claim-i-1"), false)];
    let nodes = Nodes::new(nodes.iter(), &[], &[]);
    let shown = [machine("i-1", InstanceState::Running)];
    let look = |machines: &[Machine], before: &Sweep, second| {
        let launches = BTreeMap::new();
        let seen = Seen { machines, claims: &claims, intents: &[], launches: &launches, nodes: &nodes };
        let findings = sweep(&seen, before, Guards::default(), at(second));
        assert_eq!(findings.ending.len(), 0);
        findings.sweep
    };
    let missed = look(&[], &Sweep::default(), 0);
    assert_eq!(missed.missing.len(), 1);
    let back = look(&shown, &missed, 200);
    assert_eq!(back.missing.len(), 0);
    look(&[], &back, 310);
}

#[test]
fn nodes_of_ours_are_released_when_nothing_stands_behind_them() {
    let world = |shown: Option<InstanceState>, claim: Option<&str>, ready: bool| World {
        machines: shown.map(|state| machine("i-1", state)).into_iter().collect(),
        nodes: vec![node_of("i-1", claim, ready)],
        ..World::default()
    };
    let terminated = Some(InstanceState::Terminated);
    assert_eq!(world(terminated, Some("over"), true).swept(&[0]), [""; 0]);
    assert_eq!(world(terminated, Some("over"), true).swept(&[0, 60]), ["release i-1"]);
    assert_eq!(world(terminated, None, true).swept(&[0, 60]), ["release i-1"], "ours by its instance");
    assert_eq!(world(None, Some("over"), false).swept(&[0, 150, 299]), [""; 0]);
    assert_eq!(world(None, Some("over"), false).swept(&[0, 150, 300]), ["release i-1"]);
    assert_eq!(world(None, Some("over"), true).swept(&[0, 150, 300]), [""; 0], "a node that is ready lives");
    assert_eq!(world(None, None, false).swept(&[0, 150, 300]), [""; 0], "Karpenter's, or nobody's");
    assert_eq!(world(Some(InstanceState::ShuttingDown), Some("over"), false).swept(&[0, 150, 300]), [""; 0]);
}

/// What an earlier sweep found amiss about a node says nothing about another of its name.
#[test]
fn a_node_with_the_name_of_a_dead_one_is_looked_at_anew() {
    let nodes = |uid: &str| [Node { uid: uid.into(), ..node_of("i-1", Some("over"), false) }];
    let released = |nodes: &[Node], before: &Sweep, second| {
        let (launches, nodes) = (BTreeMap::new(), Nodes::new(nodes.iter(), &[], &[]));
        let seen = Seen { machines: &[], claims: &[], intents: &[], launches: &launches, nodes: &nodes };
        let findings = sweep(&seen, before, Guards::default(), at(second));
        (findings.abandoned.len(), findings.sweep)
    };
    let (none, first) = released(&nodes("first"), &Sweep::default(), 0);
    let (_, first) = released(&nodes("first"), &first, 150);
    assert_eq!((none, released(&nodes("first"), &first, 300).0), (0, 1));
    assert_eq!(released(&nodes("second"), &first, 300).0, 0, "another node of that name");
}

#[test]
fn a_sweep_that_would_end_too_much_does_nothing() {
    let orphans = |count: usize, claimed: usize| World {
        machines: (0..count + claimed).map(|n| machine(&format!("i-{n}"), InstanceState::Running)).collect(),
        claims: (count..count + claimed).map(|n| claim_of(&format!("i-{n}"), ClaimState::Launched)).collect(),
        ..World::default()
    };
    assert_eq!(orphans(3, 0).swept(&[0, 60]).len(), 3);
    assert_eq!(orphans(4, 0).swept(&[0, 60]), ["breaker 4"]);
    assert_eq!(orphans(4, 35).swept(&[0, 60]), ["breaker 4"]);
    assert_eq!(orphans(4, 36).swept(&[0, 60]).len(), 4);
    let operator = Guards::default().without(Guard::Breaker);
    assert_eq!(World { guards: operator, ..orphans(4, 0) }.swept(&[0, 60]).len(), 4);
    let mut reclaimed = orphans(0, 5);
    for machine in &mut reclaimed.machines {
        machine.state = InstanceState::Terminated;
    }
    assert_eq!(reclaimed.swept(&[0]).len(), 5, "what EC2 says itself needs no breaker");
}

#[test]
fn when_most_nodes_are_not_ready_absence_proves_nothing() {
    let ids = ["i-1", "i-2", "i-3", "i-4", "i-5"];
    let world = World {
        claims: vec![claim_of("i-1", ClaimState::Initialized)],
        nodes: ids.iter().map(|id| node_of(id, None, false)).collect(),
        ..World::default()
    };
    assert_eq!(world.swept(&[0, 150, 300, 450, 600]), [""; 0]);
}

#[test]
fn when_most_nodes_are_not_ready_only_ec2_is_believed() {
    let dead = |id: &str| Node { labels: BTreeMap::new(), ..node_of(id, None, false) };
    let unready: Vec<Node> = ["i-5", "i-6", "i-7", "i-8"].map(dead).into();
    let world = || World {
        machines: vec![
            machine("i-1", InstanceState::Running),
            machine("i-2", InstanceState::Running),
            machine("i-3", InstanceState::Terminated),
        ],
        claims: vec![
            claim_of("i-2", ClaimState::Initialized),
            claim_of("i-3", ClaimState::Initialized),
            claim_of("i-4", ClaimState::Initialized),
        ],
        nodes: unready.iter().cloned().chain([node_of("i-9", Some("over"), false)]).collect(),
        ..World::default()
    };
    assert_eq!(world().swept(&[0, 150, 300, 450, 600]), ["InstanceGone claim-i-3"]);
    let blind = Guards::default().without(Guard::Partition);
    let expected = [
        "terminate i-1",
        "Lost claim-i-2",
        "InstanceGone claim-i-3",
        "InstanceGone claim-i-4",
        "release i-9",
    ];
    assert_eq!(World { guards: blind, ..world() }.swept(&[0, 150, 300, 450, 600]), expected);
}

#[test]
fn a_node_is_opened_again_once_two_sweeps_agree_that_nobody_drains_it() {
    let world = |state: ClaimState, taint: bool| World {
        machines: vec![machine("i-1", InstanceState::Running)],
        claims: vec![claim_of("i-1", state)],
        nodes: vec![Node {
            taints: taint.then(Taint::disrupted).into_iter().collect(),
            ..node_of("i-1", Some("claim-i-1"), true)
        }],
        ..World::default()
    };
    let open = ["open i-1 of claim-i-1"];
    assert_eq!(world(ClaimState::Initialized, true).swept(&[0, 54]), [""; 0]);
    assert_eq!(world(ClaimState::Initialized, true).swept(&[0, 60]), open);
    assert_eq!(world(ClaimState::Registered, true).swept(&[0, 60]), open);
    assert_eq!(world(ClaimState::Initialized, true).swept(&[0, 60, 70]), [""; 0], "closed anew");
    assert_eq!(world(ClaimState::Initialized, false).swept(&[0, 60]), [""; 0]);
    assert_eq!(world(ClaimState::Draining, true).swept(&[0, 60]), [""; 0]);
    assert_eq!(world(ClaimState::Terminating, true).swept(&[0, 60]), [""; 0]);
}

#[test]
fn tags_alone_end_no_instance() {
    let launched = |second: i64| {
        let machine = machine("i-1", InstanceState::Running);
        vec![Machine { launched_at: Some(at(second)), ..machine }]
    };
    let prepared = |second: i64| Some(Intent { prepared_at: at(second), ..open_intent("over") });
    // When the instance was launched, the launch that the ledger knows, and what two sweeps do.
    let table = [
        (0, None, ""),
        (0, prepared(1_000), ""),
        (939, prepared(1_000), ""),
        (940, prepared(1_000), "terminate i-1"),
        (5_000, prepared(1_000), "terminate i-1"),
    ];
    for (second, launch, expected) in table {
        let world = World { machines: launched(second), launch, ..World::default() };
        assert_eq!(world.swept(&[6_000, 6_060]).join(""), expected, "{second}");
    }
}
