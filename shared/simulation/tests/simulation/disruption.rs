//! Nodes that are given up by choice: what is not worth its price goes, what has drifted is
//! replaced first, and whatever keeps a node keeps it.

use std::time::Duration;

use jiff::Timestamp;
use outrigger_model::{ClaimState, NodeClaim, PauseScope, TerminationReason, labels};
use outrigger_simulation::EventKind::{Duplicate, Freeze, Pause, RogueBinding, UpdateImages};
use outrigger_simulation::{Call, Ending, Event, Function};
use serde_json::{Value, json};

use crate::common::{self, Pool, Workload, World, at, drought, max_unavailable, minutes, seconds, throttle};

/// Nodes on demand that have room for four pods each, and that nobody waits for.
fn pool(disruption: Value) -> Pool {
    let pool = Pool::new("general").annotate(labels::PATIENCE, "0").annotate(labels::DRIFT_DEADLINE, "0s");
    pool.spec("disruption", disruption).of_m6a_large()
}

/// Pods that fill two nodes.
fn web(scale: &[(Duration, u32)]) -> Workload {
    Workload::new("web", 8, "430m", "1Gi").labelled().grace(20).scale(scale)
}

/// Pods that fill two more.
fn api(scale: &[(Duration, u32)]) -> Workload {
    Workload::new("api", 8, "430m", "1Gi").scale(scale)
}

fn world(pool: Pool, web: Workload) -> World {
    World::new("disruption", minutes(20)).disrupts().pool(pool).cni().workload(web)
}

/// Nodes all of which may go at once.
fn unbound(web: Workload) -> World {
    world(pool(json!({"budgets": [{"nodes": "100%"}]})), web)
}

/// Five of eight pods are left.
const SHRINKS: &[(Duration, u32)] = &[(seconds(150), 5)];
const DRIFTS: Event = at(minutes(4), UpdateImages);

/// No law is broken, all pods run, no command is left, and so many nodes are there and open.
fn check(ending: &Ending, nodes: usize, what: &str) {
    let story = || format!("{what}\n{}\n{:?}", common::timeline(ending), ending.published);
    common::check_expected(ending, what);
    assert_eq!(ending.commands, Vec::new(), "{}", story());
    let living: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| !claim.status.state.is_terminal()).collect();
    let is_at_rest =
        |claim: &&&NodeClaim| claim.status.state == ClaimState::Initialized && claim.status.command.is_none();
    assert_eq!(living.iter().filter(is_at_rest).count(), living.len(), "{}", story());
    assert_eq!((living.len(), ending.instances.len()), (nodes, nodes), "{}", story());
    assert!(ending.nodes.iter().all(|node| !node.is_disrupted()), "{}", story());
}

/// The claims that ended for a reason, in the order in which their ends began.
fn ended(ending: &Ending, reason: TerminationReason) -> Vec<&NodeClaim> {
    let for_it =
        |claim: &&NodeClaim| claim.status.termination.as_ref().is_some_and(|end| end.reason == reason);
    let mut ended: Vec<&NodeClaim> = ending.claims.iter().filter(for_it).collect();
    ended.sort_by_key(|claim| claim.status.termination.as_ref().map(|end| end.since));
    ended
}

/// The second of the world in which a claim's end began.
fn end_second(claim: &NodeClaim) -> u64 {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a time");
    let since = claim.status.termination.as_ref().map_or(begin, |end| end.since);
    Duration::try_from(since.duration_since(begin)).expect("a time of the world").as_secs()
}

fn is_published(ending: &Ending, words: &str) -> bool {
    ending.published.iter().any(|(about, _, text)| about.contains("node") && text.contains(words))
}

#[test]
fn a_half_empty_cluster_shrinks_and_comes_to_rest() {
    let world = unbound(web(SHRINKS)).workload(api(SHRINKS));
    for seed in 1..=3 {
        let ending = world.clone().seed(seed).play();
        check(&ending, 3, &format!("seed {seed}"));
        let moved = ended(&ending, TerminationReason::Underutilized);
        assert_ne!(moved.len(), 0, "{}", common::timeline(&ending));
        let last = ending.last_writes.values().max().expect("something was written");
        assert!(*last < Duration::from_mins(12), "{last:?}\n{}", common::timeline(&ending));
    }
}

#[test]
fn an_empty_node_goes_after_consolidate_after_and_not_before() {
    let emptied = |consolidate_after: &str| {
        let disruption = json!({"consolidateAfter": consolidate_after, "budgets": [{"nodes": "100%"}]});
        world(pool(disruption), web(&[(minutes(3), 0)])).play()
    };
    let ending = emptied("4m");
    check(&ending, 0, "four minutes");
    let empty = ended(&ending, TerminationReason::Empty);
    assert_eq!(empty.len(), 2, "{}", common::timeline(&ending));
    // That its pods have gone is seen within a minute, and what is found is found again a minute
    // later.
    for claim in empty {
        let at = end_second(claim);
        assert!((420..=600).contains(&at), "{at}\n{}", common::timeline(&ending));
    }
    check(&emptied("Never"), 2, "never");
}

#[test]
fn new_images_roll_through_all_nodes_one_budget_at_a_time() {
    let world = world(pool(json!({"budgets": [{"nodes": "1"}]})), web(&[])).workload(api(&[]));
    let world = world.duration(minutes(40)).events([DRIFTS]);
    for seed in 1..=2 {
        let ending = world.clone().seed(seed).play();
        check(&ending, 4, &format!("seed {seed}"));
        let drifted = ended(&ending, TerminationReason::Drifted);
        assert_eq!((drifted.len(), ending.claims.len()), (4, 8), "{}", common::timeline(&ending));
        check_ready_first(&ending, TerminationReason::Drifted);
        for pair in drifted.windows(2) {
            let apart = end_second(pair[1]) - end_second(pair[0]);
            assert!(apart >= 60, "two at once\n{}", common::timeline(&ending));
        }
    }
}

/// Twelve pods of sixteen go and come again while four nodes may empty by themselves.
#[test]
fn drifted_nodes_empty_by_themselves_until_their_deadline() {
    let world = |deadline| {
        let disruption = json!({"budgets": [{"nodes": "100%"}]});
        let pool = pool(disruption).annotate(labels::DRIFT_DEADLINE, deadline);
        let web = web(&[(minutes(12), 1), (minutes(20), 8)]);
        let world = world(pool, web).workload(api(&[(minutes(12), 3), (minutes(20), 8)]));
        world.duration(minutes(70)).events([DRIFTS])
    };
    let at_once = world("0s").play();
    check(&at_once, 4, "at once");
    for seed in 1..=3 {
        let ending = world("30m").seed(seed).play();
        check(&ending, 4, &format!("seed {seed}"));
        let story = || common::timeline(&ending);
        assert!(ending.claims.len() < at_once.claims.len(), "{}", story());
        // What is empty after the twelfth minute goes within two more, what is not after the
        // thirty-fourth.
        let at: Vec<u64> = ended(&ending, TerminationReason::Drifted).into_iter().map(end_second).collect();
        let (early, late): (Vec<u64>, Vec<u64>) = at.into_iter().partition(|at| *at < 960);
        assert!(!early.is_empty() && early.iter().all(|at| *at >= 720), "{early:?}\n{}", story());
        assert!(
            !late.is_empty() && late.iter().all(|at| (2_040..=2_400).contains(at)),
            "{late:?}\n{}",
            story()
        );
    }
}

/// Each node that ended for a reason has a younger one, of its own, that had joined before its
/// drain began; that it was ready, the laws ask at that moment.
fn check_ready_first(ending: &Ending, reason: TerminationReason) {
    let old = ended(ending, reason);
    let first = old.iter().map(|claim| claim.created_at).max();
    let mut fresh: Vec<_> = ending.claims.iter().filter(|claim| Some(claim.created_at) > first).collect();
    fresh.sort_by_key(|claim| claim.status.registered_at);
    assert!(fresh.len() >= old.len(), "{}", common::timeline(ending));
    for (old, new) in old.into_iter().zip(fresh) {
        let begun = old.status.termination.as_ref().map(|end| end.since);
        let joined = new.status.registered_at;
        assert!(joined.is_some() && joined <= begun, "{}\n{}", old.name, common::timeline(ending));
    }
}

#[test]
fn what_keeps_a_node_keeps_it_and_the_verdict_says_so() {
    let no_nodes = |budget: Value| pool(json!({"budgets": [budget]}));
    let (shrinks, shy) = (web(&[(minutes(3), 4)]), web(&[]).annotate(labels::DO_NOT_DISRUPT, "true"));
    let no_drift = no_nodes(json!({"nodes": "0", "reasons": ["Drifted"]}));
    let never = unbound(web(&[])).budgets([max_unavailable("web", 0)]);
    let table = [
        (world(no_nodes(json!({"nodes": "0"})), shrinks), "BudgetClosed"),
        (world(no_drift, web(&[])).events([DRIFTS]), "BudgetClosed"),
        (unbound(shy).events([DRIFTS]), "asks not to be disrupted"),
        (never.events([DRIFTS]), "never lets the pod"),
    ];
    for (world, why) in table {
        let ending = world.play();
        check(&ending, 2, why);
        assert_eq!(ending.claims.len(), 2, "{why}\n{}", common::timeline(&ending));
        assert!(is_published(&ending, why), "{why}: {:?}", ending.published);
    }
}

#[test]
fn a_command_whose_replacement_cannot_be_had_is_given_up_and_its_node_stays_open() {
    let world = unbound(web(&[])).duration(minutes(19)).events([DRIFTS]);
    let ending = world.event(minutes(4), drought(None, minutes(40))).play();
    check(&ending, 2, "no capacity");
    assert!(ending.last_writes.contains_key("a command"), "{}", common::timeline(&ending));
    assert!(ended(&ending, TerminationReason::Drifted).is_empty(), "{}", common::timeline(&ending));
}

/// Nobody makes such a pod again, so that nothing is planned for it.
#[test]
fn a_node_on_which_only_strangers_are_left_goes_at_once() {
    let world = unbound(web(&[(minutes(3), 0)]));
    let ending = world.event(seconds(0), RogueBinding(minutes(2))).play();
    check(&ending, 0, "strangers");
    // A command that waits in vain is given up ten minutes on.
    assert!(ending.claims.iter().all(|claim| end_second(claim) < 540), "{}", common::timeline(&ending));
}

#[test]
fn pods_that_come_while_nodes_are_given_up_find_their_place() {
    for second in (170..=310).step_by(10) {
        let web = web(&[(seconds(150), 2), (seconds(second), 8)]);
        let ending = unbound(web).workload(api(&[])).play();
        check(&ending, 4, &format!("they come at {second} s"));
    }
}

#[test]
fn two_disrupts_at_once_commit_once() {
    let (function, before) = (Function::Disrupt, Call::WriteCommand);
    let world = world(pool(json!({"budgets": [{"nodes": "1"}]})), web(&[(seconds(150), 0)]))
        .event(minutes(2), Duplicate { function, length: minutes(15) })
        .event(seconds(239), Freeze { function, before, length: seconds(65) });
    for seed in 1..=3 {
        let ending = world.clone().seed(seed).play();
        check(&ending, 0, &format!("seed {seed}"));
        let empty = ended(&ending, TerminationReason::Empty);
        assert_eq!(empty.len(), 2, "{}", common::timeline(&ending));
        assert!(end_second(empty[1]) - end_second(empty[0]) >= 60, "{}", common::timeline(&ending));
    }
}

/// Of two nodes that are half-empty one remains, which has a new image.
#[test]
fn any_function_may_die_anywhere_meanwhile() {
    let world = unbound(web(&[(seconds(150), 4)])).duration(minutes(13)).events([DRIFTS]);
    for (function, runs, step, at_least) in [
        (Function::Disrupt, 5..=6, 2, 10),
        (Function::Provision, 6..=8, 7, 6),
        (Function::Lifecycle, 6..=8, 5, 6),
    ] {
        let mut deaths = 0;
        for run in runs {
            deaths += common::die_at_each_call(
                function,
                run,
                step,
                |kills| world.play_killing(kills),
                |ending, what| {
                    check(ending, 1, what);
                },
            );
        }
        assert!(deaths >= at_least, "{function}: only {deaths} calls were enumerated");
    }
}

#[test]
fn what_was_proposed_before_a_pause_is_found_again_after_it() {
    let disruption = json!({"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]});
    let world = world(pool(disruption), web(&[(minutes(3), 0)])).duration(minutes(30));
    let committed = |ending: &Ending| {
        let mut happenings = ending.summary.timeline.iter();
        let command = happenings.find(|happening| happening.text.contains("to be disrupted"));
        command.map(|command| command.at.as_secs()).expect("a command is committed")
    };
    // The pause comes between the look that proposes and the one that finds it again.
    let paused = committed(&world.play()) - 30;
    let pause = Pause { what: PauseScope::Disruption, length: Some(minutes(10)) };
    let ending = world.event(seconds(paused), pause).play();
    check(&ending, 0, "paused");
    // The first look comes within half a minute of its end, the second a minute later.
    let apart = committed(&ending) - paused;
    assert!((685..=695).contains(&apart), "{apart}\n{}", common::timeline(&ending));
}

#[test]
fn a_command_is_given_up_in_time_though_its_last_look_fails() {
    let world = unbound(web(SHRINKS)).workload(api(SHRINKS));
    let ending = world.event(seconds(150), throttle(Call::PodsOn, minutes(17))).play();
    let story = || format!("{}\n{:?}", common::timeline(&ending), ending.published);
    assert!(is_published(&ending, "what is on it cannot be read"), "{}", story());
}
