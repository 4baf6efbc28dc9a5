//! Spot machines that EC2 expects to take back: where that is wanted, what replaces one is ready
//! before its drain begins, and a node that may not go, or that nothing can replace, stays.

use outrigger_model::{ClaimState, NodeClaim, TerminationReason, labels};
use outrigger_simulation::EventKind::{Chaos, CopyTable, Interruption, Mishap, RestoreTable};
use outrigger_simulation::Interruption::{Rebalance, SpotWarning};
use outrigger_simulation::Mishap::SilenceKubelets;
use outrigger_simulation::{DisruptionBudget, Ending, Event, Function, Kill};
use serde_json::json;

use crate::common::{self, Pool, Workload, World, at, in_default, max_unavailable, minutes, seconds};

/// Spot nodes that are full of pods.
fn world() -> World {
    world_of(pool(), web())
}

fn world_of(pool: Pool, web: Workload) -> World {
    World::new("rebalance", minutes(20)).set("rebalance", "drain").pool(pool).cni().workload(web)
}

fn pool() -> Pool {
    Pool::new("spot").of_spot_large()
}

fn web() -> Workload {
    Workload::new("web", 8, "850m", "1Gi").labelled().grace(20)
}

const ONE: Event = at(minutes(3), Interruption(Rebalance, 1));

/// Everything runs on four nodes, and no command is left.
fn check_settled(ending: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    common::check_expected(ending, what);
    assert_eq!(ending.commands, Vec::new(), "{}", story());
    let living: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| !claim.status.state.is_terminal()).collect();
    for claim in &living {
        assert_eq!(
            (claim.status.state, &claim.status.command),
            (ClaimState::Initialized, &None),
            "{}",
            story()
        );
    }
    assert_eq!((living.len(), ending.instances.len(), ending.messages), (4, 4, 0), "{}", story());
}

fn rebalanced(ending: &Ending) -> Vec<&NodeClaim> {
    let for_it = |claim: &&NodeClaim| {
        claim.status.termination.as_ref().is_some_and(|end| end.reason == TerminationReason::Rebalanced)
    };
    ending.claims.iter().filter(for_it).collect()
}

/// Each node that was given up has a younger one that had joined before its drain began; that it
/// was ready, the laws ask at that moment.
fn check_ready_first(ending: &Ending, what: &str) {
    for old in rebalanced(ending) {
        let begun = old.status.termination.as_ref().map(|end| end.since);
        let has_joined =
            |new: &&NodeClaim| new.created_at > old.created_at && new.status.registered_at <= begun;
        let joined = ending.claims.iter().filter(has_joined).filter(|new| new.status.registered_at.is_some());
        assert_ne!(joined.count(), 0, "{what}: {}\n{}", old.name, common::timeline(ending));
    }
}

#[test]
fn what_replaces_a_node_is_ready_before_its_drain_begins() {
    for budget in [None, Some(max_unavailable("web", 1))] {
        for seed in 1..=5 {
            let ending = world().seed(seed).budgets(budget.clone()).events([ONE]).play();
            let what = format!("seed {seed} {budget:?}");
            check_settled(&ending, &what);
            check_ready_first(&ending, &what);
            let counts = (rebalanced(&ending).len(), ending.claims.len());
            assert_eq!(counts, (1, 5), "{what}: one goes, one comes\n{}", common::timeline(&ending));
            let (old, new) =
                (rebalanced(&ending)[0], ending.claims.iter().max_by_key(|claim| claim.created_at));
            let offering = |claim: &NodeClaim| {
                claim.status.instance.as_ref().map(|i| (i.instance_type.clone(), i.zone.clone()))
            };
            assert_ne!(offering(old), offering(new.unwrap()), "what is at risk is not bought again");
        }
    }
}

#[test]
fn all_nodes_may_be_at_risk_at_once() {
    for seed in 1..=3 {
        let ending = world().seed(seed).event(minutes(3), Interruption(Rebalance, 4)).play();
        check_settled(&ending, &format!("seed {seed}"));
        check_ready_first(&ending, &format!("seed {seed}"));
        assert_eq!(rebalanced(&ending).len(), 4, "{}", common::timeline(&ending));
    }
}

/// Room that is there already need not be waited for.
#[test]
fn a_node_whose_pods_fit_elsewhere_is_drained_without_a_replacement() {
    let shrinking = web().scale(&[(minutes(4), 5)]);
    let ending = world_of(pool(), shrinking).event(minutes(5), Interruption(Rebalance, 1)).play();
    let story = common::timeline(&ending);
    common::check_laws(&ending, "");
    assert_eq!((rebalanced(&ending).len(), ending.claims.len()), (1, 4), "{story}");
}

#[test]
fn a_node_that_may_not_go_or_that_nothing_replaces_stays() {
    let shy = web().annotate(labels::DO_NOT_DISRUPT, "true");
    let shy_nodes = pool().annotate_nodes(labels::DO_NOT_DISRUPT, "true");
    let limited = pool().spec("limits", json!({"cpu": "8"}));
    let table = [
        (world_of(pool(), shy), "asks not to be disrupted"),
        (world_of(shy_nodes, web()), "asks not to be disrupted"),
        (world().budgets([max_unavailable("web", 0)]), "never lets the pod"),
        (world_of(limited, web()), "was ready within 10m"),
    ];
    for (world, why) in table {
        let ending = world.events([ONE]).play();
        check_settled(&ending, why);
        assert_eq!(ending.claims.len(), 4, "{why}\n{}", common::timeline(&ending));
        let published = |(_, reason, text): &(_, &'static str, String)| {
            *reason == "DisruptionBlocked" && text.contains(why)
        };
        assert!(ending.published.iter().any(published), "{why}: {:?}", ending.published);
    }
}

/// Pods that left a node which nobody hears of end already. No budget keeps the node for them, as
/// two of them keep the others.
#[test]
fn a_node_whose_pods_end_already_goes_whatever_their_budgets_say() {
    let second = DisruptionBudget { id: in_default("too"), ..max_unavailable("web", 1) };
    let ending = world()
        .budgets([max_unavailable("web", 1), second])
        .event(minutes(3), Mishap(SilenceKubelets, 1))
        .event(minutes(9), Interruption(Rebalance, 4))
        .play();
    check_settled(&ending, "one is silent");
    assert_eq!(rebalanced(&ending).len(), 1, "{}", common::timeline(&ending));
}

#[test]
fn a_machine_that_is_taken_while_its_replacement_starts_goes_the_usual_way() {
    let taken = at(seconds(200), Interruption(SpotWarning, 1));
    for seed in 1..=5 {
        let ending = world().seed(seed).events([ONE, taken.clone()]).play();
        check_settled(&ending, &format!("seed {seed}"));
        let story = || common::timeline(&ending);
        let taken = ending.claims.iter().filter_map(|claim| claim.status.termination.as_ref());
        let reasons: Vec<_> = taken.map(|end| end.reason).collect();
        assert_eq!(reasons, [TerminationReason::Interrupted], "{}", story());
        assert_eq!(ending.claims.len(), 5, "bought once\n{}", story());
    }
}

#[test]
fn any_function_may_die_anywhere_while_a_node_is_replaced() {
    for (function, runs, at_least) in
        [(Function::Interrupt, 1..=1, 4), (Function::Provision, 4..=6, 10), (Function::Lifecycle, 4..=8, 15)]
    {
        let mut deaths = 0;
        for run in runs {
            let play = |kills: &[Kill]| world().events([ONE]).play_killing(kills);
            deaths += common::die_at_each_call(function, run, 1, play, |ending, what| {
                check_settled(ending, what);
                check_ready_first(ending, what);
                let bought =
                    ending.claims.iter().filter(|claim| claim.status.state != ClaimState::Failed).count();
                let story = || common::timeline(ending);
                assert_eq!((bought, rebalanced(ending).len()), (5, 1), "{what}\n{}", story());
            });
        }
        assert!(deaths >= at_least, "{function}: only {deaths} calls were enumerated");
    }
}

/// A copy of the table may lack a command that was written shortly before.
#[test]
fn a_command_that_a_restored_table_lacks_holds_nothing_up() {
    let mut undone = 0;
    for seed in [1, 2] {
        for second in 0..6 {
            let copied = seconds(180 + second);
            let ending = world()
                .seed(seed)
                .events([ONE, at(copied, CopyTable), at(copied, RestoreTable)])
                .event(minutes(6), Interruption(Rebalance, 1))
                .play();
            let what = format!("seed {seed}, copied after {second} s");
            check_settled(&ending, &what);
            check_ready_first(&ending, &what);
            undone += usize::from(rebalanced(&ending).len() < 2);
        }
    }
    assert_eq!(undone, 1, "one of the copies lacks the command");
}

#[test]
fn chance_breaks_no_law_while_nodes_are_replaced() {
    for seed in common::seeds(10) {
        let ending = world()
            .seed(seed)
            .event(seconds(1), Chaos { percent: 8, length: minutes(8) })
            .event(minutes(2), Interruption(Rebalance, 2))
            .event(minutes(4), Interruption(SpotWarning, 1))
            .event(minutes(6), Interruption(Rebalance, 1))
            .play();
        check_settled(&ending, &format!("seed {seed}: OUTRIGGER_SEEDS={seed}..{seed} plays it alone"));
        check_ready_first(&ending, &format!("seed {seed}"));
    }
}
