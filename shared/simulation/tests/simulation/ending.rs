//! Nodes that must go: their pods leave kindly and come back elsewhere, their instances end, and
//! nothing is left behind.

use outrigger_model::{ClaimState, NodeClaim, TerminationReason, labels};
use outrigger_simulation::EventKind::{
    CopyTable, DeleteNodeClaims, DeleteNodes, ForeignInstances, LateInstances, NeverJoin, NeverReady,
    PodsHang, ReclaimInstances, RestoreTable, Slow, StrayInstances,
};
use outrigger_simulation::{Call, DisruptionBudget, Ending, Event, Function, Kill};

use crate::common::{
    self, Pool, Workload, World, at, in_default, max_unavailable, min_available, minutes, pods, seconds,
    throttle,
};

fn pool() -> Pool {
    Pool::new("general").of_m6a_large()
}

/// A pool whose nodes are waited for so long.
fn hasty_pool(grace: &str) -> Pool {
    pool().template("terminationGracePeriod", grace)
}

fn web() -> Workload {
    Workload::new("web", 6, "400m", "1Gi").labelled().grace(20)
}

/// Pods that nobody may make leave.
fn shy_web() -> Workload {
    web().annotate(labels::DO_NOT_DISRUPT, "true")
}

/// One pool, a workload that fills several nodes, and a daemon that does not bear the drain's
/// taint.
fn world(pool: Pool, web: Workload) -> World {
    let world = World::new("ending", minutes(12)).sold(&["m6a"]).boot_time(25).pool(pool);
    world.cni().daemon_set("agent", pods("50m", "64Mi")).workload(web)
}

/// The same with a second workload.
fn usual(pool: Pool, web: Workload) -> World {
    world(pool, web).workload(Workload::new("api", 3, "300m", "1Gi").labelled())
}

const DELETED: Event = at(minutes(3), DeleteNodes(1));

/// A budget that lets no pod of `web` go.
fn too_tight() -> Vec<DisruptionBudget> {
    vec![min_available("web", 6)]
}

/// Two budgets that both are about the pods of `web`, which the Eviction API refuses.
fn twice() -> Vec<DisruptionBudget> {
    let named = |name| DisruptionBudget { id: in_default(name), ..min_available("web", 0) };
    vec![named("a"), named("b")]
}

/// Budgets that let pods go one by one.
fn budgets() -> Vec<DisruptionBudget> {
    vec![max_unavailable("web", 1), min_available("api", 2)]
}

/// Everything runs, nothing is on its way out, and ledger, EC2 and cluster agree.
fn check_settled(ending: &Ending, what: &str) {
    let story = || format!("{what}\n{}", common::timeline(ending));
    common::check_expected(ending, what);
    let open = ending.intents.iter().filter(|intent| intent.ended_at.is_none()).count();
    assert_eq!(open, 0, "no launch stays open\n{}", story());
    let living: Vec<&NodeClaim> =
        ending.claims.iter().filter(|claim| !claim.status.state.is_terminal()).collect();
    for claim in &living {
        assert_eq!(claim.status.state, ClaimState::Initialized, "{}\n{}", claim.name, story());
    }
    let ours = ending.instances.iter().filter(|(_, launch)| launch != "none").count();
    assert_eq!(living.len(), ours, "{}", story());
    assert_eq!(living.len(), ending.nodes.len(), "{}", story());
    assert_eq!(living.len(), ending.mirrors.len(), "{}", story());
}

fn ended(ending: &Ending, reason: TerminationReason) -> usize {
    let for_it = |claim: &&NodeClaim| {
        claim.status.state == ClaimState::Gone
            && claim.status.termination.as_ref().is_some_and(|end| end.reason == reason)
    };
    ending.claims.iter().filter(for_it).count()
}

fn is_published(ending: &Ending, reason: &str, part: &str) -> bool {
    ending.published.iter().any(|(_, given, message)| *given == reason && message.contains(part))
}

#[test]
fn deleted_nodes_and_claims_are_drained_and_replaced() {
    for budgets in [Vec::new(), budgets()] {
        for seed in 1..=5 {
            let world = usual(pool(), web()).seed(seed).budgets(budgets.clone());
            let ending = world.events([DELETED]).event(minutes(4), DeleteNodeClaims(1)).play();
            check_settled(&ending, &format!("seed {seed} {budgets:?}"));
            assert_eq!(ended(&ending, TerminationReason::Deleted), 2, "{}", common::timeline(&ending));
        }
    }
}

#[test]
fn a_budget_that_allows_nothing_holds_the_drain_and_is_named() {
    let ending = usual(pool(), web()).budgets(too_tight()).events([DELETED]).play();
    let story = common::timeline(&ending);
    common::check_laws(&ending, "");
    let draining = ending.claims.iter().filter(|claim| claim.status.state == ClaimState::Draining).count();
    assert_eq!(draining, 1, "{story}");
    assert!(is_published(&ending, "FailedDraining", "the disruption budget web"), "{:?}", ending.published);
}

#[test]
fn patience_ends_with_the_grace_period_of_the_pool() {
    let table = [(1, too_tight(), web()), (2, Vec::new(), shy_web()), (3, twice(), web())];
    for (seed, budgets, web) in table {
        let play = |pool| {
            let world = usual(pool, web.clone()).seed(seed).budgets(budgets.clone());
            world.events([DELETED]).play()
        };
        let held = play(pool());
        common::check_laws(&held, "");
        assert_eq!(ended(&held, TerminationReason::Deleted), 0, "{}", common::timeline(&held));
        // Pods are asked for nine minutes: 142 times with growing pauses, and 444 times by each
        // look.
        let refused = held.tally.refused_evictions;
        assert!(refused <= 200, "asked {refused} times\n{}", common::timeline(&held));
        let ending = play(hasty_pool("2m"));
        check_settled(&ending, &format!("seed {seed}"));
        assert_eq!(ended(&ending, TerminationReason::Deleted), 1, "{}", common::timeline(&ending));
        assert!(is_published(&ending, "TerminationGracePeriodExpiring", "grace"), "{:?}", ending.published);
    }
}

/// A run that has seen patience end goes on with it when an older table takes the ledger's place;
/// the next begins anew.
#[test]
fn a_table_restored_while_patience_ends_loses_no_drain() {
    for (seed, second) in (1..=4).flat_map(|seed| (222..=232).step_by(2).map(move |second| (seed, second))) {
        let world = usual(hasty_pool("1m"), web()).seed(seed).set("adopt", true).budgets(too_tight());
        let ending = world
            .event(seconds(150), CopyTable)
            .events([DELETED])
            .event(seconds(215), Slow(minutes(1)))
            .event(seconds(second), RestoreTable)
            .play();
        check_settled(&ending, &format!("seed {seed}, restored after {second} s"));
        assert_eq!(ended(&ending, TerminationReason::Deleted), 1, "{}", common::timeline(&ending));
    }
}

#[test]
fn no_node_is_bought_for_pods_that_will_not_leave() {
    let never = vec![max_unavailable("web", 0)];
    let shy_for_a_while = web().annotate(labels::DO_NOT_DISRUPT, "6m");
    // Budgets, pods, the pool, and how many nodes are bought for the pods of the one that is
    // deleted.
    let table = [
        (Vec::new(), web(), pool(), 1),
        (too_tight(), web(), pool(), 1),
        (never, web(), pool(), 0),
        (twice(), web(), pool(), 0),
        (Vec::new(), shy_web(), pool(), 0),
        (Vec::new(), shy_for_a_while, pool(), 1),
        (Vec::new(), shy_web(), hasty_pool("2m"), 1),
        (Vec::new(), shy_web(), hasty_pool("1h"), 0),
    ];
    for (row, (budgets, web, pool, bought)) in table.into_iter().enumerate() {
        let ending = world(pool, web).budgets(budgets).events([DELETED]).play();
        let story = || format!("row {row}\n{}", common::timeline(&ending));
        common::check_laws(&ending, &format!("row {row}"));
        assert_eq!(ending.claims.len(), 2 + bought, "{}", story());
    }
}

#[test]
fn patience_ends_even_for_pods_that_cannot_be_asked() {
    for refused in [Call::Evict, Call::DeletePod, Call::PodsOn, Call::ChangeNode] {
        let world = usual(hasty_pool("1m"), web());
        let ending = world.event(seconds(175), throttle(refused, seconds(170))).events([DELETED]).play();
        check_settled(&ending, &format!("{refused:?}"));
        assert_eq!(ended(&ending, TerminationReason::Deleted), 1, "{}", common::timeline(&ending));
        let given_up =
            ending.claims.iter().find_map(|claim| claim.status.termination.as_ref()?.terminating_at);
        let begun = ending.claims.iter().find_map(|claim| Some(claim.status.termination.as_ref()?.since));
        let took = given_up.unwrap().duration_since(begun.unwrap()).as_secs();
        assert!((5..=70).contains(&took), "{refused:?}: it took {took} s");
    }
}

#[test]
fn pods_that_do_not_end_hold_the_drain_for_a_minute() {
    for seed in 1..=3 {
        let world = usual(pool(), web()).seed(seed);
        let ending = world.event(minutes(2), PodsHang(minutes(5))).events([DELETED]).play();
        check_settled(&ending, &format!("seed {seed}"));
    }
}

#[test]
fn volumes_are_detached_before_their_machine_ends() {
    for seed in 1..=5 {
        let world = usual(pool(), web().set("volumes", true)).seed(seed);
        let ending = world.events([DELETED]).event(minutes(5), DeleteNodeClaims(1)).play();
        check_settled(&ending, &format!("seed {seed}"));
        assert_eq!(ended(&ending, TerminationReason::Deleted), 2, "{}", common::timeline(&ending));
        // Volumes are never detached in less than four seconds, and their pods leave before.
        let waited = |claim: &NodeClaim| {
            let end = claim.status.termination.as_ref()?;
            Some(end.terminating_at?.duration_since(end.tainted_at?).as_secs())
        };
        assert!(
            ending.claims.iter().filter_map(waited).all(|seconds| seconds >= 9),
            "{}",
            common::timeline(&ending)
        );
    }
}

#[test]
fn a_machine_that_never_joins_is_terminated_and_its_console_told() {
    let world = usual(pool(), web()).duration(minutes(25));
    let ending = world.event(seconds(0), NeverJoin(minutes(1))).play();
    check_settled(&ending, "never joins");
    assert!(ended(&ending, TerminationReason::NotRegistered) == 2, "{}", common::timeline(&ending));
    assert!(
        is_published(&ending, "NotRegistered", "its console tells: nodeup failed"),
        "{:?}",
        ending.published
    );
}

#[test]
fn a_node_that_never_becomes_ready_is_given_up() {
    let world = usual(pool(), web()).seed(2).duration(minutes(20)).set("initializationTimeout", "5m");
    let ending = world.event(seconds(0), NeverReady(seconds(28))).play();
    check_settled(&ending, "never ready");
    assert!(ended(&ending, TerminationReason::NotInitialized) >= 1, "{}", common::timeline(&ending));
}

#[test]
fn nodes_that_have_lived_long_enough_are_replaced() {
    let ending = usual(pool().template("expireAfter", "6m"), web()).budgets(budgets()).play();
    let story = common::timeline(&ending);
    common::check_laws(&ending, "");
    assert!(ended(&ending, TerminationReason::Expired) >= 2, "{story}");
}

#[test]
fn machines_that_somebody_else_ends_are_cleared_up_and_replaced() {
    for seed in 1..=5 {
        let ending = usual(pool(), web()).seed(seed).event(minutes(3), ReclaimInstances(2)).play();
        check_settled(&ending, &format!("seed {seed}"));
        // By the sweep, or by interrupt, whoever heard of it first.
        let gone = ended(&ending, TerminationReason::InstanceGone) + ended(&ending, TerminationReason::Lost);
        assert_eq!(gone, 2, "{}", common::timeline(&ending));
    }
}

#[test]
fn late_instances_are_collected_and_strangers_left_to_people() {
    let late = [LateInstances(2), StrayInstances(2), ForeignInstances(5)];
    let ending = usual(pool(), web()).events(late.map(|kind| at(minutes(3), kind))).play();
    let story = common::timeline(&ending);
    common::check_laws(&ending, "");
    // Tags of ours alone end nothing: whoever may write tags could end any instance.
    let strangers = ending.instances.iter().filter(|(_, launch)| launch == "none").count();
    assert_eq!(strangers, 7, "{story}");
}

/// Lifecycle may die after any call of the runs in which nodes leave.
#[test]
fn lifecycle_may_die_anywhere_on_the_way_out() {
    let events = [DeleteNodes(1), DeleteNodeClaims(2), LateInstances(1)];
    let world = usual(pool(), web()).duration(minutes(9)).budgets(budgets());
    let world = world.events(events.map(|kind| at(minutes(3), kind)));
    let play = |kills: &[Kill]| world.play_killing(kills);
    let die = |run| common::die_at_each_call(Function::Lifecycle, run, 1, play, check_settled);
    let deaths: usize = (5..=8).map(die).sum();
    assert!(deaths >= 40, "only {deaths} calls were enumerated");
}
