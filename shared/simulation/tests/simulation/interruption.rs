//! Machines that EC2 takes back: their nodes are closed within seconds, what replaces them is
//! launched before they fall, and nothing is launched twice, whatever becomes of the events.

use outrigger_model::{ClaimState, NodeClaim, TerminationReason};
use outrigger_simulation::EventKind::{
    Chaos, EventsAstray, ForeignInstances, Freeze, Interruption, LedgerDown, Mishap, ReclaimInstances, Stuck,
};
use outrigger_simulation::Interruption::{ForgedTermination, Rebalance, ScheduledChange, SpotWarning};
use outrigger_simulation::Mishap::StopInstances;
use outrigger_simulation::{Call, Crash, DisruptionBudget, Ending, Event, Function, Kill, Kind};

use crate::common::{self, Pool, Workload, World, at, max_unavailable, minutes, seconds, throttle};

/// Spot nodes that are full of pods.
fn world(seed: u64, length: u64) -> World {
    World::new("interruption", minutes(length))
        .seed(seed)
        .pool(Pool::new("spot").of_spot_large())
        .cni()
        .workload(Workload::new("web", 8, "850m", "1Gi").labelled().grace(20))
}

/// One pod of a workload may be away at a time, so that a drain lasts.
fn one_at_a_time() -> DisruptionBudget {
    max_unavailable("web", 1)
}

/// EC2 warns of so many machines after three minutes.
const fn warned(count: usize) -> Event {
    at(minutes(3), Interruption(SpotWarning, count))
}

/// Everything runs, and nothing is left of what was taken.
fn check_settled(ending: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    common::check_expected(ending, what);
    let living: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| !claim.status.state.is_terminal()).collect();
    for claim in &living {
        assert_eq!(claim.status.state, ClaimState::Initialized, "{}\n{}", claim.name, story());
    }
    assert_eq!(
        (living.len(), ending.mirrors.len()),
        (ending.instances.len(), ending.nodes.len()),
        "{}",
        story()
    );
    assert_eq!(ending.messages, 0, "{}", story());
}

/// The same, on as many nodes as before.
fn check_replaced(ending: &Ending, what: &str) {
    check_settled(ending, what);
    let story = || format!("{what}\n{}", common::timeline(ending));
    assert_eq!((ending.instances.len(), ending.dead_letters), (4, 0), "{}", story());
}

fn interrupted(ending: &Ending) -> Vec<&NodeClaim> {
    let for_it = |claim: &&NodeClaim| {
        claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Interrupted)
    };
    ending.claims.iter().filter(for_it).collect()
}

/// When the first thing with this text happened, in seconds; what never happened compares with
/// nothing.
fn when(ending: &Ending, text: &str) -> f64 {
    let found = ending.summary.timeline.iter().find(|happening| happening.text.contains(text));
    found.map_or(f64::NAN, |happening| happening.at.as_secs_f64())
}

/// The times of launches after a time, in seconds.
fn launches(ending: &Ending, after: f64) -> Vec<f64> {
    let launches = ending.summary.timeline.iter().filter(|happening| happening.kind == Kind::Launch);
    launches.map(|launch| launch.at.as_secs_f64()).filter(|at| *at > after).collect()
}

#[test]
fn a_warned_node_is_closed_and_replaced_before_it_falls_and_only_once() {
    let (none, one) = (None, Some(one_at_a_time()));
    let table = [(none.clone(), 180), (one.clone(), 180), (none, 178), (one, 200)];
    for (budget, second) in table {
        for seed in 1..=5 {
            let world = world(seed, 12).budgets(budget.clone());
            let ending = world.event(seconds(second), Interruption(SpotWarning, 1)).play();
            let what = format!("seed {seed} {budget:?}");
            let story = || format!("{what}\n{}", common::timeline(&ending));
            check_replaced(&ending, &what);
            assert_eq!(interrupted(&ending).len(), 1, "{}", story());
            let warned = when(&ending, "EC2 will take back");
            assert!(when(&ending, "is closed") - warned <= 5.0, "{}", story());
            let replaced = launches(&ending, warned);
            assert_eq!(replaced.len(), 1, "one launch, however often the plan is made\n{}", story());
            assert!(replaced[0] - warned <= 8.0, "{}", story());
            assert_eq!(ending.claims.len(), 5, "{}", story());
        }
    }
}

#[test]
fn all_nodes_may_be_taken_at_once() {
    for seed in 1..=5 {
        let ending = world(seed, 14).events([warned(4)]).play();
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        check_replaced(&ending, &story());
        assert_eq!((interrupted(&ending).len(), ending.claims.len()), (4, 8), "{}", story());
        let warned = when(&ending, "EC2 will take back");
        assert!(launches(&ending, warned).iter().all(|at| at - warned <= 8.0), "{}", story());
    }
}

/// An event that somebody forged drains a node, under the rules of every drain: EC2 is asked before
/// an instance is given up with its pods, and says that it runs.
#[test]
fn a_forged_event_ends_no_machine_under_its_pods() {
    let world = world(1, 12).event(minutes(3), Interruption(ForgedTermination, 1));
    let ending = world.clone().budgets([one_at_a_time()]).play();
    let story = || common::timeline(&ending);
    let ends: Vec<_> = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref()).collect();
    let [end] = &ends[..] else { panic!("{} claims end: {}", ends.len(), story()) };
    assert_eq!(end.reason, TerminationReason::Lost, "{}", story());
    assert!(end.drained_at.is_some_and(|at| Some(at) <= end.terminating_at), "{}", story());
    check_replaced(&ending, &story());
    let mut scenario = world.scenario();
    scenario.workloads[0].do_not_disrupt = Some("true".into());
    let held = common::run_scenario(&scenario, &[]);
    let story = || common::timeline(&held);
    common::check_laws(&held, "");
    let draining: Vec<&NodeClaim> =
        held.claims.iter().filter(|claim| claim.status.state == ClaimState::Draining).collect();
    let [claim] = &draining[..] else { panic!("{} claims drain: {}", draining.len(), story()) };
    let runs = held.instances.iter().any(|(id, _)| claim.instance_id() == Some(id));
    let on = held.pods.iter().filter(|pod| pod.node_name == claim.status.node_name).count();
    assert!(runs && on >= 2, "{runs}, {on} pods: {}", story());
}

#[test]
fn what_was_taken_is_not_bought_again_at_once() {
    for seed in 1..=5 {
        let ending = world(seed, 12).events([warned(1)]).play();
        let taken = interrupted(&ending)[0].status.instance.clone().unwrap();
        let offering = |claim: &&NodeClaim| {
            let instance = claim.status.instance.as_ref().unwrap();
            (&instance.instance_type, &instance.zone) == (&taken.instance_type, &taken.zone)
        };
        let before = ending.claims.iter().filter(offering).count();
        let youngest = ending.claims.iter().max_by_key(|claim| claim.created_at).unwrap();
        assert!(!offering(&youngest), "{before} of {taken:?}\n{}", common::timeline(&ending));
    }
}

#[test]
fn a_machine_that_is_taken_before_it_joins_is_given_up() {
    let ending = world(1, 12).event(seconds(20), Interruption(SpotWarning, 2)).play();
    let story = || common::timeline(&ending);
    check_replaced(&ending, &story());
    let taken = interrupted(&ending);
    assert_eq!(taken.len(), 2, "{}", story());
    for claim in taken {
        let end = claim.status.termination.as_ref().unwrap();
        assert_eq!(
            (claim.status.registered_at, end.tainted_at, end.drained_at),
            (None, None, None),
            "{}",
            story()
        );
    }
}

#[test]
fn every_kind_of_event_has_its_answer() {
    let table = [
        (Interruption(Rebalance, 1), 4, None, "SpotRebalanceRecommendation"),
        (Interruption(ScheduledChange, 1), 5, Some(TerminationReason::Interrupted), "InstanceUnhealthy"),
        (Mishap(StopInstances, 1), 5, Some(TerminationReason::Lost), "InstanceStopping"),
        (ReclaimInstances(1), 5, Some(TerminationReason::Lost), "InstanceTerminating"),
    ];
    for (kind, claims, reason, event) in table {
        let ending = world(1, 12).event(seconds(200), kind.clone()).play();
        let story = || format!("{kind:?}\n{}", common::timeline(&ending));
        check_replaced(&ending, &story());
        assert_eq!(ending.claims.len(), claims, "{}", story());
        let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
        assert_eq!(ends.map(|end| end.reason).collect::<Vec<_>>(), Vec::from_iter(reason), "{}", story());
        assert!(
            ending.published.iter().any(|(_, reason, _)| *reason == event),
            "{kind:?}: {:?}",
            ending.published
        );
    }
}

/// Events that never come cost time: the sweep sees what has ended.
#[test]
fn events_may_be_lost_doubled_late_and_out_of_order() {
    for seed in common::seeds(20) {
        let astray = EventsAstray { percent: 10 + seed % 5 * 10, length: minutes(12) };
        let ending = world(seed, 25)
            .budgets([one_at_a_time()])
            .event(seconds(1), astray)
            .event(minutes(2), Interruption(SpotWarning, 2))
            .event(minutes(4), Mishap(StopInstances, 1))
            .event(minutes(5), Interruption(ScheduledChange, 1))
            .event(minutes(6), ForeignInstances(3))
            .play();
        let story = || format!("seed {seed}\n{}", common::timeline(&ending));
        common::check_expected(&ending, &format!("seed {seed}"));
        let living = ending.claims.iter().filter(|claim| !claim.status.state.is_terminal());
        assert!(living.clone().all(|claim| claim.status.state == ClaimState::Initialized), "{}", story());
        assert_eq!(living.count(), 4, "{}", story());
        assert_eq!((ending.messages, ending.dead_letters), (0, 0), "{}", story());
    }
}

/// Whatever has ended is found by the sweep alone.
#[test]
fn what_ends_is_found_where_no_event_is_ever_handled() {
    let ending = world(1, 25)
        .budgets([one_at_a_time()])
        .event(minutes(2), throttle(Call::Handled, minutes(20)))
        .event(minutes(3), ReclaimInstances(1))
        .event(minutes(6), Mishap(StopInstances, 1))
        .play();
    let story = || common::timeline(&ending);
    check_settled(&ending, &story());
    let ends = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
    let reasons: Vec<_> = ends.map(|end| end.reason).collect();
    assert_eq!(reasons.len(), 2, "{}", story());
    for reason in [TerminationReason::InstanceGone, TerminationReason::Lost] {
        assert!(reasons.contains(&reason), "{reasons:?}\n{}", story());
    }
    assert!(ending.dead_letters > 0, "{}", story());
    assert_eq!(ending.instances.len(), 4, "{}", story());
}

/// A launch whose answer was not written down is found again by its tag; until then its instance
/// may be ours.
#[test]
fn a_warning_about_an_instance_that_no_claim_has_yet_waits_for_its_launch() {
    let kill = Kill { function: Function::Provision, run: 1, crash: Crash::After(Call::CreateFleet) };
    let world = world(1, 14).event(seconds(8), Interruption(SpotWarning, 2));
    let ending = world.play_killing(&[kill]);
    let story = || common::timeline(&ending);
    check_replaced(&ending, &story());
    assert_eq!((ending.deaths, interrupted(&ending).len()), (1, 2), "{}", story());
    assert!(ending.summary.timeline.iter().any(|line| line.text.contains("to come again")), "{}", story());
}

#[test]
fn what_fails_again_and_again_goes_to_the_dead_letters() {
    let world = world(1, 25).event(minutes(3), LedgerDown(minutes(5)));
    let ending = world.event(seconds(185), Interruption(SpotWarning, 1)).play();
    let story = || common::timeline(&ending);
    check_settled(&ending, &story());
    assert!(ending.dead_letters >= 1, "{}", story());
    assert_eq!(ending.instances.len(), 4, "{}", story());
}

/// What is said of other machines meanwhile is handled, also in the same batch: while the first two
/// messages keep both pollers waiting in vain, the other two gather.
#[test]
fn only_the_message_that_fails_goes_to_the_dead_letters() {
    let stuck = Stuck { call: Call::Interrupt, length: minutes(18) };
    let events = [at(seconds(170), stuck), at(minutes(3), Interruption(ScheduledChange, 4))];
    let (function, before) = (Function::Interrupt, Call::Handled);
    let waits = at(seconds(170), Freeze { function, before, length: seconds(11) });
    for (seed, waits) in (1..=5).flat_map(|seed| [(seed, Vec::new()), (seed, vec![waits.clone(); 2])]) {
        let what = format!("seed {seed} {waits:?}");
        let ending = world(seed, 14).events(waits).events(events.clone()).play();
        let story = || format!("{what}\n{}", common::timeline(&ending));
        check_settled(&ending, &story());
        assert_eq!((interrupted(&ending).len(), ending.dead_letters), (3, 1), "{}", story());
    }
}

/// Whoever dies on the way: the queue delivers again, and the ticks go on.
#[test]
fn any_function_may_die_anywhere_while_a_machine_is_taken() {
    let world = world(1, 14).events([warned(2)]);
    for (function, runs, at_least) in
        [(Function::Interrupt, 1..=2, 4), (Function::Provision, 4..=6, 10), (Function::Lifecycle, 4..=8, 15)]
    {
        let mut deaths = 0;
        for run in runs {
            let play = |kills: &[Kill]| world.play_killing(kills);
            deaths += common::die_at_each_call(function, run, 1, play, |ending, what| {
                check_replaced(ending, what);
                let bought =
                    ending.claims.iter().filter(|claim| claim.status.state != ClaimState::Failed).count();
                assert_eq!(bought, 6, "{what}\n{}", common::timeline(ending));
            });
        }
        assert!(deaths >= at_least, "{function}: only {deaths} calls were enumerated");
    }
}

#[test]
fn chance_breaks_no_law_while_machines_are_taken() {
    for seed in common::seeds(20) {
        let (function, before) = (Function::Interrupt, Call::Interrupt);
        let ending = world(seed, 50)
            .budgets([one_at_a_time()])
            .event(seconds(1), Chaos { percent: 4 + seed % 9, length: minutes(8) })
            .event(minutes(2), Interruption(SpotWarning, 2))
            .event(minutes(4), Interruption(SpotWarning, 2))
            .event(minutes(6), Freeze { function, before, length: seconds(8) })
            .event(minutes(6), Interruption(SpotWarning, 1))
            .play();
        check_settled(&ending, &format!("seed {seed}: OUTRIGGER_SEEDS={seed}..{seed} plays it alone"));
    }
}
